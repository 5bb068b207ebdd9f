proftrace_unit_test(patch_ring_test
  SOURCES patch_ring_test.cc patch_slots_test.cc
  LIBS proftrace_patch proftrace_warnings GTest::gmock)
proftrace_unit_test(patch_ring_room_test
  SOURCES patch_ring_room_test.cc patch_rooms_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_trampoline_test
  SOURCES patch_trampoline_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_target_lock_test
  SOURCES patch_target_lock_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_whole_sites_test
  SOURCES patch_whole_sites_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_inputs_test
  SOURCES patch_inputs_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_stacks_test
  SOURCES patch_stacks_test.cc
  LIBS proftrace_patch proftrace_warnings)
proftrace_unit_test(patch_jumps_test
  SOURCES patch_jumps_test.cc
  LIBS proftrace_patch proftrace_warnings)
