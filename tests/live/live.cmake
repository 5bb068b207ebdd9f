# Real attaches, one CTest test a file: they time things and look at what is left in the kernel, so they run alone.
set(live_python "$ENV{PROFTRACE_PYTHON}")
if(PROFTRACE_ORACLE_PYTHON)
  list(GET PROFTRACE_ORACLE_PYTHON 0 live_python)
  list(GET PROFTRACE_ORACLE_PYTHON -1 cuda_python)  # rather a wheel, which brings the CUDA Runtime
else()
  set(cuda_python "${live_python}")
endif()
set(cupti_double "")
if(TARGET cupti_double)
  set(cupti_double $<TARGET_FILE:cupti_double>)
endif()
foreach(test IN ITEMS agent all bounds children cuda damage dump exit_codes faults flight gpu gpu_children gpu_kinds harmless injection loss memory namespaces options outputs ranges ranks sample sched stacks steps system threads views)
  set(python "${live_python}")
  if(test MATCHES "^(agent|cuda)$")
    set(python "${cuda_python}")
  endif()
  add_test(NAME live_${test}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/${test}_test.py)
  set_tests_properties(live_${test} PROPERTIES
    LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 300 RUN_SERIAL ON
    ENVIRONMENT "PROFTRACE_BINARY=$<TARGET_FILE:proftrace>;PROFTRACE_ORACLE_PYTHON=${python};PROFTRACE_CUDA_DOUBLE=$<TARGET_FILE_DIR:cuda_runtime_double>;PROFTRACE_INJECTION=$<TARGET_FILE_DIR:inject>;PROFTRACE_SYSTEM_JOB=$<TARGET_FILE:system_job>;PROFTRACE_CUPTI_DOUBLE=${cupti_double}")
endforeach()

add_executable(perf_links_test perf_links_test.cc root_main.cc)
target_link_libraries(perf_links_test PRIVATE proftrace_capture proftrace_warnings GTest::gtest)
add_test(NAME live_perf_links COMMAND perf_links_test)
set_tests_properties(live_perf_links PROPERTIES
  LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 180 RUN_SERIAL ON)

add_executable(hostile_inputs_test hostile_inputs_test.cc root_main.cc)
target_link_libraries(hostile_inputs_test
  PRIVATE proftrace_capture proftrace_decode proftrace_warnings GTest::gtest)
add_test(NAME live_hostile_inputs COMMAND hostile_inputs_test)
set_tests_properties(live_hostile_inputs PROPERTIES
  LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 180 RUN_SERIAL ON)
