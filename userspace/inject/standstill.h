// Finds out why a whole process stands still until somebody lets it go on: its control group is
// frozen (docker pause), a signal has stopped it, or a debugger holds it. Nothing is recorded of
// such a process, and jumps and the GPU agent, which need one of its threads to run, cannot be put
// in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

enum class StandstillKind : uint8_t {
  kFrozen,   // its threads reach no stop by ptrace, or make no system calls in such a stop
  kStopped,  // SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU has stopped it
  kHeld,     // another program's ptrace has stopped it
};

struct Standstill {
  StandstillKind kind = StandstillKind::kStopped;
  std::string sentence;  // "PID 17 is frozen …", with what lets it go on
};

// Finds why a process stands still. nullopt: its threads may run, or it does not exist. If another
// program traces it, looks twice, some milliseconds apart, because strace stops a process at each
// system call.
std::optional<Standstill> FindStandstill(Pid pid);

// Waits until the process is not frozen any more, or until `deadline_ns` (CLOCK_MONOTONIC).
void AwaitThaw(Pid pid, int64_t deadline_ns);

}  // namespace proftrace
