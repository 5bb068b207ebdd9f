#include "userspace/aggregate/level_of_detail.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace proftrace {

LevelOfDetail::LevelOfDetail(const StepWindows& windows, const std::vector<uint32_t>& ranked)
    : windows_(windows), ranked_(ranked), by_window_(windows.intervals.size()) {}

size_t LevelOfDetail::SizeOf(int64_t duration_ns) {
  if (duration_ns < 4) return duration_ns <= 0 ? 0 : static_cast<size_t>(duration_ns);
  const auto value = static_cast<uint64_t>(duration_ns);
  const auto power = static_cast<size_t>(std::bit_width(value)) - 1;  // 2 or more
  return 4 * (power - 1) + ((value >> (power - 2)) & 3);
}

int64_t LevelOfDetail::LeastOf(size_t size) {
  if (size < 4) return static_cast<int64_t>(size);
  const size_t power = size / 4 + 1;
  return static_cast<int64_t>((uint64_t{4} + size % 4) << (power - 2));
}

void LevelOfDetail::Add(int64_t start_ns, int64_t duration_ns) {
  const size_t size = SizeOf(duration_ns);
  ++all_[size];
  ++rows_;
  if (const auto window = windows_.At(start_ns)) ++by_window_[*window][size];
}

size_t LevelOfDetail::Fit(const Histogram& rows, size_t most, size_t up_to, uint64_t* count) {
  size_t size = up_to;
  *count = 0;
  while (size > 0 && *count + rows[size - 1] <= most) *count += rows[--size];
  return size;
}

void LevelOfDetail::Choose(const DetailBudget& budget) {
  from_.assign(by_window_.size(), 0);
  from_whole_ = 0;
  kept_ = rows_;
  if (rows_ <= budget.all) return;
  from_whole_ = Fit(all_, budget.whole, kSizes, &kept_);
  std::fill(from_.begin(), from_.end(), from_whole_);
  for (const uint32_t window : ranked_) {
    const size_t left = budget.all - std::min<size_t>(budget.all, kept_);
    uint64_t count = 0;
    from_[window] = Fit(by_window_[window], std::min(left, budget.a_step), from_whole_, &count);
    kept_ += count;
  }
}

bool LevelOfDetail::Has(int64_t start_ns, int64_t duration_ns) const {
  const size_t size = SizeOf(duration_ns);
  if (size >= from_whole_) return true;
  const auto window = windows_.At(start_ns);
  return window.has_value() && size >= from_[*window];
}

int64_t LevelOfDetail::least_ns() const { return LeastOf(from_whole_); }

int64_t LevelOfDetail::least_ns(uint32_t window) const { return LeastOf(from_[window]); }

}  // namespace proftrace
