#include "userspace/fleet_clock/end_estimate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "userspace/base/median.h"
#include "userspace/fleet_clock/clock_bounds.h"
#include "userspace/fleet_clock/piece_times.h"

namespace proftrace {
namespace {

constexpr uint32_t kNotMember = UINT32_MAX;
// The factor from the median of absolute deviations to the error of a median. 1.4826 makes a
// standard deviation of the former, and the error of a median is 1.2533 times that of a mean (both
// for the normal distribution). One value in 370 lies beyond 3 standard deviations.
constexpr double kErrorOfMedian = 1.4826 * 1.2533 * 3;
// Fewer differences do not show how far they scatter.
constexpr size_t kFewestDifferences = 8;
// How many knots on each side are averaged to smooth a knot's distance from the line.
constexpr size_t kSmoothedKnots = 4;

// For each knot of a member: how many differences lie near it, their median, and the median's
// error.
struct KnotMedians {
  std::vector<size_t> counts;
  std::vector<int64_t> medians;
  std::vector<double> errors;
};

double SpreadOf(std::vector<int64_t> deviations) {
  for (int64_t& deviation : deviations) deviation = std::abs(deviation);
  // The median of a few deviations may be far below the true spread. The largest of them is the
  // safe choice.
  if (deviations.size() < kFewestDifferences) {
    return static_cast<double>(*std::max_element(deviations.begin(), deviations.end()));
  }
  return static_cast<double>(Median(std::move(deviations)));
}

double ErrorOfMedian(const std::vector<int64_t>& deviations) {
  return kErrorOfMedian * SpreadOf(deviations) / std::sqrt(static_cast<double>(deviations.size()));
}

// Fits a line through the knots' medians, with their counts as weights, and returns its value at
// each knot. Exact in 128 bits: knots lie evenly, so that a knot's number serves as its place.
std::vector<int64_t> LineThrough(const KnotMedians& knots) {
  const size_t count = knots.counts.size();
  const auto place = [&](size_t knot) {
    return 2 * static_cast<__int128>(knot) - static_cast<__int128>(count - 1);
  };
  __int128 n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  int64_t first = 0;
  for (size_t knot = 0; knot < count; ++knot) {
    if (knots.counts[knot] == 0) continue;
    if (n == 0) first = knots.medians[knot];
    const auto weight = static_cast<__int128>(knots.counts[knot]);
    const __int128 y = knots.medians[knot] - first;
    n += weight;
    sum_x += weight * place(knot);
    sum_y += weight * y;
    sum_xx += weight * place(knot) * place(knot);
    sum_xy += weight * place(knot) * y;
  }
  const __int128 across = n * sum_xx - sum_x * sum_x;
  const __int128 up = n * sum_xy - sum_x * sum_y;
  std::vector<int64_t> line(count, first);
  for (size_t knot = 0; n > 0 && knot < count; ++knot) {
    const __int128 value =
        across == 0 ? sum_y / n : (sum_y * across + up * (n * place(knot) - sum_x)) / (n * across);
    line[knot] += static_cast<int64_t>(value);
  }
  return line;
}

// How far the knots around each knot are from the line, on average. These distances show how uneven
// the rate is.
struct SmoothedKnots {
  std::vector<int64_t> values;
  std::vector<double> errors;
  double most = 0;      // the largest value
  bool is_even = true;  // all values are within their errors
};

SmoothedKnots SmoothFromLine(const KnotMedians& knots, const std::vector<int64_t>& line) {
  SmoothedKnots out;
  for (size_t knot = 0; knot < line.size(); ++knot) {
    const size_t begin = knot - std::min(knot, kSmoothedKnots);
    const size_t end = std::min(knot + kSmoothedKnots + 1, line.size());
    __int128 sum = 0;
    int64_t count = 0;
    double squares = 0;
    for (size_t near = begin; near < end; ++near) {
      const auto weight = static_cast<int64_t>(knots.counts[near]);
      sum += static_cast<__int128>(knots.medians[near] - line[near]) * weight;
      count += weight;
      squares += std::pow(knots.errors[near] * static_cast<double>(weight), 2);
    }
    out.values.push_back(count == 0 ? 0 : static_cast<int64_t>(sum / count));
    out.errors.push_back(count == 0 ? 0 : std::sqrt(squares) / static_cast<double>(count));
    const auto size = static_cast<double>(std::abs(out.values.back()));
    out.most = std::max(out.most, size);
    out.is_even = out.is_even && size <= out.errors.back();
  }
  return out;
}

class EndEstimator {
 public:
  EndEstimator(const FleetMoments& moments, const PieceTable& table,
               std::span<const uint32_t> members, uint32_t reference, const EvenClocks& even)
      : table_(table), members_(members), even_(even) {
    std::vector<uint32_t> member_of_piece(table.pieces.size(), kNotMember);
    for (uint32_t member = 0; member < members.size(); ++member) {
      member_of_piece[members[member]] = member;
      const ClockPiece& piece = table.pieces[members[member]];
      estimate_.wishes.push_back(piece.middle_ns);
      std::vector<int64_t>& likely = estimate_.likely_error_ns.emplace_back();
      for (size_t knot = 0; knot < piece.low_ns.size(); ++knot) {
        likely.push_back((piece.high_ns[knot] - piece.low_ns[knot] + 1) / 2);
      }
      estimate_.slack.emplace_back();
      if (members[member] == reference) reference_ = member;
    }
    Collect(moments, member_of_piece);
  }

