// Some of a job's steps, for which sums are made one by one beside those of the whole recording.
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

  // Returns the interval that the time lies in.
  std::optional<uint32_t> At(int64_t time_ns) const;
};

// Chooses the steps that are worth most to a reader: the slowest, those around the median, the
// first ones and the last, and then steps at equal distances, up to `most`. All of them, where
// there are no more. `intervals`: of all steps, in order. The order of `ranked` is that of their
// worth, as indices into StepWindows::intervals.
StepWindows ChooseSteps(const std::vector<std::pair<int64_t, int64_t>>& intervals, size_t most,
                        std::vector<uint32_t>* ranked);

// What of a row's sums began in a window. What the values are, the function that gives it says.
inline constexpr size_t kShareValues = 4;
using ShareValues = std::array<int64_t, kShareValues>;
struct WindowShare {
  uint32_t window = 0;  // an index into StepWindows::intervals
  uint32_t row = 0;
  ShareValues values{};
};

// Sums of rows by window. Memory: 64 bytes for each row that a window has.
class WindowShares {
 public:
  WindowShares() = default;  // takes nothing
  // `windows` must outlive this; nullptr: takes nothing.
  explicit WindowShares(const StepWindows* windows) : windows_(windows) {}

  void Add(int64_t time_ns, uint32_t row, const ShareValues& more);
  // Returns the shares in order of window and row. `numbers`: the number that each row was given
  // since; rows without one are left out. Empty: the rows kept theirs.
  std::vector<WindowShare> Take(const std::vector<std::optional<uint32_t>>& numbers = {});

 private:
  const StepWindows* windows_ = nullptr;
  std::optional<uint32_t> last_;  // the window of the time before
  absl::flat_hash_map<uint64_t, ShareValues> sums_;
};

}  // namespace proftrace
