// The CPU time that processes have used since the window began, with all their threads, as they
// see it themselves (CLOCK_PROCESS_CPUTIME_ID): what recording took is compared with that, as CPUs
// may be shared and threads may wait. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <span>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns the nanoseconds of CPU time that a process has used since it began; nullopt: it is not
// there.
std::optional<int64_t> CpuTimeOf(Pid pid);

class ProcessCpuTimes {
 public:
  // Begins the window: what these processes have used so far is not part of it.
  void Begin(std::span<const Pid> pids);
  // Reads what they have used by now. To be called now and then: of one that has ended, what was
  // read last is known.
  void Read(std::span<const Pid> pids);
  // Returns the nanoseconds since the window began, or since the process did; nullopt for a process
  // that was not read.
  std::optional<int64_t> Of(Pid pid) const;
  // Returns the nanoseconds since the last call for this process, or since the window began where
  // it was there by then; nullopt at the first call for a later one, as nobody knows how much of it
  // was before its probes went in.
  std::optional<int64_t> TakeUsed(Pid pid);
  // Returns the nanoseconds of all processes together; nullopt where none was read.
  std::optional<int64_t> all() const;

 private:
  absl::flat_hash_map<uint32_t, int64_t> begin_ns_;  // by pid; of a new process: none
  absl::flat_hash_map<uint32_t, int64_t> last_ns_;
  absl::flat_hash_map<uint32_t, int64_t> taken_ns_;  // as of the last TakeUsed()
};

}  // namespace proftrace
