#include "userspace/fleet_clock/clock_bounds.h"

#include <algorithm>

namespace proftrace {
namespace {

int64_t HalfSum(int64_t a, int64_t b) {
  return static_cast<int64_t>((static_cast<__int128>(a) + b) >> 1);
}

// Lowers upper bounds that are above the limit which a moment gives them. True: some were.
bool LowerByMoments(const ConstraintSystem& system, std::vector<int64_t>& high) {
  bool has_changed = false;
  for (size_t moment = 0; moment < system.moments(); ++moment) {
    const auto edges = system.Moment(moment);
    int64_t latest = kNoBound;
    for (const MomentEdge& edge : edges) {
      if (edge.left_ns == kNotLeft || high[edge.knot] >= kNoBound) continue;
      latest = std::min(latest, edge.left_ns + high[edge.knot]);
    }
    if (latest == kNoBound) continue;
    for (const MomentEdge& edge : edges) {
      if (edge.entered_ns == kNotEntered || latest - edge.entered_ns >= high[edge.knot]) continue;
      high[edge.knot] = latest - edge.entered_ns;
      has_changed = true;
    }
  }
  return has_changed;
}

bool RaiseByMoments(const ConstraintSystem& system, std::vector<int64_t>& low) {
  bool has_changed = false;
  for (size_t moment = 0; moment < system.moments(); ++moment) {
    const auto edges = system.Moment(moment);
    int64_t earliest = -kNoBound;
    for (const MomentEdge& edge : edges) {
      if (edge.entered_ns == kNotEntered || low[edge.knot] <= -kNoBound) continue;
      earliest = std::max(earliest, edge.entered_ns + low[edge.knot]);
    }
    if (earliest == -kNoBound) continue;
    for (const MomentEdge& edge : edges) {
      if (edge.left_ns == kNotLeft || earliest - edge.left_ns <= low[edge.knot]) continue;
      low[edge.knot] = earliest - edge.left_ns;
      has_changed = true;
    }
  }
  return has_changed;
}

bool LowerBySteps(const ConstraintSystem& system, std::vector<int64_t>& high) {
  bool has_changed = false;
  const auto lower = [&](uint32_t knot, uint32_t by, int64_t gain) {
    if (high[by] >= kNoBound || high[by] + gain >= high[knot]) return;
    high[knot] = high[by] + gain;
    has_changed = true;
  };
  for (const KnotStep& step : system.steps) lower(step.knot + 1, step.knot, step.most_ns);
  for (auto step = system.steps.rbegin(); step != system.steps.rend(); ++step) {
    lower(step->knot, step->knot + 1, -step->least_ns);
  }
  return has_changed;
}

bool RaiseBySteps(const ConstraintSystem& system, std::vector<int64_t>& low) {
  bool has_changed = false;
  const auto raise = [&](uint32_t knot, uint32_t by, int64_t gain) {
    if (low[by] <= -kNoBound || low[by] + gain <= low[knot]) return;
    low[knot] = low[by] + gain;
    has_changed = true;
  };
  for (const KnotStep& step : system.steps) raise(step.knot + 1, step.knot, step.least_ns);
  for (auto step = system.steps.rbegin(); step != system.steps.rend(); ++step) {
    raise(step->knot, step->knot + 1, -step->most_ns);
  }
  return has_changed;
}

bool LowerOnce(const ConstraintSystem& system, std::vector<int64_t>& high) {
  const bool by_moments = LowerByMoments(system, high);
  return LowerBySteps(system, high) || by_moments;
}

bool RaiseOnce(const ConstraintSystem& system, std::vector<int64_t>& low) {
  const bool by_moments = RaiseByMoments(system, low);
  return RaiseBySteps(system, low) || by_moments;
}

bool IsContradictory(const ClockBounds& bounds) {
  for (size_t knot = 0; knot < bounds.low_ns.size(); ++knot) {
    if (bounds.high_ns[knot] < bounds.low_ns[knot]) return true;
  }
  return false;
}

// Computes the shortest paths once more and notes the knot before each on its path, until these
// form a circle, which is the contradiction.
class CycleFinder {
 public:
  explicit CycleFinder(const ConstraintSystem& system)
      : system_(system), high_(system.knots, 0), from_(system.knots) {}

