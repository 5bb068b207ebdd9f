# The middle of the pipeline: capture files, metadata, records, and the outputs of what came of them.
foreach(target IN ITEMS pipeline_capture_fuzz pipeline_device_fuzz pipeline_metadata_fuzz
        pipeline_records_fuzz)
  proftrace_fuzz_target(${target}
    SOURCES ${target}.cc
    LIBS proftrace_pipeline proftrace_exporters PkgConfig::XXHASH)
endforeach()
