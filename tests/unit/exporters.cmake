# Aggregators and exporters. The library is shared by tests and benchmarks of all parts.
if(NOT TARGET proftrace_test_support)
  add_library(proftrace_test_support STATIC
    ${PROJECT_SOURCE_DIR}/tests/support/python_program.cc
    ${PROJECT_SOURCE_DIR}/tests/support/report_job.cc
    ${PROJECT_SOURCE_DIR}/tests/support/timeline_maker.cc)
  target_link_libraries(proftrace_test_support
    PUBLIC proftrace_model proftrace_stats
    PRIVATE proftrace_merge proftrace_warnings)
endif()

proftrace_unit_test(aggregate_test
  SOURCES aggregate/function_times_test.cc aggregate/key_averages_test.cc aggregate/many_names_test.cc
    aggregate/python_rows_test.cc aggregate/stacks_test.cc
    aggregate/step_windows_test.cc aggregate/system_test.cc
  LIBS proftrace_aggregate proftrace_test_support)
proftrace_unit_test(step_kinds_test
  SOURCES aggregate/compiled_steps_test.cc aggregate/step_kinds_test.cc
  LIBS proftrace_aggregate proftrace_test_support)
proftrace_unit_test(steps_test
  SOURCES aggregate/annotated_steps_test.cc aggregate/flops_test.cc aggregate/module_times_test.cc
    aggregate/step_rows_test.cc aggregate/steps_test.cc
  LIBS proftrace_exporters proftrace_test_support)
proftrace_unit_test(compare_test
  SOURCES compare/compare_test.cc compare/functions_test.cc
  LIBS GTest::gmock proftrace_exporters proftrace_test_support)
proftrace_unit_test(why_test
  SOURCES why/collective_rules_test.cc why/cpu_rules_test.cc why/data_rules_test.cc why/device_memory_rules_test.cc why/gil_rules_test.cc why/host_rules_test.cc why/look_alikes_test.cc why/period_test.cc
    why/python_places_test.cc why/recording_rules_test.cc why/waker_test.cc why/why_test.cc
  LIBS GTest::gmock proftrace_exporters proftrace_test_support)
proftrace_unit_test(top_test
  SOURCES top/keys_test.cc top/model_test.cc top/screen_test.cc
  LIBS GTest::gmock proftrace_top proftrace_test_support)
proftrace_unit_test(exporters_test
  SOURCES
    exporters/chrome_trace_test.cc
    exporters/collectives_test.cc
    exporters/csv_test.cc
    exporters/device_numbers_test.cc
    exporters/device_test.cc
    exporters/json_writer_test.cc
    exporters/keyword_args_test.cc
    exporters/memory_test.cc
    exporters/nvtx_ranges_test.cc
    exporters/open_slices_test.cc
    exporters/output_test.cc
    exporters/parquet_test.cc
    exporters/perfetto_test.cc
    exporters/profiles_test.cc
    exporters/report_test.cc
    exporters/stacks_test.cc
    exporters/system_args_test.cc
    exporters/system_rows_test.cc
    exporters/system_views_test.cc
    exporters/table_test.cc
    exporters/tables_test.cc
  LIBS proftrace_exporters proftrace_pipeline proftrace_test_support GTest::gmock ZLIB::ZLIB PkgConfig::ZSTD)

# Writes outputs of made-up recordings, for the checks below that read them with other programs.
add_executable(write_outputs ${PROJECT_SOURCE_DIR}/tests/support/write_outputs.cc)
target_link_libraries(write_outputs PRIVATE proftrace_exporters proftrace_test_support)

# Writes made-up tables as Parquet and as CSV, for tests/golden/parquet_test.py.
add_executable(write_parquet ${PROJECT_SOURCE_DIR}/tests/support/write_parquet.cc)
target_link_libraries(write_parquet PRIVATE proftrace_exporters)

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

# The report's page in a browser, if there is one.
add_test(NAME exporters_report_page
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/browser/report_page_test.py
          $<TARGET_FILE:write_outputs> $<TARGET_FILE:proftrace> ${PROJECT_SOURCE_DIR}/tests/golden)
set_tests_properties(exporters_report_page PROPERTIES LABELS browser SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE})
