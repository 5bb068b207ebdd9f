// A boot's local clock in pieces. Where the clock stood still (suspend) or jumped, a new piece
// begins, with an offset of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"
#include "userspace/fleet_clock/rate.h"

namespace proftrace {

// Says that the clock of a boot broke between the local times `after_ns` and `before_ns`. Events
// strictly between the two bind nothing.
struct ClockBreak {
  uint32_t boot = 0;
  int64_t after_ns = 0;
  int64_t before_ns = 0;
  // Times so far before and behind the break may be of either side, because the clock was set back
  // and showed them twice.
  int64_t twice_ns = 0;
};

// How far the corrections of a piece may be from what its rate and its knots make of them
// (clock_evenness.h): less where there are many ends on both sides than at the edges. Times are
// nanoseconds since the piece's from_ns.
struct ClockSlack {
  int64_t middle_ns = 0;
  int64_t edge_ns = 0;
  int64_t middle_from_ns = 0;
  int64_t middle_to_ns = 0;

  int64_t At(int64_t since_ns) const {
    return since_ns < middle_from_ns || since_ns > middle_to_ns ? edge_ns : middle_ns;
  }
};

// A stretch of one boot's clock without a break, and what is known of it. An event at the local
// time t has the common time t - from_ns + r(t); the correction r is computed at knots, which lie
// evenly.
struct ClockPiece {
  uint32_t boot = 0;
  int64_t from_ns = 0;  // the local time of the piece's first event; to_ns: of its last one
  int64_t to_ns = 0;
  uint64_t events = 0;
  // All local times between these two belong to the piece, also those before its first event and
  // after its last one.
  int64_t begins_ns = INT64_MIN;
  int64_t ends_ns = INT64_MAX;
  // How long after begins_ns and before ends_ns times may be of the neighbour
  // (ClockBreak::twice_ns)
  int64_t twice_at_begin_ns = 0;
  int64_t twice_at_end_ns = 0;

  RateRange rate;              // the range of r's rate, everywhere in the piece
  bool has_free_rate = false;  // the rate changes by more than FleetOptions::wander_ppb
  ClockSlack slack;            // the bounds at the knots are without it
  int64_t spacing_ns = 1;
  // The bounds of r at each knot; -kNoBound and kNoBound: there is none
  std::vector<int64_t> low_ns;
  std::vector<int64_t> high_ns;
  std::vector<int64_t> middle_ns;  // r in the middle of the bounds; keeps all constraints
  std::vector<int64_t> value_ns;   // the likeliest r; keeps all constraints, too
  std::vector<int64_t> likely_error_ns;

  bool is_bounded() const;
  bool MayBeOfLast(int64_t local_ns) const {
    return twice_at_begin_ns > 0 && local_ns < begins_ns + twice_at_begin_ns;
  }
  bool MayBeOfNext(int64_t local_ns) const {
    return twice_at_end_ns > 0 && local_ns > ends_ns - twice_at_end_ns;
  }
  // Returns where a knot lies, in nanoseconds since from_ns.
  int64_t KnotAt(size_t knot) const {
    return spacing_ns / 2 + static_cast<int64_t>(knot) * spacing_ns;
  }
  size_t NearestKnot(int64_t since_from_ns) const;
};

struct PieceTable {
  std::vector<ClockPiece> pieces;  // by boot and time
  // By boot: the index of its first piece; one entry more at the end
  std::vector<uint32_t> first_pieces;

  // Returns the piece that a local time lies in; nullopt: the time lies in a break.
  std::optional<uint32_t> PieceAt(uint32_t boot, int64_t local_ns) const {
    for (uint32_t piece = first_pieces[boot]; piece < first_pieces[boot + 1]; ++piece) {
      if (local_ns > pieces[piece].ends_ns) continue;
      if (local_ns < pieces[piece].begins_ns) return std::nullopt;
      return piece;
    }
    return std::nullopt;
  }
};

// Makes the pieces of `boots` boots. Breaks may overlap.
PieceTable MakePieces(size_t boots, std::vector<ClockBreak> breaks, const FleetMoments& moments);

}  // namespace proftrace