  // Returns the circle; nullopt: there is none after as many rounds as there are knots.
  std::optional<Contradiction> Find() {
    // All knots begin at 0, as if a common start lay at the distance 0 from each, so that every
    // circle is found.
    for (size_t round = 0; round <= system_.knots + 1; ++round) {
      last_changed_.reset();
      RelaxMoments();
      RelaxSteps();
      // All knots of the reference have the same correction, so that they are lowered together.
      RelaxReference();
      if (!last_changed_) return std::nullopt;
      if (auto found = Walk(*last_changed_)) return found;
    }
    return std::nullopt;
  }

 private:
  struct Origin {
    uint32_t knot = 0;
    std::optional<uint32_t> moment;
    int64_t length = 0;
    bool is_set = false;
  };

  void Lower(uint32_t knot, int64_t value, Origin origin) {
    if (value >= high_[knot]) return;
    high_[knot] = value;
    origin.is_set = true;
    from_[knot] = origin;
    last_changed_ = knot;
  }

  void RelaxMoments() {
    for (uint32_t moment = 0; moment < system_.moments(); ++moment) {
      const auto edges = system_.Moment(moment);
      const MomentEdge* first = nullptr;
      for (const MomentEdge& edge : edges) {
        if (edge.left_ns == kNotLeft) continue;
        if (!first || edge.left_ns + high_[edge.knot] < first->left_ns + high_[first->knot]) {
          first = &edge;
        }
      }
      if (!first) continue;
      const int64_t latest = first->left_ns + high_[first->knot];
      for (const MomentEdge& edge : edges) {
        if (edge.entered_ns == kNotEntered || edge.knot == first->knot) continue;
        Lower(edge.knot, latest - edge.entered_ns,
              {first->knot, moment, first->left_ns - edge.entered_ns});
      }
    }
  }

  void RelaxSteps() {
    for (const KnotStep& step : system_.steps) {
      Lower(step.knot + 1, high_[step.knot] + step.most_ns, {step.knot, {}, step.most_ns});
      Lower(step.knot, high_[step.knot + 1] - step.least_ns, {step.knot + 1, {}, -step.least_ns});
    }
  }

  void RelaxReference() {
    if (system_.reference.empty()) return;
    const uint32_t least =
        *std::min_element(system_.reference.begin(), system_.reference.end(),
                          [&](uint32_t a, uint32_t b) { return high_[a] < high_[b]; });
    for (const uint32_t knot : system_.reference) {
      if (knot != least) Lower(knot, high_[least], {least, {}, 0});
    }
  }

  std::optional<Contradiction> Walk(uint32_t knot) {
    std::vector<uint32_t> seen_at(system_.knots, 0);
    uint32_t steps = 0;
    while (from_[knot].is_set) {
      if (seen_at[knot] != 0) return Collect(knot);
      seen_at[knot] = ++steps;
      knot = from_[knot].knot;
    }
    return std::nullopt;
  }

  Contradiction Collect(uint32_t start) {
    Contradiction found;
    uint32_t knot = start;
    do {
      const Origin& origin = from_[knot];
      found.hops.push_back({origin.knot, knot, origin.moment});
      found.excess_ns -= origin.length;
      knot = origin.knot;
    } while (knot != start);
    std::reverse(found.hops.begin(), found.hops.end());
    return found;
  }

