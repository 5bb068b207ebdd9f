// Which processes of a recording are looked at: all of them, one, or those of a rank. What others
// recorded is left out before it is decoded, so that all outputs are of the chosen ones alone.
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
  std::optional<int> rank;  // also workers that its process has forked

  bool is_all() const { return !pid.has_value() && !rank.has_value(); }
};

// Returns their PIDs. Fails with ExitCode::kUsage where `targets` has none of them, and says which
// it has.
absl::StatusOr<std::set<uint32_t>> ChoosePids(const ProcessChoice& choice,
                                              const std::vector<Target>& targets);

// Takes what `info` tells of other processes out of it.
void KeepProcesses(const std::set<uint32_t>& pids, RecordingInfo* info);

}  // namespace proftrace
