#include "userspace/fleet_clock/clock_evenness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "userspace/base/median.h"

namespace proftrace {
namespace {

// How many ends on each side of one are taken into its median: a sixteenth of all, within these.
constexpr size_t kFewestAtEdge = 2;
constexpr size_t kMostNeighbours = 16;
// The factor from the median of absolute deviations to two standard deviations.
constexpr double kScatter = 2 * 1.4826;
// With few ends the line follows a step in part, so that three ends count twice.
constexpr double kFewEnds = 3;
// How many times what can hide in the scatter the ends of a watched clock must be off their line.
constexpr double kSignificant = 3;
// Fewer ends do not show how far they scatter.
constexpr size_t kFewestToShow = 6;

// Returns two standard deviations of the scatter of single ends around the medians of five.
double ScatterOf(const std::vector<int64_t>& distances) {
  std::vector<int64_t> scatter;
  for (size_t i = 0; i < distances.size(); ++i) {
    const size_t begin = i - std::min<size_t>(i, 2);
    const size_t end = std::min<size_t>(i + 3, distances.size());
    const int64_t smooth_ns =
        Median(std::vector<int64_t>(distances.begin() + static_cast<ptrdiff_t>(begin),
                                    distances.begin() + static_cast<ptrdiff_t>(end)));
    scatter.push_back(std::abs(distances[i] - smooth_ns));
  }
  return kScatter * static_cast<double>(Median(std::move(scatter)));
}

bool IsWatched(const FleetBoot& boot, int64_t from_ns, int64_t to_ns) {
  const std::vector<ClockSnapshot>& snapshots = boot.snapshots;
  const auto shows_slew = [](const ClockSnapshot& of) {
    return of.monotonic_raw_ns.has_value() && of.boottime_ns.has_value();
  };
  return snapshots.size() > 1 && snapshots.front().monotonic_ns <= from_ns &&
         snapshots.back().monotonic_ns >= to_ns &&
         std::all_of(snapshots.begin(), snapshots.end(), shows_slew);
}

// Returns the ends with one for each time, in order of time: the median of the ends of all ranks.
// Ends of broadcasts serve only where there are no others.
std::vector<EndDifference> OneForEachTime(std::vector<EndDifference> ends) {
  const bool has_of_all =
      std::any_of(ends.begin(), ends.end(), [](const EndDifference& end) { return end.is_of_all; });
  if (has_of_all) std::erase_if(ends, [](const EndDifference& end) { return !end.is_of_all; });
  std::sort(ends.begin(), ends.end(), [](const EndDifference& a, const EndDifference& b) {
    return std::pair(a.since_ns, a.correction_ns) < std::pair(b.since_ns, b.correction_ns);
  });
  std::vector<EndDifference> out;
  for (size_t begin = 0, end = 0; begin < ends.size(); begin = end) {
    while (end < ends.size() && ends[end].since_ns == ends[begin].since_ns) ++end;
    out.push_back(ends[begin + (end - begin - 1) / 2]);
  }
  return out;
}

// Returns the distances of the ends from the line through them that is nearest by squares, among
// those whose rate is one of `rates`.
std::vector<int64_t> FromLine(const std::vector<EndDifference>& ends, RateRange rates) {
  const auto count = static_cast<double>(ends.size());
  const EndDifference& first = ends.front();
  double sum_x = 0, sum_y = 0;
  for (const EndDifference& end : ends) {
    sum_x += static_cast<double>(end.since_ns - first.since_ns);
    sum_y += static_cast<double>(end.correction_ns - first.correction_ns);
  }
  const double middle_x = sum_x / count;
  const double middle_y = sum_y / count;
  double across = 0, up = 0;
  for (const EndDifference& end : ends) {
    const double x = static_cast<double>(end.since_ns - first.since_ns) - middle_x;
    across += x * x;
    up += x * (static_cast<double>(end.correction_ns - first.correction_ns) - middle_y);
  }
  const auto per_ns = [](ClockRate rate) {
    return std::ldexp(static_cast<double>(rate.value), -ClockRate::kShift);
  };
  const double rate =
      std::clamp(across > 0 ? up / across : 0.0, per_ns(rates.low), per_ns(rates.high));
  std::vector<int64_t> distances;
  for (const EndDifference& end : ends) {
    const double x = static_cast<double>(end.since_ns - first.since_ns) - middle_x;
    const double y = static_cast<double>(end.correction_ns - first.correction_ns) - middle_y;
    distances.push_back(std::llround(y - rate * x));
  }
  return distances;
}

}  // namespace

EvenClocks KnownOfClocks(const FleetInput& input, const FleetOptions& options,
                         const PieceTable& table) {
  EvenClocks even;
  even.rates = {ClockRate::OfPpb(-options.max_rate_ppb), ClockRate::OfPpb(options.max_rate_ppb)};
  for (const ClockPiece& piece : table.pieces) {
    even.is_watched.push_back(IsWatched(input.boots[piece.boot], piece.from_ns, piece.to_ns));
  }
  return even;
}

ClockSlack UnevennessByEnds(std::vector<EndDifference> ends, RateRange rates, bool is_watched) {
  ends = OneForEachTime(std::move(ends));
  if (ends.empty()) return {};
  const std::vector<int64_t> distances = FromLine(ends, rates);
  const size_t count = distances.size();
  const size_t edge = std::clamp(count / 16, kFewestAtEdge, kMostNeighbours);
  const double scatter_ns = ScatterOf(distances);
  double middle_ns = 0;
  double edge_ns = 0;
  bool is_shown = false;
  for (size_t i = 0; i < count; ++i) {
    // Fewer neighbours at the edges: as many on each side, so that a step there is not passed over.
    const size_t around = std::min({i, count - 1 - i, edge});
    const auto begin = distances.begin() + static_cast<ptrdiff_t>(i - around);
    const auto end = distances.begin() + static_cast<ptrdiff_t>(i + around + 1);
    const auto smooth_ns = static_cast<double>(std::abs(Median(std::vector<int64_t>(begin, end))));
    const double hidden_ns = scatter_ns / std::sqrt(static_cast<double>(2 * around + 1));
    is_shown = is_shown || (count >= kFewestToShow && smooth_ns > kSignificant * hidden_ns);
    double& most_ns = around < edge ? edge_ns : middle_ns;
    most_ns = std::max(most_ns, smooth_ns + hidden_ns);
  }
  if (is_watched && !is_shown) return {};
  const double factor = 1 + kFewEnds / static_cast<double>(count);
  ClockSlack slack = {std::llround(middle_ns * factor),
                      std::llround(std::max(edge_ns, middle_ns) * factor)};
  if (count <= 2 * edge) return {slack.edge_ns, slack.edge_ns};
  slack.middle_from_ns = ends[edge].since_ns;
  slack.middle_to_ns = ends[count - 1 - edge].since_ns;
  return slack;
}

}  // namespace proftrace
