// Chooses the rows of a picture of bounded size: the longest rows of the whole recording, and for
// some steps shorter rows too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "userspace/aggregate/step_windows.h"

namespace proftrace {

struct DetailBudget {
  size_t all = 0;     // the most rows, all together
  size_t whole = 0;   // of these, the most rows chosen from the whole recording
  size_t a_step = 0;  // of these, the most additional rows for one step
};

// Chooses among rows of one kind. First all rows are added, then Choose() is called, then Has()
// tells of each row whether it is in the picture. Durations are in ns; a row belongs to the window
// in which it starts.
class LevelOfDetail {
 public:
  // `windows` and `ranked` must outlive this; `ranked`: as ChooseSteps() fills it.
  LevelOfDetail(const StepWindows& windows, const std::vector<uint32_t>& ranked);

  void Add(int64_t start_ns, int64_t duration_ns);
  void Choose(const DetailBudget& budget);
  bool Has(int64_t start_ns, int64_t duration_ns) const;

  uint64_t rows() const { return rows_; }
  uint64_t kept() const { return kept_; }
  // Returns the duration from which on all rows are in the picture, wherever they are; 0 = all rows
  // are in it.
  int64_t least_ns() const;
  // Returns this duration for rows that begin in a window.
  int64_t least_ns(uint32_t window) const;

 private:
  // Durations are sorted into sizes by their leading three bits.
  static constexpr size_t kSizes = 256;
  using Histogram = std::array<uint32_t, kSizes>;

  static size_t SizeOf(int64_t duration_ns);
  static int64_t LeastOf(size_t size);
  // Returns the smallest size from which on there are `most` rows or fewer.
  static size_t Fit(const Histogram& rows, size_t most, size_t up_to, uint64_t* count);

  const StepWindows& windows_;
  const std::vector<uint32_t>& ranked_;
  Histogram all_{};
  std::vector<Histogram> by_window_;
  std::vector<size_t> from_;  // by window: the smallest size that is kept
  size_t from_whole_ = 0;
  uint64_t rows_ = 0;
  uint64_t kept_ = 0;
};

}  // namespace proftrace
