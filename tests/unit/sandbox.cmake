# What takes rights from processes that read what others may have made up.
proftrace_unit_test(sandbox_test
  SOURCES sandbox/confined_test.cc sandbox/worker_test.cc
  LIBS proftrace_sandbox GTest::gmock)
