proftrace_unit_test(base_test
  SOURCES base_turns_test.cc
  LIBS proftrace_base)
