add_executable(exporters_bench ${PROJECT_SOURCE_DIR}/tests/bench/exporters_bench.cc)
target_link_libraries(exporters_bench PRIVATE proftrace_exporters proftrace_test_support benchmark::benchmark)
