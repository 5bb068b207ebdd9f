# The checks of the source and of what is built that CI runs, and what they must find.
set(house_tests ${CMAKE_CURRENT_LIST_DIR}/house/house_test.py)
add_test(NAME house_test COMMAND Python3::Interpreter ${house_tests})
add_test(NAME sizes_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/house/sizes_test.py)
add_test(NAME docs_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/house/docs_test.py)
add_test(NAME check_docs COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/generate-docs.py --check
  --program $<TARGET_FILE:proftrace>)
add_test(NAME check_includes COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-includes.py)
add_test(NAME check_bpf_objects COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-bpf-objects.py
  ${PROJECT_BINARY_DIR}/bpf/proftrace.bpf.o ${PROJECT_BINARY_DIR}/bpf/samples.bpf.o ${PROJECT_BINARY_DIR}/bpf/system.bpf.o)
add_test(NAME hardening_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/house/hardening_test.py ${CMAKE_READELF}
  $<TARGET_FILE:proftrace> $<TARGET_FILE:proftrace_agent>)
set_tests_properties(house_test sizes_test docs_test check_docs check_includes check_bpf_objects hardening_test PROPERTIES LABELS unit)
add_test(NAME completion_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/cli/completion_test.py $<TARGET_FILE:proftrace>)
add_test(NAME manual_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/house/manual_test.py $<TARGET_FILE:proftrace>)
set_tests_properties(completion_test manual_test PROPERTIES LABELS unit)
if(PROFTRACE_STATIC)
  add_test(NAME release_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/house/release_test.py ${PROJECT_BINARY_DIR})
  set_tests_properties(release_test PROPERTIES LABELS unit)
  foreach(case IN ITEMS mlp gpu)  # the same outputs as the other program's
    add_test(NAME golden_static_${case}
      COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/golden/golden_test.py $<TARGET_FILE:proftrace_static> ${PROJECT_SOURCE_DIR}/tests/golden/${case})
    set_tests_properties(golden_static_${case} PROPERTIES LABELS golden)
  endforeach()
endif()
