// Measures CPU time, operators and hits of some processes in stretches of time, for a
// PriceComparison. Records arrive later than they are made, so a stretch is complete only some time
// after its end. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/capture/cost/live_meter.h"
#include "userspace/capture/cost/price_comparison.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/model/ids.h"

namespace proftrace {

class StretchMeter {
 public:
  void Add(Pid pid) { pids_.insert(Raw(pid)); }
  bool empty() const { return pids_.empty(); }
  // Measures one process from here on, and counts the calls of each of its operators.
  void Follow(Pid pid);
  // Returns the process that was followed last; nullopt: none was.
  std::optional<Pid> followed() const { return followed_; }

  // Begins a stretch, and forgets the records from before.
  void Begin();
  // Ends the stretch, and begins the next one at the same moment.
  void Cut();
  // Take every record of probes and of jumps. Records of other processes, and from before the
  // stretch, are left out.
  void Observe(const abi::pt_record& head) { Count(head, /*is_jump=*/false); }
  void ObserveJump(const abi::pt_record& head) { Count(head, /*is_jump=*/true); }
  // Returns the stretch that ended at the last Cut(), once all records of it were observed;
  // nullopt: there was none, or it was taken. `system` is the cost of records of
  // system activity, which is taken off the CPU time. Operators are counted by the probe in the
  // function that each of them calls; without that probe, by their share of the hits in the last
  // stretch that had it.
  std::optional<ComparedStretch> Take(const SystemCost& system);
  // Returns the nanoseconds of CPU time that were used since the stretch began.
  int64_t UsedNs() const { return CpuTimeNs() - open_.begin_cpu_ns; }

 private:
  struct Counts {
    uint64_t begin_ns = 0;
    int64_t begin_cpu_ns = 0;
    uint64_t operators = 0;  // counted by the probe at the function that each operator calls
    uint64_t cost_hits = 0;  // hits of all probes that are there only for measuring
    LiveMeter meter;
    LiveMeter jumps;
    std::vector<uint32_t> calls_by_site;
  };

  int64_t CpuTimeNs() const;
  void Count(const abi::pt_record& head, bool is_jump);

  std::set<uint32_t> pids_;
  std::optional<Pid> followed_;
  std::optional<Counts> ended_;
  Counts open_;
  bool is_open_ = false;
  double operators_a_hit_ = 0;  // 0: not known
};

}  // namespace proftrace
