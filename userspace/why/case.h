// What the rules of `why` look at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/model/timeline.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

struct Case {
  const Timeline& timeline;
  const Aggregates& aggregates;
  const StepParts& parts;
  std::vector<WaitSum> waits;  // of the driving thread, the longest first; none without sched

  size_t steps() const { return parts.intervals.size(); }
  // Returns a time of all steps as it is of one.
  int64_t AStep(int64_t ns) const { return ns / static_cast<int64_t>(steps()); }
};

// Returns the entry of a map with the largest value, the first of equal ones; its end where it is
// empty.
template <typename Map>
auto LargestValue(const Map& map) {
  return std::max_element(map.begin(), map.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

// "the main thread"; "thread NAME (TID 12)" where another one drives the steps.
std::string DriverText(const Case& job);
// "12.8 ms", "840 us", "2.31 s".
std::string DurationText(int64_t ns);
// "31 %", "4.2 %" below ten.
std::string PercentText(int64_t ns, int64_t of_ns);
// "1.2 MB", in powers of 1000 as rates are.
std::string BytesText(int64_t bytes);
// "3 reads", "1 read".
std::string CountText(uint64_t count, const std::string& one, const std::string& many);
// "thread NAME (TID 12 of PID 7)"; of the same process without its PID. Names are shown ones.
std::string ThreadPlaceText(const Timeline& timeline, ThreadIndex thread, Pid own);
// A file's name as it is shown; empty = not known.
std::string FileText(const Timeline& timeline, SystemFileId id);
// The innermost that is known of a place: its function of Python and row; empty = nothing is.
std::string WaitPlaceText(const Timeline& timeline, const WaitPlace& place);

}  // namespace proftrace
