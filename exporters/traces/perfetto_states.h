// Threads' states for Perfetto, from their times off the CPU: what it shows as `thread_state` and
// `sched`.
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

  // Writes the next time off the CPU of its thread.
  void Write(const SystemEvent& event);
  // Notes that a thread did something up to that time.
  void See(ThreadIndex thread, int64_t time_ns) {
    seen_ns_[Raw(thread)] = std::max(seen_ns_[Raw(thread)], time_ns);
  }
  // Writes for each thread that ended that it runs no more.
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
