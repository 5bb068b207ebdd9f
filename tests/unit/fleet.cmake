# The common clock of many hosts.
proftrace_unit_test(fleet_clock_test
  SOURCES
    fleet_clock_bounds_test.cc
    fleet_clock_breaks_test.cc
    fleet_clock_lines_test.cc
    fleet_clock_moments_test.cc
    fleet_clock_order_test.cc
    fleet_clock_test.cc
  LIBS proftrace_fleet_clock GTest::gmock)
# Ten thousand systems: these are optimized, as the library is.
target_compile_options(fleet_clock_test PRIVATE -O1)
