// Measures what reading Python's stack costs in the job itself. A jump's record of a stack has the
// time at which reading began; the record of the jump's row, which comes next, has the time at
// which reading had ended.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"

namespace proftrace {

class JobStackCost {
 public:
  // Fewer measured stacks than this give no median.
  static constexpr size_t kFewest = 50;
  // How many times are kept: only the last ones, as stacks may become deeper.
  static constexpr size_t kMost = 1024;

  // Takes every record of a jump, in each thread's order.
  void Observe(const abi::pt_record& head) {
    if (head.kind == abi::PT_PYTHON_STACK) {
      begun_ns_[head.tid] = head.time_ns;
      return;
    }
    const auto begun = begun_ns_.find(head.tid);
    if (begun == begun_ns_.end()) return;
    if (head.time_ns >= begun->second) Keep(head.time_ns - begun->second);
    begun_ns_.erase(begun);
  }

  // Returns the median nanoseconds that reading one stack took; nullopt for too few stacks.
  std::optional<double> median_ns() const;

 private:
  void Keep(uint64_t ns) {
    if (last_ns_.size() < kMost) {
      last_ns_.push_back(ns);
    } else {
      last_ns_[next_++ % kMost] = ns;
    }
  }

  absl::flat_hash_map<uint32_t, uint64_t> begun_ns_;  // by tid
  std::vector<uint64_t> last_ns_;
  size_t next_ = 0;
};

}  // namespace proftrace
