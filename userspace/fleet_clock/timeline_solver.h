// Solves one timeline: the pieces of clocks that depend on each other, against one of them, the
// reference.
//
// The rate of a clock is not assumed. At first each clock may have any rate up to
// FleetOptions::max_rate_ppb. The bounds at different times then limit the rate, which is proved as
// far as the rate is even to FleetOptions::wander_ppb, and the smaller range of rates makes the
// bounds narrower. This is repeated until it gains little. At last the bounds that one line leaves
// (line_bounds.h) are taken as known beforehand. A piece whose bounds contradict an even rate keeps
// all rates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

// Dependences that cannot all hold (clock_bounds.h, Contradiction), by pieces instead of knots.
// `moment`: index into FleetMoments::moments.
struct PieceContradiction {
  struct Hop {
    uint32_t from_piece = 0;
    uint32_t to_piece = 0;
    std::optional<uint32_t> moment;
  };
  std::vector<Hop> hops;
  int64_t excess_ns = 0;
};

// The input that all timelines of a fleet share. `wander_ppb`: by boot.
struct TimelineInput {
  const FleetMoments& moments;
  const FleetOptions& options;
  std::span<const int64_t> wander_ppb;
};

class TimelineSolver {
 public:
  // `members`: indices of pieces of `table`. `reference`: the one of them whose clock is the common
  // one. `table` and the objects that `input` refers to must outlive this object.
  TimelineSolver(const TimelineInput& input, PieceTable& table, std::span<const uint32_t> members,
                 uint32_t reference);

  // Sets the members' rates and bounds, or returns why they contradict each other. A member that is
  // not bound from both sides has missing bounds afterwards.
  std::optional<PieceContradiction> Solve();

  // Solves again, after Solve(): the corrections of each bounded member may be off its even clock
  // by `slack` (by member; none for the reference).
  std::optional<PieceContradiction> SolveWithSlack(const std::vector<ClockSlack>& slack);

  // Returns how many moments bind at least two members.
  size_t used_moments() const { return used_moments_.size(); }
  // Sets the members' values to those that keep all constraints and are closest to `wishes` (by
  // member, by knot).
  void SetValues(const std::vector<std::vector<int64_t>>& wishes);

 private:
  // One piece's part in a moment: when the last of its ranks entered and the first one left.
  struct PieceEvents {
    uint32_t member = 0;
    int64_t entered_ns = kNotEntered;  // since the piece's from_ns
    int64_t left_ns = kNotLeft;
  };

  void Collect();
  void AddEvent(uint32_t moment_begin, uint32_t boot, int64_t ns, bool is_left);
  bool BindsTwo(size_t begin) const;
  void PlaceKnots();
  void BuildSystem();
  void BuildSteps();
  bool Narrow();
  bool NarrowByLines();
  bool NarrowPiece(ClockPiece& piece) const;
  void ResetRates();
  bool FreeRates(const Contradiction& contradiction);
  PieceContradiction ToPieces(const Contradiction& contradiction) const;
  RateRange AnyRate() const;
  ClockPiece& Member(uint32_t member) { return table_.pieces[members_[member]]; }

  TimelineInput input_;
  PieceTable& table_;
  std::vector<uint32_t> members_;
  uint32_t reference_;

  std::vector<uint32_t> member_of_piece_;  // UINT32_MAX: none
  std::vector<PieceEvents> events_;
  std::vector<uint32_t> event_ends_;  // by used moment
  std::vector<uint32_t> used_moments_;
  std::vector<uint32_t> slots_;  // by member: the index of its events in the moment being collected

  std::vector<uint32_t> first_knots_;  // by member
  std::vector<uint32_t> member_of_knot_;
  bool has_used_lines_ = false;
  ConstraintSystem system_;
  ClockBounds bounds_;
};

}  // namespace proftrace