  const ConstraintSystem& system_;
  std::vector<int64_t> high_;
  std::vector<Origin> from_;
  std::optional<uint32_t> last_changed_;
};

}  // namespace

std::optional<Contradiction> SolveBounds(const ConstraintSystem& system, ClockBounds& bounds) {
  bounds.low_ns.assign(system.knots, -kNoBound);
  bounds.high_ns.assign(system.knots, kNoBound);
  if (!system.least_ns.empty()) bounds.low_ns = system.least_ns;
  if (!system.most_ns.empty()) bounds.high_ns = system.most_ns;
  for (const uint32_t knot : system.reference) bounds.low_ns[knot] = bounds.high_ns[knot] = 0;
  // Each round settles one more hop of every shortest path.
  for (size_t round = 0; round < 2 * system.knots + 2; ++round) {
    const bool has_lowered = LowerOnce(system, bounds.high_ns);
    const bool has_raised = RaiseOnce(system, bounds.low_ns);
    if (IsContradictory(bounds)) break;
    if (!has_lowered && !has_raised) return std::nullopt;
  }
  if (auto found = CycleFinder(system).Find()) return found;
  return Contradiction{};
}

std::vector<int64_t> Midpoints(const ClockBounds& bounds) {
  std::vector<int64_t> middles(bounds.low_ns.size());
  for (size_t knot = 0; knot < middles.size(); ++knot) {
    if (bounds.low_ns[knot] <= -kNoBound || bounds.high_ns[knot] >= kNoBound) continue;
    middles[knot] = HalfSum(bounds.low_ns[knot], bounds.high_ns[knot]);
  }
  return middles;
}

std::vector<int64_t> ClosestFeasible(const ConstraintSystem& system, const ClockBounds& bounds,
                                     std::span<const int64_t> wish) {
  std::vector<int64_t> below(system.knots, kNoBound);
  std::vector<int64_t> above(system.knots, -kNoBound);
  for (size_t knot = 0; knot < system.knots; ++knot) {
    if (bounds.low_ns[knot] <= -kNoBound || bounds.high_ns[knot] >= kNoBound) continue;
    below[knot] = above[knot] = std::clamp(wish[knot], bounds.low_ns[knot], bounds.high_ns[knot]);
  }
  // Both loops end, because the wishes were clamped to the bounds: within these, each settles after
  // as many rounds as the shortest paths did. The reference stays at 0, its own bound.
  while (LowerOnce(system, below)) {
  }
  while (RaiseOnce(system, above)) {
  }
  std::vector<int64_t> middles(system.knots);
  for (size_t knot = 0; knot < system.knots; ++knot) {
    if (bounds.low_ns[knot] <= -kNoBound || bounds.high_ns[knot] >= kNoBound) continue;
    middles[knot] = HalfSum(below[knot], above[knot]);
  }
  return middles;
}

int64_t WorstViolation(const ConstraintSystem& system, const ClockBounds& bounds,
                       std::span<const int64_t> corrections) {
  const auto is_known = [&](uint32_t knot) {
    return bounds.low_ns[knot] > -kNoBound && bounds.high_ns[knot] < kNoBound;
  };
  int64_t worst = 0;
  for (size_t moment = 0; moment < system.moments(); ++moment) {
    int64_t earliest = -kNoBound;
    int64_t latest = kNoBound;
    for (const MomentEdge& edge : system.Moment(moment)) {
      if (!is_known(edge.knot)) continue;
      const int64_t correction = corrections[edge.knot];
      if (edge.entered_ns != kNotEntered) {
        earliest = std::max(earliest, edge.entered_ns + correction);
      }
      if (edge.left_ns != kNotLeft) latest = std::min(latest, edge.left_ns + correction);
    }
    if (earliest != -kNoBound && latest != kNoBound) worst = std::max(worst, earliest - latest);
  }
  for (const KnotStep& step : system.steps) {
    if (!is_known(step.knot) || !is_known(step.knot + 1)) continue;
    const int64_t gain = corrections[step.knot + 1] - corrections[step.knot];
    worst = std::max({worst, gain - step.most_ns, step.least_ns - gain});
  }
  return worst;
}

}  // namespace proftrace
