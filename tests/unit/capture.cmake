# The loader's parts that need neither root nor BPF.
proftrace_unit_test(capture_test
  SOURCES
    capture_agent_ring_test.cc
    capture_device_records_test.cc
    capture_flight_recorder_test.cc
    capture_job_hit_cost_test.cc
    capture_job_threads_test.cc
    capture_late_starts_test.cc
    capture_load_messages_test.cc
    capture_map_watch_test.cc
    capture_mapped_ring_test.cc
    capture_name_resolver_test.cc
    capture_operator_meter_test.cc
    capture_overhead_budget_test.cc
    capture_process_plan_test.cc
    capture_process_watch_test.cc
    capture_record_blocks_test.cc
    capture_record_merger_test.cc
    capture_silent_processes_test.cc
    capture_stack_merger_test.cc
    capture_step_watch_test.cc
    capture_system_facts_test.cc
    capture_target_info_test.cc
    capture_thread_numbers_test.cc
    capture_unprobed_forks_test.cc
    capture_unreached_code_test.cc
  LIBS proftrace_capture proftrace_pipeline GTest::gmock)
