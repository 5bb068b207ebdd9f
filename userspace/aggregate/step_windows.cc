#include "userspace/aggregate/step_windows.h"

#include <algorithm>
#include <numeric>

#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// This many of the slowest steps, of those around the median, and of the first steps come before
// all others.
constexpr size_t kOfEach = 12;

int64_t DurationOf(const std::pair<int64_t, int64_t>& interval) {
  return interval.second - interval.first;
}

// Returns all steps in the order of their worth.
std::vector<uint32_t> RankSteps(const std::vector<std::pair<int64_t, int64_t>>& intervals,
                                size_t most) {
  const size_t count = intervals.size();
  std::vector<uint32_t> slowest(count);
  std::iota(slowest.begin(), slowest.end(), 0);
  std::stable_sort(slowest.begin(), slowest.end(), [&](uint32_t a, uint32_t b) {
    return DurationOf(intervals[a]) > DurationOf(intervals[b]);
  });
  std::vector<bool> is_taken(count);
  std::vector<uint32_t> ranked;
  const auto take = [&](size_t step) {
    if (step >= count || is_taken[step]) return;
    is_taken[step] = true;
    ranked.push_back(static_cast<uint32_t>(step));
  };
  for (size_t i = 0; i < std::min(kOfEach, count); ++i) {
    take(slowest[i]);
    take(slowest[(count / 2 + i) % count]);
    take(i);
  }
  if (count > 0) take(count - 1);
  const size_t stride = std::max<size_t>(1, count / std::max<size_t>(1, most));
  for (size_t step = 0; step < count; step += stride) take(step);
  for (size_t step = 0; step < count; ++step) take(step);
  return ranked;
}

}  // namespace

std::optional<uint32_t> StepWindows::At(int64_t time_ns) const {
  const auto after =
      std::upper_bound(intervals.begin(), intervals.end(), time_ns,
                       [](int64_t time, const auto& interval) { return time < interval.second; });
  if (after == intervals.end() || after->first > time_ns) return std::nullopt;
  return static_cast<uint32_t>(after - intervals.begin());
}

StepWindows ChooseSteps(const std::vector<std::pair<int64_t, int64_t>>& intervals, size_t most,
                        std::vector<uint32_t>* ranked) {
  std::vector<uint32_t> by_worth = RankSteps(intervals, most);
  if (by_worth.size() > most) by_worth.resize(most);
  StepWindows windows;
  windows.steps = by_worth;
  std::sort(windows.steps.begin(), windows.steps.end());
  for (const uint32_t step : windows.steps) windows.intervals.push_back(intervals[step]);
  for (uint32_t& step : by_worth) {
    const auto at = std::lower_bound(windows.steps.begin(), windows.steps.end(), step);
    step = static_cast<uint32_t>(at - windows.steps.begin());
  }
  *ranked = std::move(by_worth);
  return windows;
}

void WindowShares::Add(int64_t time_ns, uint32_t row, const ShareValues& more) {
  if (windows_ == nullptr) return;
  const auto is_in = [&](uint32_t window) {
    const auto& [start_ns, end_ns] = windows_->intervals[window];
    return start_ns <= time_ns && time_ns < end_ns;
  };
  if (!last_.has_value() || !is_in(*last_)) last_ = windows_->At(time_ns);
  if (!last_.has_value()) return;
  ShareValues& sum = sums_[uint64_t{*last_} << 32 | row];
  for (size_t i = 0; i < kShareValues; ++i) sum[i] = SaturatingSum(sum[i], more[i]);
}

std::vector<WindowShare> WindowShares::Take(const std::vector<std::optional<uint32_t>>& numbers) {
  std::vector<WindowShare> shares;
  shares.reserve(sums_.size());
  for (const auto& [key, values] : sums_) {
    WindowShare share{static_cast<uint32_t>(key >> 32), static_cast<uint32_t>(key), values};
    if (!numbers.empty()) {
      if (share.row >= numbers.size() || !numbers[share.row].has_value()) continue;
      share.row = *numbers[share.row];
    }
    shares.push_back(share);
  }
  sums_.clear();
  std::sort(shares.begin(), shares.end(), [](const WindowShare& a, const WindowShare& b) {
    return a.window != b.window ? a.window < b.window : a.row < b.row;
  });
  return shares;
}

}  // namespace proftrace
