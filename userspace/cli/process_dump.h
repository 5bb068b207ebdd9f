// The stacks of a process' threads at one moment, for `proftrace dump`.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

struct DumpedFrame {
  std::string file;  // empty where the frame could not be read
  std::string name;
  std::string qualified_name;
  int32_t first_line = 0;
  std::optional<int32_t> line;
};

// The Python frames of a thread in one interpreter.
struct DumpedStack {
  uint64_t interpreter = 0;  // the interpreter's number; 0 is the main one
  std::string thread_name;   // the thread's name in the module threading; empty where it has none
  bool has_gil = false;
  bool waits_for_gil = false;
  std::vector<DumpedFrame> frames;  // innermost first
  bool is_cut = false;              // there are more frames further out
  bool failed = false;              // some outer frames, or all frames, could not be read
};

enum class ThreadState : uint8_t {
  kRuns = 0,
  kWaits = 1,    // in a system call, or in a kernel function that waits
  kStopped = 2,  // stopped by a signal
  kInPageFault = 3,
};

struct DumpedThread {
  uint32_t tid = 0;  // 0 for a Python thread whose system thread was not found
  std::string comm;
  ThreadState state = ThreadState::kRuns;
  std::string system_call;  // the call that the thread is in; may be empty
  std::string file;         // the file that the call works on; may be empty
  // The function in which it slept (wchan) a moment before; may be empty.
  std::string kernel_function;
  std::vector<DumpedStack> stacks;  // empty where the thread runs no Python
};

struct ProcessDump {
  Pid pid{};
  std::string comm;
  std::string python_version;
  uint32_t interpreters = 0;
  // The time from the stop of the first thread to the release of the last one, in the longest try;
  // nullopt where not every thread could be stopped, and the stacks were read while the process
  // went on.
  std::optional<int64_t> stopped_ns;
  std::string not_stopped;   // why the threads could not be stopped
  bool was_stopped = false;  // whether a signal had stopped the process before the dump
  // Why the whole process stood still before the dump, as a sentence; may be empty.
  std::string standstill;
  bool is_whole = true;               // false where some Python threads could not be read
  std::vector<DumpedThread> threads;  // the main thread, then the others by number
};

// Stops the process, reads its stacks, lets it go on, finds the names, and calls `show`. Everything
// but the stop is done in a worker without rights. Fails with kNoTarget, kNotPermitted, or with
// kNoTorch where the process has no Python, or one that cannot be read.
absl::Status DumpProcess(Pid pid, const std::function<void(const ProcessDump&)>& show);

// Takes a dump in the same way, and returns it.
absl::StatusOr<ProcessDump> TakeDump(Pid pid);

}  // namespace proftrace
