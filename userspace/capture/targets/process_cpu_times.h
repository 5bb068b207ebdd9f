// Keeps the CPU time that processes have used since the window began, in all their threads, by
// CLOCK_PROCESS_CPUTIME_ID of each process. The cost of the recording is compared with that time
// and not with the window's length, as CPUs may be shared and threads may wait. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <span>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns the nanoseconds of CPU time that a process has used since it began; nullopt where there
// is no such process.
std::optional<int64_t> CpuTimeOf(Pid pid);

class ProcessCpuTimes {
 public:
  // Begins the window. CPU time that these processes have used so far is not part of it.
  void Begin(std::span<const Pid> pids);
  // Reads the CPU time that the processes have used by now. To be called now and then: for a
  // process that has ended, the last reading counts.
  void Read(std::span<const Pid> pids);
  // Returns the nanoseconds of CPU time since the window began, or, for a process that came later,
  // since the process began; nullopt for a process that was not read.
  std::optional<int64_t> Of(Pid pid) const;
  // Returns the nanoseconds since the last call for this process, or since the window began where
  // it was there by then; nullopt at the first call for a process that came later, as it is not
  // known how much of its time was before its probes went in.
  std::optional<int64_t> TakeUsed(Pid pid);
  // Returns the nanoseconds of all processes together; nullopt where none was read.
  std::optional<int64_t> all() const;

 private:
  // The CPU time at the begin of the window, by pid; a process that came later has no entry.
  absl::flat_hash_map<uint32_t, int64_t> begin_ns_;
  absl::flat_hash_map<uint32_t, int64_t> last_ns_;
  absl::flat_hash_map<uint32_t, int64_t> taken_ns_;  // as of the last TakeUsed()
};

}  // namespace proftrace
