# Shared by tests and benchmarks of all parts.
if(NOT TARGET proftrace_test_support)
  add_library(proftrace_test_support STATIC ${PROJECT_SOURCE_DIR}/tests/support/timeline_maker.cc)
  target_link_libraries(proftrace_test_support PUBLIC proftrace_model proftrace_stats PRIVATE proftrace_warnings)
endif()
