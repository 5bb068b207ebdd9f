// What a recording gives to the classes that attach to its processes, and what they tell it.
#pragma once

#include <cstdint>
#include <functional>

#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/samples/sampler.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The parts of a recording that take something of each of its processes.
struct ProcessParts {
  BpfPrograms* programs;
  CaptureSink* sink;
  TargetReader* reader;              // has a worker that runs ReadTargetWords()
  Sampler* sampler = nullptr;        // null: nothing is sampled
  SystemPrograms* system = nullptr;  // null: no system activity is recorded
};

// What is told of processes that are recorded without having been named. An empty function is not
// called.
struct ProcessCallbacks {
  // Called on the follower's thread when a forked child's probes are live, `after_ns` nanoseconds
  // after its fork.
  std::function<void(Pid child, int64_t after_ns)> on_follow;
  // Called on the follower's thread when the probes of an awaited process are live.
  std::function<void(Pid pid, uint32_t operator_count)> on_awaited;
  // Called when a process for which Attach() was not called is recorded, and when a recorded
  // process has loaded libraries. `parent` is the process that forked it; 0: not known. Runs on the
  // follower's thread or the caller's. Must not be empty.
  std::function<void(Pid pid, Pid parent)> on_change;
};

}  // namespace proftrace
