#include "userspace/why/period.h"

#include <algorithm>

namespace proftrace {
namespace {

// Three steps at equal distances are a rhythm only where no others have an excess: among others
// they come about by chance.
constexpr size_t kFewestTimes = 3;
constexpr size_t kFewestAmongOthers = 5;
constexpr size_t kLongestDistance = 1000;
// So much of the period's steps have an excess, and so much of the whole excess is theirs.
constexpr double kHeld = 0.8;
constexpr double kOwned = 0.7;

// Returns the excess that nine of ten steps that have one stay below. What is above it counts no
// more than that: one very slow step is no rhythm.
int64_t MostThatCounts(const std::vector<int64_t>& excess) {
  std::vector<int64_t> some;
  std::copy_if(excess.begin(), excess.end(), std::back_inserter(some),
               [](int64_t more) { return more > 0; });
  if (some.empty()) return 0;
  const auto at = some.begin() + static_cast<std::ptrdiff_t>(some.size() * 9 / 10);
  std::nth_element(some.begin(), at, some.end());
  return *at;
}

}  // namespace

std::optional<Period> FindPeriod(const std::vector<int64_t>& excess) {
  const int64_t most = MostThatCounts(excess);
  double all = 0;
  std::vector<size_t> steps;
  for (size_t step = 0; step < excess.size(); ++step) {
    if (excess[step] <= 0) continue;
    steps.push_back(step);
    all += static_cast<double>(std::min(excess[step], most));
  }
  std::optional<Period> best;
  double best_sum = kOwned * all;
  std::vector<double> sums;
  std::vector<size_t> times;
  const size_t longest = std::min(kLongestDistance, excess.size() / kFewestTimes);
  for (size_t distance = 2; distance <= longest; ++distance) {
    sums.assign(distance, 0);
    times.assign(distance, 0);
    for (const size_t step : steps) {
      sums[step % distance] += static_cast<double>(std::min(excess[step], most));
      ++times[step % distance];
    }
    for (size_t first = 0; first < distance; ++first) {
      const size_t possible = (excess.size() - first + distance - 1) / distance;
      const size_t fewest = times[first] == steps.size() ? kFewestTimes : kFewestAmongOthers;
      if (times[first] < fewest || sums[first] <= best_sum) continue;
      if (static_cast<double>(times[first]) < kHeld * static_cast<double>(possible)) continue;
      best = Period{distance, first};
      best_sum = sums[first];
    }
  }
  return best;
}

}  // namespace proftrace
