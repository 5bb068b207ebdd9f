// Why a whole process stands still, and does so until somebody lets it go on: its control group is
// frozen (docker pause), a signal has stopped it, or a debugger holds it. Nothing is recorded of
// such a process, and what needs one of its threads to run (jumps, the GPU agent) cannot be done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

enum class StandstillKind : uint8_t {
  kFrozen,   // no thread of it comes to a stop of ptrace's, or none makes a system call there
  kStopped,  // by SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU
  kHeld,     // in a stop of another program's ptrace
};

struct Standstill {
  StandstillKind kind = StandstillKind::kStopped;
  std::string sentence;  // "PID 17 is frozen …", with how it goes on
};

// Finds why a process stands still; nullopt where threads of it may run, or it is not there. Takes
// two looks, some milliseconds apart, where a debugger has it: strace stops a process at each
// system call.
std::optional<Standstill> FindStandstill(Pid pid);

// Waits as long as the process is frozen, until `deadline_ns` at the latest (CLOCK_MONOTONIC).
void AwaitThaw(Pid pid, int64_t deadline_ns);

}  // namespace proftrace
