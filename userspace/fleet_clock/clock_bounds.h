// The exact bounds of many clocks, from what depends on what.
//
// Each clock is known by the corrections at its knots, r. An event at the local time t has the
// common time t + r. An event that depends on another cannot have happened before it: that is a
// difference constraint, and the least and the most that a correction can be are shortest paths
// from the reference, whose correction is 0 (Cormen et al., "Difference constraints and shortest
// paths"). A collective of n ranks would have n * n constraints. Instead it has a moment "all have
// entered", x, which no rank's leaving comes before, and no rank's entering after: 2 * n.
//
//   entered A ----+                  +----> left A
//   entered B ----+--> x (all in) ---+----> left B
//   entered C ----+                  +----> left C
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace proftrace {

inline constexpr int64_t kNoBound = INT64_MAX / 4;  // -kNoBound: no lower one
inline constexpr int64_t kNotEntered = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kNotLeft = std::numeric_limits<int64_t>::max();

// The tie of one knot to one moment. Times are local ones, within +-kNoBound / 2, with the errors
// that they may have already taken off (entered) or added (left).
struct MomentEdge {
  uint32_t knot = 0;
  int64_t entered_ns = kNotEntered;  // x is not before this; kNotEntered: it has no say
  int64_t left_ns = kNotLeft;        // x is not after this; kNotLeft: does not wait for x
};

// The knot `knot` + 1 is of the same clock: its correction is this much more at least, and at most.
struct KnotStep {
  uint32_t knot = 0;
  int64_t least_ns = 0;
  int64_t most_ns = 0;
};

struct ConstraintSystem {
  size_t knots = 0;
  std::vector<MomentEdge> edges;      // by moment
  std::vector<uint32_t> moment_ends;  // where in `edges` each moment's end
  std::vector<KnotStep> steps;        // in order of their knots
  std::vector<uint32_t> reference;    // knots whose correction is 0
  // Known beforehand, by knot; empty: nothing is.
  std::vector<int64_t> least_ns;
  std::vector<int64_t> most_ns;

  size_t moments() const { return moment_ends.size(); }
  std::span<const MomentEdge> Moment(size_t moment) const {
    const size_t begin = moment == 0 ? 0 : moment_ends[moment - 1];
    return std::span(edges).subspan(begin, moment_ends[moment] - begin);
  }
};

struct ClockBounds {
  std::vector<int64_t> low_ns;   // by knot; -kNoBound: nothing binds it from below
  std::vector<int64_t> high_ns;  // kNoBound: nothing binds it from above
};

// A hop of a contradiction: from `from_knot` to `to_knot` by a moment; nullopt: the two are
// neighbours on one clock.
struct ContradictionHop {
  uint32_t from_knot = 0;
  uint32_t to_knot = 0;
  std::optional<uint32_t> moment;
};

// Dependences that cannot all hold: a round trip that would end `excess_ns` before it began.
struct Contradiction {
  std::vector<ContradictionHop> hops;
  int64_t excess_ns = 0;
};

// Writes the bounds, or returns why there are none. Whole numbers, and exact: equal to what a
// linear program would find. Takes edges times the hops that a chain of groups has, 2 to 8 usually.
std::optional<Contradiction> SolveBounds(const ConstraintSystem& system, ClockBounds& bounds);

// Returns the middles of the bounds: for knots with both bounds they keep all constraints. With D
// the shortest distances, high_i = D(ref, i), low_i = -D(i, ref); r_i - r_j <= c gives D(ref, i) <=
// D(ref, j) + c and D(j, ref) <= c + D(i, ref), and half the sum of both is what is to be shown.
// Rounding down keeps it, since c is whole. 0 where a bound is missing.
std::vector<int64_t> Midpoints(const ClockBounds& bounds);

// Returns the corrections that keep all constraints and are close to `wish`, which need not keep
// any: the middle between the greatest ones below it and the least ones above it, within the
// bounds.
std::vector<int64_t> ClosestFeasible(const ConstraintSystem& system, const ClockBounds& bounds,
                                     std::span<const int64_t> wish);

// Returns how far the worst constraint among knots with both bounds is broken by `corrections`; 0:
// none is.
int64_t WorstViolation(const ConstraintSystem& system, const ClockBounds& bounds,
                       std::span<const int64_t> corrections);

}  // namespace proftrace
