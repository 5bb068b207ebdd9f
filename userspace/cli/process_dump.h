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
  std::string file;  // empty: the frame could not be read
  std::string name;
  std::string qualified_name;
  int32_t first_line = 0;
  std::optional<int32_t> line;
};

// The frames that a thread runs in one interpreter.
struct DumpedStack {
  uint64_t interpreter = 0;  // its number; 0 = the main one
  std::string thread_name;   // threading's; empty = none
  bool has_gil = false;
  bool waits_for_gil = false;
  std::vector<DumpedFrame> frames;  // innermost first
  bool is_cut = false;              // there are more frames further out
  bool failed = false;              // further out, or altogether, something could not be read
};

enum class ThreadState : uint8_t {
  kRuns = 0,
  kWaits = 1,    // in a system call, or where the kernel's function tells
  kStopped = 2,  // by a signal
  kInPageFault = 3,
};

struct DumpedThread {
  uint32_t tid = 0;  // 0: a Python thread whose thread of the system was not found
  std::string comm;
  ThreadState state = ThreadState::kRuns;
  std::string system_call;          // in which it is; may be empty
  std::string file;                 // that the call is about; may be empty
  std::string kernel_function;      // in which it sleeps (wchan), a moment before; may be empty
  std::vector<DumpedStack> stacks;  // empty: it runs no Python
};

struct ProcessDump {
  Pid pid{};
  std::string comm;
  std::string python_version;
  uint32_t interpreters = 0;
  // The time from the first thread's stop to the last one's release, at the longest try; nullopt:
  // not every thread could be stopped, and the stacks were read while it went on.
  std::optional<int64_t> stopped_ns;
  std::string not_stopped;            // why
  bool was_stopped = false;           // by a signal, before
  std::string standstill;             // why all of it stood still before: a sentence, or empty
  bool is_whole = true;               // false: there are Python threads that could not be read
  std::vector<DumpedThread> threads;  // the first one, then by number
};

// Stops the process, reads, lets it go on, finds the names, and shows that, all but the stop in a
// worker without rights. kNoTarget, kNotPermitted; kNoTorch: there is no Python in it, or one that
// cannot be read.
absl::Status DumpProcess(Pid pid, const std::function<void(const ProcessDump&)>& show);

// Does the same and returns it.
absl::StatusOr<ProcessDump> TakeDump(Pid pid);

}  // namespace proftrace
