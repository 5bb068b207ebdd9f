// Writes the states of threads, by their times off the CPU. Perfetto shows these as `thread_state`
// and `sched`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exporters/traces/perfetto_packets.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class PerfettoStates {
 public:
  // Both must outlive this.
  PerfettoStates(const Timeline& timeline, PerfettoPackets* packets);

  // Writes a time off the CPU. The events of a thread must come in order of time.
  void Write(const SystemEvent& event);
  // Notes that a thread did something up to `time_ns`.
  void See(ThreadIndex thread, int64_t time_ns) {
    seen_ns_[Raw(thread)] = std::max(seen_ns_[Raw(thread)], time_ns);
  }
  // Writes for each thread that has ended that it no longer runs.
  void WriteLast();

 private:
  struct State {
    bool has_begun = false;
    bool runs = false;
    uint16_t cpu = 0;
  };

  void Set(ThreadIndex thread, int64_t time_ns, PerfettoTaskState state, uint16_t cpu);

  const Timeline& timeline_;
  PerfettoPackets& packets_;
  bool has_all_;                  // no record of the scheduler was lost
  std::vector<State> states_;     // by ThreadIndex
  std::vector<int64_t> seen_ns_;  // by ThreadIndex
};

}  // namespace proftrace
