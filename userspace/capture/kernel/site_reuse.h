// Tells how cold, in the sense of CPU caches, the places are at which a job is recorded. A
// trampoline, or the kernel's data of a probe, is still in the CPU's nearest caches where it is
// used again within microseconds of the job's own time; where it is used once a step, it is not.
// Only some of the records are looked at. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bpf/abi/records.h"

namespace proftrace {

class SiteReuse {
 public:
  static constexpr size_t kBurst = 20'000;              // records that are looked at in one burst
  static constexpr int64_t kBetweenNs = 1'000'000'000;  // from the begin of one burst to the next
  // A place that is used again within kWarmNs is as warm as in a loop; after kColdNs it is as cold
  // as it gets. Both were found with jobs whose CPU time was measured (tests/bench/RESULTS.md).
  static constexpr double kWarmNs = 4'000;
  static constexpr double kColdNs = 60'000;
  static constexpr uint64_t kFewest = 200;

  // Sets the nanoseconds that a hit takes, which do not count as the job's own time.
  void SetCost(double ns_per_hit) { ns_per_hit_ = ns_per_hit; }
  // Takes every record, thread by thread in their order.
  void Observe(const abi::pt_record& head);
  // Returns how cold the places are on average, from 0 to 1; nullopt where too few uses were seen.
  std::optional<double> coldness() const;

 private:
  // The time of a use in this burst, and the hits of its thread until then.
  struct Use {
    uint64_t time_ns = 0;
    uint64_t hits = 0;
  };
  absl::flat_hash_map<uint64_t, Use> last_;       // by thread, site and kind
  absl::flat_hash_map<uint32_t, uint64_t> hits_;  // by tid
  uint64_t begin_ns_ = 0;
  double ns_per_hit_ = 0;
  size_t in_burst_ = kBurst;
  double sum_ = 0;
  uint64_t seen_ = 0;
};

}  // namespace proftrace
