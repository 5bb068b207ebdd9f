# The middle of the pipeline: capture files, decoding, order, nesting. And the command line's values.
proftrace_unit_test(pipeline_test
  SOURCES
    pipeline_autograd_test.cc
    pipeline_budget_test.cc
    pipeline_call_tree_test.cc
    pipeline_device_test.cc
    pipeline_flight_test.cc
    pipeline_guards_test.cc
    pipeline_memory_test.cc
    pipeline_nesting_property_test.cc
    pipeline_process_choice_test.cc
    pipeline_socket_text_test.cc
    pipeline_sorter_test.cc
    pipeline_span_builder_test.cc
    pipeline_stacks_test.cc
    pipeline_system_paths_test.cc
    pipeline_system_test.cc
    pipeline_thread_end_test.cc
    pipeline_waits_test.cc
  LIBS proftrace_pipeline proftrace_aggregate GTest::gmock)
# These are the parts that read bytes.
proftrace_unit_test(wire_test PARSER
  SOURCES
    pipeline_capture_file_test.cc
    pipeline_decoder_test.cc
    pipeline_inputs_test.cc
    pipeline_keywords_test.cc
    pipeline_metadata_test.cc
    pipeline_samples_test.cc
  LIBS proftrace_pipeline proftrace_aggregate GTest::gmock PkgConfig::XXHASH)
proftrace_unit_test(model_test
  SOURCES model_span_columns_test.cc model_system_calls_test.cc
  LIBS proftrace_model)
proftrace_unit_test(cli_test
  SOURCES cli_flight_options_test.cc cli_parse_test.cc cli_record_arguments_test.cc cli_result_directory_test.cc
    cli_results_test.cc cli_step_schedule_test.cc
  LIBS proftrace_cli)

# Writes captures of a made-up GPU job, for goldens and for checks with other programs.
add_executable(write_gpu_capture ${PROJECT_SOURCE_DIR}/tests/support/write_gpu_capture.cc)
target_link_libraries(write_gpu_capture PRIVATE proftrace_wire)
