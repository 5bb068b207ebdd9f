#include "userspace/fleet_clock/fleet_clock.h"

#include <algorithm>

#include "userspace/fleet_clock/piece_times.h"

namespace proftrace {

std::optional<CommonTime> FleetClock::Map(uint32_t boot, int64_t local_ns) const {
  const auto index = table_.PieceAt(boot, local_ns);
  if (!index) return std::nullopt;
  const ClockPiece& piece = table_.pieces[*index];
  CommonTime time;
  time.timeline = timeline_of_piece_[*index];
  const int64_t since_ns = local_ns - piece.from_ns;
  const int64_t zero_ns = timelines_[time.timeline].zero_ns + since_ns;
  const PieceTimes times(piece, piece.value_ns);
  time.low_ns = zero_ns + times.Low(since_ns) - piece.slack.At(since_ns);
  time.high_ns = zero_ns + times.High(since_ns) + piece.slack.At(since_ns);
  // Where the clock was set back, what it showed before has a correction that is less by as much.
  if (piece.MayBeOfLast(local_ns)) time.low_ns -= piece.twice_at_begin_ns;
  if (piece.MayBeOfNext(local_ns)) time.high_ns += piece.twice_at_end_ns;
  time.common_ns = std::clamp(zero_ns + times.Correction(since_ns), time.low_ns, time.high_ns);
  const size_t knot = piece.NearestKnot(since_ns);
  time.likely_error_ns = piece.likely_error_ns[knot];
  // Before the first and after the last event, the error grows with the uncertainty of the rate.
  const int64_t outside_ns =
      std::max({int64_t{0}, -since_ns, since_ns - (piece.to_ns - piece.from_ns)});
  const int64_t length_ns = std::max<int64_t>(1, piece.to_ns - piece.from_ns);
  time.likely_error_ns += static_cast<int64_t>(static_cast<__int128>(2) * time.likely_error_ns *
                                               outside_ns / length_ns);
  time.likely_error_ns = std::min(time.likely_error_ns, time.bound_ns());
  return time;
}

std::optional<CollectiveTimes> TimesOfMoment(const FleetMoments& moments, size_t moment,
                                             const ClockMap& map) {
  const auto rows = moments.Rows(moment);
  CollectiveTimes out;
  std::optional<uint32_t> timeline;
  int64_t first_left_ns = INT64_MAX;
  std::vector<CommonTime> entered;
  for (const MomentRow& row : rows) {
    if (!row.is_of_rank) return std::nullopt;
    const auto in = map(row.boot, row.call_entered_ns);
    const auto left = map(row.boot, row.call_left_ns);
    if (!in || !left || in->timeline != left->timeline) return std::nullopt;
    out.ranks.push_back({row.rank, in->common_ns, left->common_ns});
    entered.push_back(*in);
    if (row.is_left_out) continue;
    if (timeline.value_or(in->timeline) != in->timeline) return std::nullopt;
    if (!timeline) out.entered_last = static_cast<uint32_t>(out.ranks.size() - 1);
    timeline = in->timeline;
    ++out.compared;
    first_left_ns = std::min(first_left_ns, left->common_ns);
    out.bound_ns = std::max({out.bound_ns, in->bound_ns(), left->bound_ns()});
    out.likely_error_ns =
        std::max({out.likely_error_ns, in->likely_error_ns, left->likely_error_ns});
    if (in->common_ns > out.ranks[out.entered_last].entered_ns) {
      out.entered_last = static_cast<uint32_t>(out.ranks.size() - 1);
    }
  }
  if (out.compared == 0) return std::nullopt;
  const int64_t last_ns = out.ranks[out.entered_last].entered_ns;
  int64_t first_ns = last_ns;
  int64_t second_ns = INT64_MIN;
  out.is_last_proved = true;
  for (uint32_t rank = 0; rank < out.ranks.size(); ++rank) {
    if (rows[rank].is_left_out) continue;
    CollectiveTimes::Rank& of = out.ranks[rank];
    of.wait_ns = last_ns - of.entered_ns;
    of.tail_ns = of.left_ns - first_left_ns;
    first_ns = std::min(first_ns, of.entered_ns);
    if (rank == out.entered_last) continue;
    second_ns = std::max(second_ns, of.entered_ns);
    if (rows[rank].boot == rows[out.entered_last].boot) continue;
    if (entered[rank].high_ns >= entered[out.entered_last].low_ns) out.is_last_proved = false;
  }
  out.transfer_ns = first_left_ns - last_ns;
  out.skew_ns = last_ns - first_ns;
  out.lead_ns = out.compared > 1 ? last_ns - second_ns : 0;
  // The difference between two ranks has twice the error, because their clocks can be wrong in
  // opposite directions.
  out.bound_ns *= 2;
  out.likely_error_ns *= 2;
  return out;
}

std::optional<CollectiveTimes> FleetClock::TimesOf(size_t moment) const {
  if (moments_.moments[moment].source != FleetMoment::Source::kCollective) return std::nullopt;
  return TimesOfMoment(moments_, moment,
                       [this](uint32_t boot, int64_t local_ns) { return Map(boot, local_ns); });
}

FleetClock::Drift FleetClock::DriftOf(uint32_t piece) const {
  const ClockPiece& of = table_.pieces[piece];
  return {PieceTimes(of, of.value_ns).MeanRate().ppb(), of.rate.low.ppb(), of.rate.high.ppb()};
}

}  // namespace proftrace
