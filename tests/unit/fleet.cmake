# The common clock of many hosts.
proftrace_unit_test(fleet_clock_test
  SOURCES
    fleet_clock/bounds_test.cc
    fleet_clock/breaks_test.cc
    fleet_clock/lines_test.cc
    fleet_clock/moments_test.cc
    fleet_clock/order_test.cc
    fleet_clock/stretches_test.cc
    fleet_clock/troubles_test.cc
    fleet_clock/clock_test.cc
  LIBS proftrace_fleet_clock GTest::gmock)
# Ten thousand systems: these are optimized, as the library is.
target_compile_options(fleet_clock_test PRIVATE -O1)

# Many inputs on one timeline.
proftrace_unit_test(fleet_merge_test
  SOURCES
    fleet/hard_cases_test.cc
    fleet/hard_clocks_test.cc
    fleet/joined_inputs_test.cc
    fleet/merge_test.cc
    fleet/parts_test.cc
    fleet/summary_test.cc
  LIBS proftrace_fleet GTest::gmock)

# What a merge reads.
add_executable(print_source ${PROJECT_SOURCE_DIR}/tests/support/print_source.cc)
target_link_libraries(print_source PRIVATE proftrace_fleet_sources)
add_executable(shift_capture ${PROJECT_SOURCE_DIR}/tests/support/shift_capture.cc)
target_link_libraries(shift_capture PRIVATE proftrace_wire)
proftrace_unit_test(fleet_sources_test PARSER
  SOURCES
    fleet_sources/collective_rows_test.cc
    fleet_sources/json_sources_test.cc
    fleet_sources/json_text_test.cc
    fleet_sources/other_sources_test.cc
  LIBS proftrace_fleet_sources proftrace_exporters proftrace_pipeline GTest::gmock ZLIB::ZLIB PkgConfig::SQLITE3)
target_compile_definitions(fleet_sources_test PRIVATE
  PROFTRACE_GOLDEN_DIRECTORY="${PROJECT_SOURCE_DIR}/tests/golden")

# The questions of a fleet; their answers are in tests/fleet.
proftrace_unit_test(fleet_questions_test PARSER
  SOURCES
    fleet_questions/answer_test.cc
    fleet_questions/fleet_watch_test.cc
    fleet_questions/question_test.cc
  LIBS proftrace_fleet_questions GTest::gmock)

# The directory of a fleet's tables.
proftrace_unit_test(fleet_tables_test PARSER
  SOURCES
    fleet_tables/common_steps_test.cc
    fleet_tables/input_facts_test.cc
    fleet_tables/input_series_test.cc
    fleet_tables/partition_test.cc
    fleet_tables/trace_tables_test.cc
  LIBS proftrace_fleet_tables GTest::gmock)
