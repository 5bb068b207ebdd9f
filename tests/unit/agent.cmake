# The GPU agent: its file, and, where CUPTI's headers are, what it does with stand-ins for CUDA and CUPTI.
add_test(NAME agent_library
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/agent/library_test.py $<TARGET_FILE:proftrace_agent>)
set_tests_properties(agent_library PROPERTIES LABELS unit)

if(NOT TARGET cupti_double)
  return()
endif()
add_library(agent_job STATIC ${PROJECT_SOURCE_DIR}/tests/support/agent_job.cc)
target_link_libraries(agent_job PUBLIC proftrace_capture GTest::gtest ${CMAKE_DL_LIBS})

string(REPLACE ";" ":" cupti_folders "${PROFTRACE_CUPTI_FOLDERS}")
add_executable(agent_test agent/agent_test.cc agent/buffers_test.cc agent/others_test.cc agent/records_test.cc)
target_link_libraries(agent_test PRIVATE agent_job cupti_headers GTest::gtest_main)
add_dependencies(agent_test proftrace_agent cupti_double cuda_runtime_double cuda_driver_double)
gtest_discover_tests(agent_test DISCOVERY_MODE PRE_TEST PROPERTIES LABELS unit
  ENVIRONMENT "PROFTRACE_CUPTI_FOLDERS=${cupti_folders}")

# The agent's own declarations against each CUPTI's headers: what differs does not compile.
set(number 0)
foreach(folder IN LISTS PROFTRACE_CUPTI_FOLDERS)
  math(EXPR number "${number} + 1")
  add_library(agent_layouts_${number} OBJECT agent/layouts_check.cc)
  target_include_directories(agent_layouts_${number} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(agent_layouts_${number} SYSTEM PRIVATE
    ${PROJECT_SOURCE_DIR}/tests/support/cupti_double/shim ${folder})
  target_link_libraries(agent_test PRIVATE agent_layouts_${number})
endforeach()
