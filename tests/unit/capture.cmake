# The loader's parts that need neither root nor BPF.
proftrace_unit_test(capture_test
  SOURCES
    capture/agent_ring_test.cc
    capture/device_records_test.cc
    capture/flight_recorder_test.cc
    capture/job_hit_cost_test.cc
    capture/job_threads_test.cc
    capture/late_starts_test.cc
    capture/load_messages_test.cc
    capture/map_watch_test.cc
    capture/mapped_ring_test.cc
    capture/name_resolver_test.cc
    capture/operator_meter_test.cc
    capture/overhead_budget_test.cc
    capture/process_plan_test.cc
    capture/process_watch_test.cc
    capture/record_blocks_test.cc
    capture/record_merger_test.cc
    capture/silent_processes_test.cc
    capture/stack_merger_test.cc
    capture/step_watch_test.cc
    capture/system_facts_test.cc
    capture/target_info_test.cc
    capture/thread_numbers_test.cc
    capture/unprobed_forks_test.cc
    capture/unreached_code_test.cc
  LIBS proftrace_capture proftrace_pipeline GTest::gmock)
