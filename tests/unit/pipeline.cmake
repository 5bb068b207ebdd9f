# The middle of the pipeline: capture files, decoding, order, nesting. And the command line's values.
proftrace_unit_test(pipeline_test
  SOURCES
    pipeline/autograd_test.cc
    pipeline/budget_test.cc
    pipeline/call_tree_test.cc
    pipeline/device_test.cc
    pipeline/flight_test.cc
    pipeline/guards_test.cc
    pipeline/scripts_test.cc
    pipeline/memory_test.cc
    pipeline/nesting_property_test.cc
    pipeline/process_choice_test.cc
    pipeline/socket_text_test.cc
    pipeline/sorter_test.cc
    pipeline/span_builder_test.cc
    pipeline/stacks_test.cc
    pipeline/system_paths_test.cc
    pipeline/system_test.cc
    pipeline/thread_end_test.cc
    pipeline/waits_test.cc
  LIBS proftrace_pipeline proftrace_aggregate GTest::gmock)
# These are the parts that read bytes.
proftrace_unit_test(wire_test PARSER
  SOURCES
    pipeline/capture_file_test.cc
    pipeline/clock_metadata_test.cc
    pipeline/quota_metadata_test.cc
    pipeline/decoder_test.cc
    pipeline/group_calls_test.cc
    pipeline/inputs_test.cc
    pipeline/job_metadata_test.cc
    pipeline/keywords_test.cc
    pipeline/metadata_test.cc
    pipeline/samples_test.cc
  LIBS proftrace_pipeline proftrace_aggregate GTest::gmock PkgConfig::XXHASH)
proftrace_unit_test(model_test
  SOURCES model/name_limits_test.cc model/span_columns_test.cc model/system_calls_test.cc
  LIBS proftrace_model)
proftrace_unit_test(cli_test
  SOURCES
    cli/dump_groups_test.cc
    cli/dump_merge_test.cc
    cli/flight_options_test.cc
    cli/option_help_test.cc
    cli/parse_test.cc
    cli/record_arguments_test.cc
    cli/result_directory_test.cc
    cli/config_file_test.cc cli/results_test.cc cli/step_schedule_test.cc
  LIBS proftrace_cli GTest::gmock)

# Writes captures of a made-up job whose names never repeat, for a golden and for tests/bench/unique_names.py.
add_executable(unique_names ${PROJECT_SOURCE_DIR}/tests/bench/unique_names.cc)
target_link_libraries(unique_names PRIVATE proftrace_wire proftrace_warnings)

# Writes captures of a made-up GPU job, for goldens and for checks with other programs.
add_executable(write_gpu_capture ${PROJECT_SOURCE_DIR}/tests/support/write_gpu_capture.cc)
target_link_libraries(write_gpu_capture PRIVATE proftrace_wire)
