// What one probe hit costs inside the recorded job, where caches are colder than in a loop: two
// probes follow each other in an operator's entry (ModulePlan::cost_points), with next to no work
// of the job between them, so the time from one record to the next is one hit.
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
  // Fewer pairs than this say nothing.
  static constexpr size_t kFewestPairs = 200;
  static constexpr size_t kEnoughPairs = 4000;

  // Every record of the job, in the order of the ring.
  void Observe(const abi::pt_record& record);

  size_t pairs() const { return gaps_ns_.size(); }
  // Nanoseconds a hit, the median; nothing for too few pairs.
  std::optional<double> median_ns();

 private:
  struct Begin {
    uint64_t time_ns = 0;
    uint16_t site = 0;
    bool is_open = false;  // no other record of the thread came since
  };
  absl::flat_hash_map<uint32_t, Begin> last_;  // by tid
  std::vector<uint64_t> gaps_ns_;
};

}  // namespace proftrace
