# Reads Python processes from outside, with every CPython on this machine (PATH, pyenv,
# PROFTRACE_PYTHONS).
add_library(python_process STATIC ${PROJECT_SOURCE_DIR}/tests/support/python_process.cc)
target_include_directories(python_process PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(python_process PRIVATE proftrace_warnings)

proftrace_unit_test(python_lines_test PARSER
  SOURCES python/lines_test.cc
  LIBS proftrace_decode python_process)
proftrace_unit_test(python_runtime_test
  SOURCES python/runtime_test.cc
  LIBS proftrace_symbols proftrace_decode python_process)
proftrace_unit_test(python_made_up_test PARSER
  SOURCES python/made_up_test.cc
  LIBS proftrace_symbols)
proftrace_unit_test(python_free_threaded_test
  SOURCES python/free_threaded_test.cc
  LIBS proftrace_symbols proftrace_capture)
proftrace_unit_test(python_objects_test
  SOURCES python/objects_test.cc
  LIBS proftrace_symbols python_process)
proftrace_unit_test(byte_view_test PARSER
  SOURCES base/byte_view_test.cc
  LIBS proftrace_base)
