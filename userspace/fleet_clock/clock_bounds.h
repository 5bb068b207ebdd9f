// Computes the exact bounds of many clocks from events that depend on each other.
//
// Each clock is described by its corrections r at a few local times, its knots. An event at the
// local time t has the common time t + r. An event that depends on another cannot have happened
// before it. Each such dependence is a difference constraint, and the least and the most that a
// correction can be are shortest paths from the reference, whose correction is 0 (Cormen et al.,
// "Difference constraints and shortest paths"). A collective of n ranks would have n * n
// constraints. Instead it has a moment x, "all have entered", before which no rank leaves and after
// which no rank enters: 2 * n constraints.
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

// Stands for "no upper bound"; -kNoBound for "no lower bound"
inline constexpr int64_t kNoBound = INT64_MAX / 4;
inline constexpr int64_t kNotEntered = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kNotLeft = std::numeric_limits<int64_t>::max();

// The constraints between one knot and one moment x. Times are local ones, within +-kNoBound / 2.
// The largest error that they may have is already subtracted from entered_ns and added to left_ns.
struct MomentEdge {
  uint32_t knot = 0;
  int64_t entered_ns = kNotEntered;  // x is not before this time; kNotEntered: no such constraint
  int64_t left_ns = kNotLeft;        // x is not after this time; kNotLeft: no such constraint
};

// Says that the knot `knot` + 1 belongs to the same clock, and by how much its correction is
// larger, at least and at most.
struct KnotStep {
  uint32_t knot = 0;
  int64_t least_ns = 0;
  int64_t most_ns = 0;
};

struct ConstraintSystem {
  size_t knots = 0;
  std::vector<MomentEdge> edges;      // by moment
  std::vector<uint32_t> moment_ends;  // by moment: the index in `edges` behind its last edge
  std::vector<KnotStep> steps;        // in order of their knots
  std::vector<uint32_t> reference;    // knots whose correction is 0
  // Bounds that are known beforehand, by knot; empty: there are none.
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

// A hop of a contradiction, from one knot to another. `moment`: the moment that ties the two;
// nullopt: they are neighbours on one clock, or knots of the reference.
struct ContradictionHop {
  uint32_t from_knot = 0;
  uint32_t to_knot = 0;
  std::optional<uint32_t> moment;
};

// Dependences that cannot all hold: together they say that a round trip over the hops ends
// `excess_ns` before it begins. `hops` is empty where no such round trip was found, because the
// contradiction is with bounds known beforehand.
struct Contradiction {
  std::vector<ContradictionHop> hops;
  int64_t excess_ns = 0;
};

// Writes the bounds, or returns the contradiction because of which there are none. The bounds are
// whole numbers and exact, equal to those that a linear program would find. The time grows with the
// number of edges times the length of the longest chain of groups, usually 2 to 8.
std::optional<Contradiction> SolveBounds(const ConstraintSystem& system, ClockBounds& bounds);

// Returns the middles of the bounds. At knots with both bounds, the middles keep all constraints.
// Proof: with D the shortest distances, high_i = D(ref, i), low_i = -D(i, ref); r_i - r_j <= c
// gives D(ref, i) <= D(ref, j) + c and D(j, ref) <= c + D(i, ref), and half the sum of the two
// inequalities is the constraint between the middles. Rounding down keeps it, since c is whole. The
// middle is 0 where a bound is missing.
std::vector<int64_t> Midpoints(const ClockBounds& bounds);

// Returns the corrections that keep all constraints and are close to `wish`, which need not keep
// any: the middle between the greatest ones below it and the least ones above it, within the
// bounds.
std::vector<int64_t> ClosestFeasible(const ConstraintSystem& system, const ClockBounds& bounds,
                                     std::span<const int64_t> wish);

// Returns by how many nanoseconds `corrections` break the constraint that they break most, among
// knots with both bounds. 0: they break none.
int64_t WorstViolation(const ConstraintSystem& system, const ClockBounds& bounds,
                       std::span<const int64_t> corrections);

}  // namespace proftrace
