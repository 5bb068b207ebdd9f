add_executable(exporters_bench ${PROJECT_SOURCE_DIR}/tests/bench/exporters_bench.cc)
target_link_libraries(exporters_bench PRIVATE proftrace_exporters proftrace_test_support benchmark::benchmark)
add_executable(step_streams ${PROJECT_SOURCE_DIR}/tests/bench/step_streams.cc)
target_link_libraries(step_streams PRIVATE proftrace_aggregate proftrace_warnings)
