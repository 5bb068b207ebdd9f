// Which rows of the inputs a merged timeline has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/collectives/source_input.h"

namespace proftrace {

struct RowChoice {
  bool is_summary = false;                           // steps, annotations; what GPUs do as a whole
  std::vector<std::pair<int32_t, int32_t>> ranks;    // first and last; empty: all
  std::optional<std::pair<int64_t, int64_t>> steps;  // first and last
  std::optional<int64_t> from_ns;                    // on the common clock
  std::optional<int64_t> until_ns;

  bool HasRank(std::optional<int32_t> rank) const;
};

// Returns the number in the name of one of torch.profiler's step rows, "ProfilerStep#12".
std::optional<int64_t> StepOf(const SourceEvent& event);

// Whether a row is of the work that a GPU does: kernels, copies, fills.
bool IsGpuWork(const SourceEvent& event);
// Whether a row is in the summary as it is.
bool IsInSummary(const SourceEvent& event);

// The times of each process's steps, and what of the timeline they are.
class StepTimes {
 public:
  void Add(uint32_t process, int64_t step, int64_t begin_ns, int64_t end_ns);
  bool empty() const { return steps_.empty(); }
  // Returns the time from the first of these steps to the last; nullopt: the process has none.
  std::optional<std::pair<int64_t, int64_t>> Window(uint32_t process, int64_t first,
                                                    int64_t last) const;

 private:
  std::map<std::pair<uint32_t, int64_t>, std::pair<int64_t, int64_t>> steps_;
};

}  // namespace proftrace
