# What a job may put where the GPU agent's records are.
proftrace_fuzz_target(capture_agent_ring_fuzz 
  SOURCES capture_agent_ring_fuzz.cc ${PROJECT_SOURCE_DIR}/userspace/capture/gpu/agent_ring.cc
  LIBS proftrace_symbols)
