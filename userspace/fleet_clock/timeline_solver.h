// One timeline: the pieces of clocks that depend on each other, against one of them.
//
// The rate of a clock is not assumed. At first it may be anything that a clock's can be
// (FleetOptions::max_rate_ppb); what the bounds at different times leave of it is then proved,
// given that it is even to FleetOptions::wander_ppb, and makes the bounds narrower: again and again
// until that gains little. Then what one line through all of a piece's bounds leaves of them is
// known beforehand (line_bounds.h). A piece that contradicts itself with an even rate keeps all
// rates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_moments.h"

namespace proftrace {

// Dependences that cannot all hold, by pieces. `moment`: index into FleetMoments::moments.
struct PieceContradiction {
  struct Hop {
    uint32_t from_piece = 0;
    uint32_t to_piece = 0;
    std::optional<uint32_t> moment;
  };
  std::vector<Hop> hops;
  int64_t excess_ns = 0;
};

// What the timelines of a fleet have in common. `wander_ppb`: by boot.
struct TimelineInput {
  const FleetMoments& moments;
  const FleetOptions& options;
  std::span<const int64_t> wander_ppb;
};

class TimelineSolver {
 public:
  // `members`: pieces of `table`, of which `reference` is the one whose clock is the common one.
  // What `input` refers to and `table` must outlive this.
  TimelineSolver(const TimelineInput& input, PieceTable& table, std::span<const uint32_t> members,
                 uint32_t reference);

  // Sets the members' rates and bounds; those that are not bound from both sides keep no bounds.
  std::optional<PieceContradiction> Solve();

  // Returns how many of the moments bind two members at least.
  size_t used_moments() const { return used_moments_.size(); }
  // Sets the members' values: the closest to `wishes` (by member, by knot) that keeps everything.
  void SetValues(const std::vector<std::vector<int64_t>>& wishes);

 private:
  // What a piece has to do with a moment: the last entering and the first leaving of its ranks.
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
  std::vector<uint32_t> slots_;  // by member: its events in the moment at hand

  std::vector<uint32_t> first_knots_;  // by member
  std::vector<uint32_t> member_of_knot_;
  bool has_used_lines_ = false;
  ConstraintSystem system_;
  ClockBounds bounds_;
};

}  // namespace proftrace