  EndEstimate Run() && {
    is_known_.assign(members_.size(), false);
    is_known_[reference_] = true;
    std::vector<uint32_t> queue = {reference_};
    differences_.resize(members_.size());
    for (size_t next = 0; next < queue.size(); ++next) {
      const uint32_t parent = queue[next];
      CompareWith(parent);
      for (uint32_t member = 0; member < members_.size(); ++member) {
        if (differences_[member].empty()) continue;
        Settle(member, parent);
        differences_[member] = {};
        is_known_[member] = true;
        queue.push_back(member);
      }
    }
    return std::move(estimate_);
  }

 private:
  struct End {
    uint32_t member = 0;
    int64_t since_ns = 0;
  };

  void Collect(const FleetMoments& moments, const std::vector<uint32_t>& member_of_piece) {
    std::vector<uint32_t> counts(members_.size() + 1, 0);
    for (size_t moment = 0; moment < moments.moments.size(); ++moment) {
      if (!moments.moments[moment].is_bound || !moments.moments[moment].ends_together) continue;
      const size_t begin = ends_.size();
      is_of_all_.push_back(moments.moments[moment].kind == CollectiveKind::kAllToAll);
      for (const MomentRow& row : moments.Rows(moment)) {
        if (row.left_ns == kNotLeft) continue;
        const auto piece = table_.PieceAt(row.boot, row.left_ns);
        if (!piece || member_of_piece[*piece] == kNotMember) continue;
        const ClockPiece& of = table_.pieces[*piece];
        if (of.MayBeOfLast(row.left_ns) || of.MayBeOfNext(row.left_ns)) continue;
        ends_.push_back({member_of_piece[*piece], row.left_ns - table_.pieces[*piece].from_ns});
      }
      moment_ends_.push_back(static_cast<uint32_t>(ends_.size()));
      unknown_.push_back(static_cast<uint32_t>(ends_.size() - begin));
      for (size_t end = begin; end < ends_.size(); ++end) ++counts[ends_[end].member + 1];
    }
    for (size_t member = 0; member < members_.size(); ++member) {
      counts[member + 1] += counts[member];
    }
    first_of_member_ = counts;
    of_member_.resize(ends_.size());
    uint32_t end = 0;
    for (uint32_t moment = 0; moment < moment_ends_.size(); ++moment) {
      for (; end < moment_ends_[moment]; ++end)
        of_member_[counts[ends_[end].member]++] = {moment, end};
    }
  }

  // Notes the differences between `parent` and all members that have no estimate yet.
  void CompareWith(uint32_t parent) {
    const PieceTimes times(table_.pieces[members_[parent]], estimate_.wishes[parent]);
    uint32_t last_moment = UINT32_MAX;
    for (uint32_t i = first_of_member_[parent]; i < first_of_member_[parent + 1]; ++i) {
      const auto [moment, parent_end] = of_member_[i];
      if (moment == last_moment) continue;  // one rank of the parent's boot is enough
      last_moment = moment;
      if (unknown_[moment] == 0) continue;
      const int64_t parent_ns =
          ends_[parent_end].since_ns + times.Correction(ends_[parent_end].since_ns);
      uint32_t unknown = 0;
      for (uint32_t end = moment == 0 ? 0 : moment_ends_[moment - 1]; end < moment_ends_[moment];
           ++end) {
        const End& other = ends_[end];
        if (is_known_[other.member]) continue;
        ++unknown;
        differences_[other.member].push_back(
            {other.since_ns, parent_ns - other.since_ns, is_of_all_[moment]});
      }
      unknown_[moment] = unknown;
    }
  }

  // Returns the medians near each knot. `rate`: the rate by which the differences change around a
  // knot.
  static KnotMedians MediansOf(const ClockPiece& piece, ClockRate rate,
                               const std::vector<EndDifference>& differences) {
    const size_t count = piece.low_ns.size();
    std::vector<std::vector<int64_t>> near(count);
    for (const EndDifference& difference : differences) {
      const size_t knot = piece.NearestKnot(difference.since_ns);
      near[knot].push_back(difference.correction_ns -
                           GainedFloor(rate, difference.since_ns - piece.KnotAt(knot)));
    }
    KnotMedians out;
    for (std::vector<int64_t>& values : near) {
      out.counts.push_back(values.size());
      out.medians.push_back(values.empty() ? 0 : Median(values));
      for (int64_t& value : values) value -= out.medians.back();
      out.errors.push_back(values.empty() ? 0 : ErrorOfMedian(values));
    }
    return out;
  }

