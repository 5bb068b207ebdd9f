// Selects the processes of a recording that are looked at: all of them, one process, or the
// processes of one rank. Records of other processes are left out before they are decoded, so that
// all outputs show the chosen processes alone.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "userspace/model/recording.h"

namespace proftrace {

struct ProcessChoice {
  std::optional<uint32_t> pid;
  std::optional<int> rank;  // includes workers that the rank's process has forked

  bool is_all() const { return !pid.has_value() && !rank.has_value(); }
};

// Returns the PIDs of the chosen processes. Fails with ExitCode::kUsage where `targets` has none of
// them; the message lists the processes or ranks that it has.
absl::StatusOr<std::set<uint32_t>> ChoosePids(const ProcessChoice& choice,
                                              const std::vector<Target>& targets);

// Removes the entries of all other processes from `info`.
void KeepProcesses(const std::set<uint32_t>& pids, RecordingInfo* info);

}  // namespace proftrace
