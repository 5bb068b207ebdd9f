# What a merge reads. SQLite's files are read by SQLite, which is fuzzed by its own authors.
proftrace_fuzz_target(json_source_fuzz SOURCES json_source_fuzz.cc LIBS proftrace_fleet_sources)
