#include "userspace/fleet/phase_times.h"

#include <algorithm>
#include <optional>

namespace proftrace {
namespace {

constexpr std::string_view kPhaseNames[] = {"data", "backward", "optimizer", "forward"};

std::optional<Phase> PhaseOf(const SourceEvent& event) {
  if (event.phase != 'X' || !event.begin_ns) return std::nullopt;
  const bool is_operator = event.category == "cpu_op";
  if (!is_operator && event.category != "user_annotation") return std::nullopt;
  const std::string_view name = event.name;
  if (name.starts_with("enumerate(DataLoader)")) return Phase::kData;
  if (name.starts_with("Optimizer.")) return Phase::kOptimizer;
  if (name.starts_with("autograd::engine::evaluate_function")) return Phase::kBackward;
  for (const std::string_view prefix :
       {"c10d::", "_c10d_functional", "gloo:", "nccl:", "record_param_comms"}) {
    if (name.starts_with(prefix)) return std::nullopt;
  }
  return is_operator ? std::optional(Phase::kForward) : std::nullopt;
}

// Appends the parts of `stretch` that no stretch of `taken` covers. Calls come in order of time;
// `at` keeps the place in `taken` between them.
void AppendRest(const BusyTime::Stretch& stretch, const std::vector<PhaseStretch>& taken,
                size_t* at, Phase phase, std::vector<PhaseStretch>* out) {
  int64_t begin_ns = stretch.first;
  while (*at < taken.size() && taken[*at].end_ns <= begin_ns) ++*at;
  for (size_t i = *at; i < taken.size() && taken[i].begin_ns < stretch.second; ++i) {
    if (taken[i].begin_ns > begin_ns) out->push_back({phase, begin_ns, taken[i].begin_ns});
    begin_ns = std::max(begin_ns, taken[i].end_ns);
  }
  if (begin_ns < stretch.second) out->push_back({phase, begin_ns, stretch.second});
}

}  // namespace

std::string_view PhaseName(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

void PhaseTimes::See(const SourceEvent& event) {
  const auto phase = PhaseOf(event);
  if (!phase || event.duration_ns <= 0) return;
  times_[static_cast<size_t>(*phase)].Add(*event.begin_ns, *event.begin_ns + event.duration_ns);
}

std::vector<PhaseStretch> PhaseTimes::Take() {
  const auto by_begin = [](const PhaseStretch& a, const PhaseStretch& b) {
    return a.begin_ns < b.begin_ns;
  };
  std::vector<PhaseStretch> all;
  for (size_t phase = 0; phase < kPhaseCount; ++phase) {
    std::vector<PhaseStretch> more;
    size_t at = 0;
    for (const BusyTime::Stretch& stretch : times_[phase].Take()) {
      AppendRest(stretch, all, &at, static_cast<Phase>(phase), &more);
    }
    all.insert(all.end(), more.begin(), more.end());
    std::sort(all.begin(), all.end(), by_begin);
  }
  // Closes short pauses that have no other phase in them.
  size_t kept = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].phase == all[kept].phase && all[i].begin_ns - all[kept].end_ns <= kLongestPauseNs) {
      all[kept].end_ns = all[i].end_ns;
    } else {
      all[++kept] = all[i];
    }
  }
  if (!all.empty()) all.resize(kept + 1);
  return all;
}

}  // namespace proftrace
