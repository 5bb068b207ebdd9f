// Chooses the rows of the inputs that a merged timeline has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

struct RowChoice {
  bool is_summary = false;  // only steps, annotations, phases, and the busy times of GPUs
  std::vector<std::string> categories;               // categories of rows; empty: all
  std::vector<std::pair<int32_t, int32_t>> ranks;    // first and last; empty: all
  std::optional<std::pair<int64_t, int64_t>> steps;  // first and last
  std::optional<int64_t> from_ns;                    // on the common clock
  std::optional<int64_t> until_ns;

  bool HasRank(std::optional<int32_t> rank) const;
  // Returns whether rows of the category are wanted.
  bool HasCategory(std::string_view category) const;
};

// Returns the number in the name of one of torch.profiler's step rows, "ProfilerStep#12".
std::optional<int64_t> StepOf(const SourceEvent& event);

// Returns whether a row is work on a GPU: a kernel, a copy or a fill.
bool IsGpuWork(const SourceEvent& event);
// Returns whether the summary has the row itself.
bool IsInSummary(const SourceEvent& event);

// Keeps the times of each process's steps, and finds the window that a range of steps covers.
class StepTimes {
 public:
  void Add(uint32_t process, int64_t step, int64_t begin_ns, int64_t end_ns);
  bool empty() const { return steps_.empty(); }
  // Returns the time from the begin of the first of these steps to the end of the last; nullopt
  // where the process has none of them.
  std::optional<std::pair<int64_t, int64_t>> Window(uint32_t process, int64_t first,
                                                    int64_t last) const;

 private:
  std::map<std::pair<uint32_t, int64_t>, std::pair<int64_t, int64_t>> steps_;
};

}  // namespace proftrace
