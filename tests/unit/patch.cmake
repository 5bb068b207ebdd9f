proftrace_unit_test(patch_ring_test
  SOURCES patch/ring_test.cc patch/slots_test.cc
  LIBS proftrace_patch proftrace_warnings GTest::gmock)
proftrace_unit_test(patch_ring_room_test
  SOURCES patch/ring_room_test.cc patch/rooms_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_trampoline_test
  SOURCES patch/trampoline_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_target_lock_test
  SOURCES patch/target_lock_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_whole_sites_test
  SOURCES patch/whole_sites_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_inputs_test
  SOURCES patch/inputs_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_stacks_test
  SOURCES patch/stacks_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_jumps_test
  SOURCES patch/jumps_test.cc
  LIBS proftrace_patch proftrace_warnings)
