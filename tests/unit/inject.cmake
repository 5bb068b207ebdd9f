proftrace_unit_test(inject_test
  SOURCES inject/inject_test.cc
  LIBS proftrace_inject proftrace_warnings GTest::gmock)
proftrace_unit_test(inject_stops_test
  SOURCES inject/stops_test.cc
  LIBS proftrace_inject proftrace_warnings)
proftrace_unit_test(inject_filters_test
  SOURCES inject/filters_test.cc
  LIBS proftrace_inject proftrace_warnings GTest::gmock)
