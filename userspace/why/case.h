// The data that the rules of `report --why` look at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/model/timeline.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

// Threads, and the times of each that are looked at.
using TimesByThread = std::map<ThreadIndex, TimeIntervals>;

struct Case {
  const Timeline& timeline;
  const Aggregates& aggregates;
  const StepParts& parts;
  std::vector<WaitSum> waits;  // waits of the driving thread, longest first; empty without sched

  size_t steps() const { return parts.intervals.size(); }
  // Returns the mean part of one step in a time of all steps.
  int64_t AStep(int64_t ns) const { return ns / static_cast<int64_t>(steps()); }
};

// Returns the entry of a map with the largest value, the first of equal ones. Returns map.end()
// where the map is empty.
template <typename Map>
auto LargestValue(const Map& map) {
  return std::max_element(map.begin(), map.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
}

// Returns "the main thread", or "thread NAME (TID 12)" where another thread drives the steps.
std::string DriverText(const Case& job);
// Returns a duration as text: "12.8 ms", "840 us", "4.5 us", "90 ns", "2.31 s".
std::string DurationText(int64_t ns);
// Returns a part as text: "31 %", and below ten "4.2 %".
std::string PercentText(int64_t ns, int64_t of_ns);
// Returns a size as text, in powers of 1000 as for rates: "1.2 MB".
std::string BytesText(int64_t bytes);
// Returns a count with its noun: "3 reads", "1 read".
std::string CountText(uint64_t count, const std::string& one, const std::string& many);
// Returns "thread NAME (TID 12)", or "the main thread"; of another process than `own` "thread NAME
// (TID 12 of PID 7)" or "the main thread of process NAME (PID 7)"; "the thread with TID 12" where
// no name is known. The name is escaped for display.
std::string ThreadPlaceText(const Timeline& timeline, ThreadIndex thread, Pid own);
// Returns a file's name, escaped for display; empty: not known.
std::string FileText(const Timeline& timeline, SystemFileId id);
// Returns what a file has in common with others, as text after their number: "files in /data/train"
// for "/data/train/7.jpg", "sockets to 10.0.0.1:80", "sockets of 0.0.0.0:80" on a server's side,
// "pipes". Empty: not known.
std::string FileGroupText(const Timeline& timeline, SystemFileId id);
// Returns the innermost function of Python and the innermost row of a place, as far as they are
// known; empty: neither is known.
std::string WaitPlaceText(const Timeline& timeline, const WaitPlace& place);

}  // namespace proftrace
