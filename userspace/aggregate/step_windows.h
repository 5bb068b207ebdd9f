// Chooses some of a job's steps. Sums are made for each of these steps, beside those of the whole
// recording.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace proftrace {

struct StepWindows {
  std::vector<std::pair<int64_t, int64_t>>
      intervals;                // in order, without overlaps; CLOCK_MONOTONIC
  std::vector<uint32_t> steps;  // by interval: the number of its step

  // Returns the interval that the time lies in; nullopt: it lies in none.
  std::optional<uint32_t> At(int64_t time_ns) const;
};

// Chooses up to `most` steps that tell a reader most: the slowest, those around the median, the
// first and the last ones, and then steps at equal distances. All steps are chosen where there are
// no more than `most`. `intervals`: those of all steps, in order. `ranked` is filled with the
// chosen steps in the order of their worth, as indices into StepWindows::intervals.
StepWindows ChooseSteps(const std::vector<std::pair<int64_t, int64_t>>& intervals, size_t most,
                        std::vector<uint32_t>* ranked);

// The part of a row's sums that began in a window. The function that returns the shares says which
// values they hold.
inline constexpr size_t kShareValues = 4;
using ShareValues = std::array<int64_t, kShareValues>;
struct WindowShare {
  uint32_t window = 0;  // an index into StepWindows::intervals
  uint32_t row = 0;
  ShareValues values{};
};

// Collects sums by row and window. Memory: 64 bytes for each row of each window.
class WindowShares {
 public:
  WindowShares() = default;  // collects nothing
  // `windows` must outlive this; nullptr: nothing is collected.
  explicit WindowShares(const StepWindows* windows) : windows_(windows) {}

  void Add(int64_t time_ns, uint32_t row, const ShareValues& more);
  // Returns the shares in order of window and row. `numbers`: the new number of each row; rows
  // without a number are left out. Empty: the rows keep their numbers.
  std::vector<WindowShare> Take(const std::vector<std::optional<uint32_t>>& numbers = {});

 private:
  const StepWindows* windows_ = nullptr;
  std::optional<uint32_t> last_;  // the window of the last Add()
  absl::flat_hash_map<uint64_t, ShareValues> sums_;
};

}  // namespace proftrace
