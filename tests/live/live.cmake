# Real attaches, one CTest test a file, two at once where two processors are. In the kernel a test looks only at what its own
# tracer had there.
#
# The files in `alone` run by themselves: they compare times with limits, or put probes into all processes.
set(alone auto_tier bounds budget guardian other_processes sched told_cost two_tracers)
#
# Files whose checks a busy machine may disturb (losses, times, who is found how soon) have the label `disturbable`: ./test gives them a
# second chance. Files that are to show that a job is never harmed do not have it.
set(undisturbed clean file_swap fork_kill_points guardian harmless kill_points namespaces other_processes patch patch_harmless patch_limits python_end two_tracers)
set(live_python "$ENV{PROFTRACE_PYTHON}")
if(PROFTRACE_ORACLE_PYTHON)
  list(GET PROFTRACE_ORACLE_PYTHON 0 live_python)
  list(GET PROFTRACE_ORACLE_PYTHON -1 cuda_python)  # rather a wheel, which brings the CUDA Runtime
else()
  set(cuda_python "${live_python}")
endif()
set(cupti_doubles "")
if(TARGET cupti_double)
  set(cupti_doubles $<TARGET_FILE_DIR:cupti_double>/..)
endif()

# So much of these files is run; to run a whole file: python3 tests/live/NAME_test.py
set(only_budget BudgetTest.test_arguments BudgetTest.test_hot_small_operators_are_demoted_and_all_calls_counted
  BudgetTest.test_two_processes_have_a_budget_each BudgetTest.test_what_cannot_be_kept_is_said
  PatchBudgetTest.test_a_forked_child_has_its_own
  PatchBudgetTest.test_hot_small_operators_are_demoted_and_all_calls_counted)
# These are run in tier patch of the tests that tier bpf has as well; patch_harmless: those that
# show that nothing changes in the job.
set(only_patch_tier PatchTierTest ExecTest ChildrenTest.test_each_of_many_children_in_a_row_is_recorded
  ChildrenTest.test_children_that_end_before_their_probes_are_live_are_counted
  CommandTest.test_the_operators_of_a_command_and_of_its_children_are_recorded)
set(file_patch_harmless patch_tier)
set(only_patch_harmless HarmlessTest.test_attaches_change_nothing HarmlessTest.test_exceptions_pass_probes_that_come_and_go
  ChildrenTest.test_a_storm_of_short_children_harms_nothing)
# Both ways, and what is left of a killed tracer.
set(only_stack_storms StackStormsTest.test_stacks_are_right_in_a_storm
  StackStormsTest.test_stacks_are_right_in_a_storm_by_jumps_alone
  StackStormsTest.test_threads_of_a_containers_first_process_are_told_apart)
# The other one takes as long as one likes: python_end_test.py 2000
set(only_python_end PythonEndTest.test_python_ends_when_a_thread_has_read_its_frames)
# Children are found by looking for them, which a busy machine does late.
set(only_unprivileged RecordTest EndTest RefusedTest DoctorTest ChildrenTest.test_forked_children)

# What a busy machine leaves out of a window or adds to a rank is not to fail a build: these are run by hand, slow_rank_test.py and
# fleet_watch_test.py.
set(only_slow_rank SlowRankTest.test_work_in_the_backward_pass SlowRankTest.test_a_loader_that_sleeps
  SlowRankTest.test_two_of_four_ranks_are_too_few)
set(only_fleet_watch FleetWatchTest.test_two_recorders_of_one_job_count_once FleetWatchTest.test_a_killed_recorder_leaves_whole_summaries
  FleetWatchTest.test_a_full_disk_does_not_end_the_recording FleetWatchTest.test_directories_of_others_are_refused)

# One of each kind of place; the whole matrix of containers takes two minutes: containers_test.py.
set(only_containers ContainersTest.test_a_command_is_recorded_by_jumps ContainersTest.test_a_job_records_itself
  ContainersTest.test_a_command_with_a_filter_of_its_own_says_so ContainersTest.test_the_jumps_of_a_killed_proftrace_go_away
  ContainersTest.test_dockers_defaults_do_for_jumps_if_the_user_knows_the_filter)
if(PROFTRACE_STATIC)
  list(APPEND only_containers ContainersTest.test_from_an_image_that_holds_nothing_but_the_program)
endif()
set(only_recipes RecipesTest.test_daemon_set RecipesTest.test_docker_run)
if(PROFTRACE_ALL_ORACLES)
  set(only_containers "")
  set(only_recipes "")
endif()

# The whole takes minutes, with all that torch does in parallel: parallel_test.py.
set(only_parallel ParallelTest.test_two_ranks)
if(PROFTRACE_ALL_ORACLES)
  set(only_parallel "")
