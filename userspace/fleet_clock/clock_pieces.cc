#include "userspace/fleet_clock/clock_pieces.h"

#include <algorithm>
#include <tuple>

#include "userspace/fleet_clock/clock_bounds.h"

namespace proftrace {

bool ClockPiece::is_bounded() const {
  return !low_ns.empty() && low_ns.front() > -kNoBound && high_ns.front() < kNoBound;
}

size_t ClockPiece::NearestKnot(int64_t since_from_ns) const {
  const int64_t knot = since_from_ns / spacing_ns;
  return static_cast<size_t>(std::clamp<int64_t>(knot, 0, static_cast<int64_t>(low_ns.size()) - 1));
}

PieceTable MakePieces(size_t boots, std::vector<ClockBreak> breaks, const FleetMoments& moments) {
  std::sort(breaks.begin(), breaks.end(), [](const ClockBreak& a, const ClockBreak& b) {
    return std::tie(a.boot, a.after_ns, a.before_ns) < std::tie(b.boot, b.after_ns, b.before_ns);
  });
  PieceTable table;
  auto next = breaks.begin();
  for (uint32_t boot = 0; boot < boots; ++boot) {
    table.first_pieces.push_back(static_cast<uint32_t>(table.pieces.size()));
    ClockPiece piece;
    piece.boot = boot;
    while (next != breaks.end() && next->boot == boot) {
      int64_t before_ns = next->before_ns;
      int64_t twice_ns = next->twice_ns;
      piece.ends_ns = next->after_ns;
      while (++next != breaks.end() && next->boot == boot && next->after_ns < before_ns) {
        before_ns = std::max(before_ns, next->before_ns);
        twice_ns = std::max(twice_ns, next->twice_ns);
      }
      piece.twice_at_end_ns = twice_ns;
      table.pieces.push_back(piece);
      piece.begins_ns = before_ns;
      piece.twice_at_begin_ns = twice_ns;
      piece.ends_ns = INT64_MAX;
      piece.twice_at_end_ns = 0;
    }
    table.pieces.push_back(piece);
  }
  table.first_pieces.push_back(static_cast<uint32_t>(table.pieces.size()));

  for (const MomentRow& row : moments.rows) {
    for (const int64_t ns : {row.entered_ns, row.left_ns}) {
      if (ns == kNotEntered || ns == kNotLeft) continue;
      const auto index = table.PieceAt(row.boot, ns);
      if (!index) continue;
      ClockPiece& piece = table.pieces[*index];
      piece.from_ns = piece.events == 0 ? ns : std::min(piece.from_ns, ns);
      piece.to_ns = piece.events == 0 ? ns : std::max(piece.to_ns, ns);
      ++piece.events;
    }
  }
  return table;
}

}  // namespace proftrace
