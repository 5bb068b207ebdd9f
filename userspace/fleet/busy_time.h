// Collects the times at which at least one of many stretches of time was going on, in bounded
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace proftrace {

class BusyTime {
 public:
  using Stretch = std::pair<int64_t, int64_t>;  // begin and end
  // The most separate stretches that are kept. Where there are more, stretches with the smallest
  // gaps between them become one.
  static constexpr size_t kMostStretches = size_t{1} << 18;

  explicit BusyTime(size_t most = kMostStretches) : most_(most) {}

  void Add(int64_t begin_ns, int64_t end_ns);
  // Returns the stretches in order, without overlaps, and forgets them.
  std::vector<Stretch> Take();
  // Returns the largest gap that was closed to bound the memory.
  int64_t closed_gap_ns() const { return closed_gap_ns_; }

 private:
  void Join(int64_t gap_ns);
  void Shrink();

  size_t most_;
  std::vector<Stretch> stretches_;
  int64_t closed_gap_ns_ = 0;
};

}  // namespace proftrace