  void Settle(uint32_t member, uint32_t parent) {
    const ClockPiece& piece = table_.pieces[members_[member]];
    const std::vector<EndDifference>& differences = differences_[member];
    // The middle of the proved range of rates is wrong by a few parts in a million. It only serves
    // to fit a first line, whose rate is used then.
    const ClockRate proved = {(piece.rate.low.value + piece.rate.high.value) / 2};
    const std::vector<int64_t> first_line = LineThrough(MediansOf(piece, proved, differences));
    const KnotMedians knots =
        MediansOf(piece, first_line.size() > 1 ? PieceTimes(piece, first_line).MeanRate() : proved,
                  differences);
    const std::vector<int64_t> line = LineThrough(knots);
    const PieceTimes by_line(piece, line);
    std::vector<int64_t> from_line;
    for (const EndDifference& difference : differences) {
      from_line.push_back(difference.correction_ns - by_line.Correction(difference.since_ns));
    }
    // Doubled, because at the ends of a line the error of its slope adds as much as the error of
    // its height.
    const double line_error = 2 * ErrorOfMedian(from_line);
    const SmoothedKnots away = SmoothFromLine(knots, line);
    const double parent_error = member_error(parent);
    for (size_t knot = 0; knot < line.size(); ++knot) {
      double error = std::hypot(line_error, away.most);
      if (!away.is_even) {
        estimate_.wishes[member][knot] = line[knot] + away.values[knot];
        const size_t before = knot - std::min<size_t>(knot, kSmoothedKnots / 2);
        const size_t after = std::min(knot + kSmoothedKnots / 2, line.size() - 1);
        const int64_t bend = away.values[after] - away.values[before];
        error = std::hypot(away.errors[knot], static_cast<double>(bend));
      } else {
        estimate_.wishes[member][knot] = line[knot];
      }
      estimate_.likely_error_ns[member][knot] =
          static_cast<int64_t>(std::ceil(std::hypot(error, parent_error))) + kRoundingNs;
    }
    // The parent may be uneven where the member is not, so that its own slack is added everywhere.
    ClockSlack& slack = estimate_.slack[member];
    slack = UnevennessOf(member, parent, differences);
    slack.middle_ns += estimate_.slack[parent].edge_ns;
    slack.edge_ns += estimate_.slack[parent].edge_ns;
  }

  ClockSlack UnevennessOf(uint32_t member, uint32_t parent, std::vector<EndDifference> ends) const {
    const ClockPiece& piece = table_.pieces[members_[member]];
    const bool is_watched =
        even_.is_watched[members_[member]] && even_.is_watched[members_[parent]];
    if (!piece.has_free_rate) return UnevennessByEnds(std::move(ends), even_.rates, is_watched);
    // The bounds of such a piece follow its knots, and not one line.
    const PieceTimes times(piece, estimate_.wishes[member]);
    for (EndDifference& end : ends) end.correction_ns -= times.Correction(end.since_ns);
    return UnevennessByEnds(std::move(ends), {}, is_watched);
  }

  double member_error(uint32_t member) const {
    if (member == reference_) return 0;
    const std::vector<int64_t>& errors = estimate_.likely_error_ns[member];
    return static_cast<double>(*std::max_element(errors.begin(), errors.end()));
  }

  // The rounding errors of the line, of the interpolation and of both clocks' maps.
  static constexpr int64_t kRoundingNs = 4;

  const PieceTable& table_;
  std::span<const uint32_t> members_;
  const EvenClocks& even_;
  uint32_t reference_ = 0;
  std::vector<End> ends_;
  std::vector<uint32_t> moment_ends_;
  std::vector<bool> is_of_all_;    // by moment: EndDifference::is_of_all
  std::vector<uint32_t> unknown_;  // by moment: how many ends belong to members without an estimate
  std::vector<uint32_t> first_of_member_;
  std::vector<std::pair<uint32_t, uint32_t>> of_member_;  // moment, index into ends_
  std::vector<bool> is_known_;
  std::vector<std::vector<EndDifference>> differences_;
  EndEstimate estimate_;
};

}  // namespace

EndEstimate EstimateByEnds(const FleetMoments& moments, const PieceTable& table,
                           std::span<const uint32_t> members, uint32_t reference,
                           const EvenClocks& even) {
  return EndEstimator(moments, table, members, reference, even).Run();
}

}  // namespace proftrace
