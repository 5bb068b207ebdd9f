// Measures what one probe hit costs inside the recorded job, where caches are colder than in a
// loop: probes follow each other in an operator's entry (ModulePlan::cost_points), with next to no
// work of the job between them, so the time from one record to the next is one hit.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {

class JobHitCost {
 public:
  // Fewer pairs than this give no median.
  static constexpr size_t kFewestPairs = 200;
  static constexpr size_t kEnoughPairs = 4000;

  // Takes every record of the job, in the order of the ring.
  void Observe(const abi::pt_record& record);

  size_t pairs() const { return begins_ns_.size() + calls_ns_.size(); }
  // Returns the median nanoseconds of a hit; nullopt for too few pairs. Where begins read inputs,
  // the hit is measured by the two probes behind them, which read none.
  std::optional<double> median_ns();
  // Returns the median nanoseconds of a begin that reads inputs; nullopt for too few pairs.
  std::optional<double> median_call_ns();

 private:
  struct Last {
    uint64_t time_ns = 0;
    uint16_t site = 0;
    uint8_t kind = 0;  // PT_SPAN_BEGIN, PT_OPERATOR_CALL, PT_COST; 0: none of them came last
  };
  absl::flat_hash_map<uint32_t, Last> last_;  // by tid
  // The times, in nanoseconds, from a begin to a PT_COST, from a begin that reads inputs to a
  // PT_COST, and from a PT_COST to a PT_COST_AGAIN.
  std::vector<uint64_t> begins_ns_;
  std::vector<uint64_t> calls_ns_;
  std::vector<uint64_t> costs_ns_;
};

}  // namespace proftrace
