# Aggregators and exporters. The library is shared by tests and benchmarks of all parts.
if(NOT TARGET proftrace_test_support)
  add_library(proftrace_test_support STATIC
    ${PROJECT_SOURCE_DIR}/tests/support/python_program.cc
    ${PROJECT_SOURCE_DIR}/tests/support/timeline_maker.cc)
  target_link_libraries(proftrace_test_support
    PUBLIC proftrace_model proftrace_stats
    PRIVATE proftrace_merge proftrace_warnings)
endif()

proftrace_unit_test(aggregate_test
  SOURCES aggregate_key_averages_test.cc aggregate_many_names_test.cc aggregate_python_rows_test.cc aggregate_stacks_test.cc
    aggregate_system_test.cc
  LIBS proftrace_aggregate proftrace_test_support)
proftrace_unit_test(step_kinds_test
  SOURCES aggregate_step_kinds_test.cc
  LIBS proftrace_aggregate proftrace_test_support)
proftrace_unit_test(steps_test
  SOURCES aggregate_annotated_steps_test.cc aggregate_flops_test.cc aggregate_module_times_test.cc
    aggregate_step_rows_test.cc aggregate_steps_test.cc
  LIBS proftrace_exporters proftrace_test_support)
proftrace_unit_test(exporters_test
  SOURCES
    exporters_chrome_trace_test.cc
    exporters_collectives_test.cc
    exporters_csv_test.cc
    exporters_device_numbers_test.cc
    exporters_device_test.cc
    exporters_keyword_args_test.cc
    exporters_memory_test.cc
    exporters_nvtx_ranges_test.cc
    exporters_open_slices_test.cc
    exporters_output_test.cc
    exporters_perfetto_test.cc
    exporters_profiles_test.cc
    exporters_stacks_test.cc
    exporters_system_args_test.cc
    exporters_system_rows_test.cc
    exporters_system_views_test.cc
    exporters_table_test.cc
  LIBS proftrace_exporters proftrace_pipeline proftrace_test_support GTest::gmock ZLIB::ZLIB)

# Writes outputs of made-up recordings, for the checks below that read them with other programs.
add_executable(write_outputs ${PROJECT_SOURCE_DIR}/tests/support/write_outputs.cc)
target_link_libraries(write_outputs PRIVATE proftrace_exporters proftrace_test_support)

# torch's own table() on the same intervals. PROFTRACE_TABLE_PYTHON or PROFTRACE_PYTHON names a Python that has torch.
add_test(NAME exporters_table_layout
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/oracle/table_layout.py
          $<TARGET_FILE:write_outputs> 4)
set_tests_properties(exporters_table_layout PROPERTIES LABELS oracle SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE})

# The flame graph's page in a browser, if there is one.
add_test(NAME exporters_flamegraph_page
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/browser/flamegraph_page_test.py
          $<TARGET_FILE:write_outputs> $<TARGET_FILE:proftrace> ${PROJECT_SOURCE_DIR}/tests/golden)
set_tests_properties(exporters_flamegraph_page PROPERTIES LABELS browser SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE})
