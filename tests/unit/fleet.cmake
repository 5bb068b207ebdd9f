# The common clock of many hosts.
proftrace_unit_test(fleet_clock_test
  SOURCES
    fleet_clock/bounds_test.cc
    fleet_clock/breaks_test.cc
    fleet_clock/lines_test.cc
    fleet_clock/moments_test.cc
    fleet_clock/order_test.cc
    fleet_clock/clock_test.cc
  LIBS proftrace_fleet_clock GTest::gmock)
# Ten thousand systems: these are optimized, as the library is.
target_compile_options(fleet_clock_test PRIVATE -O1)

# Many inputs on one timeline.
proftrace_unit_test(fleet_merge_test
  SOURCES
    fleet/joined_inputs_test.cc
    fleet/merge_test.cc
    fleet/parts_test.cc
  LIBS proftrace_fleet GTest::gmock)
