// Finds when a process was in which phase of a training step, by the rows of its operators, in
// bounded memory. The summary of a merge shows these phases instead of the operators.
//
//   data        Python waits for the DataLoader: rows enumerate(DataLoader)#…
//   backward    the autograd engine runs nodes
//   optimizer   Optimizer.step#…, Optimizer.zero_grad#…
//   forward     all other operators, but for those of torch.distributed
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "userspace/collectives/source_input.h"
#include "userspace/fleet/busy_time.h"

namespace proftrace {

enum class Phase : uint8_t { kData, kBackward, kOptimizer, kForward };
inline constexpr size_t kPhaseCount = 4;
std::string_view PhaseName(Phase phase);

struct PhaseStretch {
  Phase phase{};
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class PhaseTimes {
 public:
  // The longest pause in a phase that still belongs to the phase, because Python runs between
  // operators.
  static constexpr int64_t kLongestPauseNs = 1'000'000;

  // Takes a row into account. Its times are on the common clock.
  void See(const SourceEvent& event);
  // Returns the stretches in order, without overlaps, and forgets them. Where two phases overlap,
  // the one that stands first in the enum Phase counts.
  std::vector<PhaseStretch> Take();

 private:
  std::array<BusyTime, kPhaseCount> times_;
};

}  // namespace proftrace
