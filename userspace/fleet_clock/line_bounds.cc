#include "userspace/fleet_clock/line_bounds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace proftrace {
namespace {

// The search for a rate ends when the rest of its range makes no more than this over the piece's
// length.
constexpr int64_t kFineNs = 30;

// A bound at one knot that does not follow from the bound of a neighbour.
struct LineLimit {
  int64_t at_ns = 0;
  int64_t high_ns = 0;
};

// Finds how high a line can be that keeps all upper bounds. Lower bounds are the upper ones of the
// mirrored clock.
class UpperLines {
 public:
  UpperLines(const ClockPiece& piece, const std::vector<int64_t>& high, RateRange rate,
             ClockRate wander)
      : wander_(wander), length_ns_(piece.KnotAt(high.size())) {
    for (size_t knot = 0; knot < high.size(); ++knot) {
      const int64_t most = rate.Most(piece.spacing_ns);
      const int64_t least = rate.Least(piece.spacing_ns);
      if (knot > 0 && high[knot] >= high[knot - 1] + most) continue;
      if (knot + 1 < high.size() && high[knot] >= high[knot + 1] - least) continue;
      limits_.push_back({piece.KnotAt(knot), high[knot]});
    }
    even_ = {{rate.low.value + wander.value}, {rate.high.value - wander.value}};
  }

  // Returns how high a line can be at a time. Its greatest height is concave in its rate: while the
  // limit that stops the line lies before that time, a higher rate makes it higher.
  int64_t At(int64_t at_ns) const {
    if (limits_.empty() || even_.low > even_.high) return kNoBound;
    int64_t low = even_.low.value;
    int64_t high = even_.high.value;
    while (GainedCeil({high - low}, length_ns_) > kFineNs) {
      const int64_t middle = low + (high - low) / 2;
      const Meeting meeting = Meet(at_ns, {middle});
      if (meeting.limit_ns == at_ns) return meeting.high_ns;
      (meeting.limit_ns < at_ns ? low : high) = middle;
    }
    const int64_t fine_ns = GainedCeil({high - low}, length_ns_);
    return Meet(at_ns, {low}).high_ns + fine_ns;
  }

 private:
  struct Meeting {
    int64_t high_ns = kNoBound;
    int64_t limit_ns = 0;
  };

  Meeting Meet(int64_t at_ns, ClockRate rate) const {
    Meeting meeting;
    for (const LineLimit& limit : limits_) {
      const int64_t apart_ns = at_ns - limit.at_ns;
      const int64_t high_ns = limit.high_ns + GainedCeil(rate, apart_ns) +
                              GainedCeil(wander_, apart_ns < 0 ? -apart_ns : apart_ns);
      if (high_ns < meeting.high_ns) meeting = {high_ns, limit.at_ns};
    }
    return meeting;
  }

  ClockRate wander_;
  int64_t length_ns_;
  RateRange even_;  // the rates that the line itself may have
  std::vector<LineLimit> limits_;
};

}  // namespace

ClockBounds BoundsByLines(const ClockPiece& piece, ClockRate wander) {
  std::vector<int64_t> mirrored;
  for (const int64_t low : piece.low_ns) mirrored.push_back(-low);
  const RateRange mirrored_rate = {{-piece.rate.high.value}, {-piece.rate.low.value}};
  const UpperLines upper(piece, piece.high_ns, piece.rate, wander);
  const UpperLines lower(piece, mirrored, mirrored_rate, wander);
  ClockBounds bounds;
  for (size_t knot = 0; knot < mirrored.size(); ++knot) {
    bounds.high_ns.push_back(std::min(piece.high_ns[knot], upper.At(piece.KnotAt(knot))));
    bounds.low_ns.push_back(std::max(piece.low_ns[knot], -lower.At(piece.KnotAt(knot))));
  }
  return bounds;
}

}  // namespace proftrace