endif()

# Each recording takes a second or two to begin: torch_profile_test.py runs the other schedules and faults.
set(only_torch_profile TutorialTest ImportTest ScheduleTest.test_every_schedule_is_torchs_own ScheduleTest.test_cycles_that_follow_each_other
  FaultTest.test_forks_and_workers_of_a_loader FaultTest.test_two_in_a_row_and_one_within_another
  FaultTest.test_a_recorder_that_fails_in_the_middle_of_the_job)
# The same programs with another PyTorch; what goes wrong in them does not depend on it.
set(file_torch_profile_113 torch_profile)
set(only_torch_profile_113 TutorialTest)

set(live_tests
  agent all auto_tier bounds budget calls children clean clocks collectives compare confined containers conventions cuda damage
  displaced docs dump exit_codes
  faults file_swap fleet_tables fleet_watch flight flooded_ring fork_kill_points gloo gpu gpu_check gpu_children gpu_idle
  gpu_kinds guardian hang harmless hostile_neighbour identity injection interpreters interrupted json
  keywords kill_points loss memory memory_limit merge namespaces options other_processes outputs
  own_runtime parallel patch patch_harmless patch_limits patch_tier process_limit python_api python_end python_gc
  ranges ranks recipes recompile remote_files result_archive rights sample sched shifted slow_rank spawned
  stack_storms stacks standstill steps system targets threads told_cost top torch_profile torch_profile_113 two_tracers
  unprivileged view views waits why)
foreach(test IN LISTS live_tests)
  set(python "${live_python}")
  if(test MATCHES "^(agent|collectives|cuda|fleet_tables|gpu_check|keywords|merge|parallel|python_gc|recompile|torch_profile)$")
    set(python "${cuda_python}")
  endif()
  set(file "${test}")
  if(DEFINED file_${test})
    set(file "${file_${test}}")
  endif()
  add_test(NAME live_${test}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/${file}_test.py ${only_${test}})
  set(labels live)
  if(NOT test IN_LIST undisturbed)
    list(APPEND labels disturbable)
  endif()
  set(is_alone OFF)
  if(test IN_LIST alone)
    set(is_alone ON)
  endif()
  set_tests_properties(live_${test} PROPERTIES
    LABELS "${labels}" SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 600 RUN_SERIAL ${is_alone} PROCESSORS 3
    ENVIRONMENT "PROFTRACE_BINARY=$<TARGET_FILE:proftrace>;PROFTRACE_ORACLE_PYTHON=${python};PROFTRACE_CUDA_DOUBLE=$<TARGET_FILE_DIR:cuda_runtime_double>;PROFTRACE_INJECTION=$<TARGET_FILE_DIR:inject>;PROFTRACE_SYSTEM_JOB=$<TARGET_FILE:system_job>;PROFTRACE_SWAP=$<TARGET_FILE_DIR:swap_job>;PROFTRACE_PATCH_TOOL=$<TARGET_FILE:patch_tool>;PROFTRACE_CUPTI_DOUBLES=${cupti_doubles};PROFTRACE_DUCKDB=${PROFTRACE_FLEET_PYTHON};PROFTRACE_PARQUET_PYTHON=${PROFTRACE_FLEET_PYTHON};PROFTRACE_WHEEL_PYTHON=${cuda_python}")
endforeach()

add_executable(perf_links_test perf_links_test.cc root_main.cc)
target_link_libraries(perf_links_test PRIVATE proftrace_capture proftrace_warnings GTest::gmock GTest::gtest)
add_test(NAME live_perf_links COMMAND perf_links_test)
set_tests_properties(live_perf_links PROPERTIES
  LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 180)

add_executable(links_for_all_test links_for_all_test.cc root_main.cc)
target_link_libraries(links_for_all_test
  PRIVATE proftrace_capture PkgConfig::LIBBPF proftrace_warnings GTest::gtest)
add_test(NAME live_links_for_all COMMAND links_for_all_test)
set_tests_properties(live_links_for_all PROPERTIES
  LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 180)

add_executable(hostile_inputs_test hostile_inputs_test.cc hostile_keywords_test.cc root_main.cc)
target_link_libraries(hostile_inputs_test
  PRIVATE proftrace_capture proftrace_decode proftrace_warnings GTest::gtest)
add_test(NAME live_hostile_inputs COMMAND hostile_inputs_test)
set_tests_properties(live_hostile_inputs PROPERTIES
  LABELS live SKIP_RETURN_CODE ${PROFTRACE_SKIP_CODE} TIMEOUT 180)
