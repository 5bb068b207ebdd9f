// Cheap counts of what passes by, for the live line and the cost: nothing is kept per event.
#pragma once

#include <absl/container/node_hash_map.h>

#include <cstdint>

#include "bpf/abi/records.h"

namespace proftrace {

class LiveMeter {
 public:
  void Count(const abi::pt_record& head) {
    const bool is_row = head.kind <= abi::PT_NODE_BEGIN || head.kind == abi::PT_LITERAL_BEGIN ||
                        (head.kind >= abi::PT_GUARD_BEGIN && head.kind <= abi::PT_FRAME_END) ||
                        head.kind == abi::PT_SPILLED_INPUTS;
    const bool is_memory = head.kind >= abi::PT_ALLOCATION && head.kind <= abi::PT_OUT_OF_MEMORY;
    if (!is_row && !is_memory) return;
    ++probe_hits_;
    if (head.tid != last_tid_ || last_hits_ == nullptr) {
      last_tid_ = head.tid;
      last_hits_ = &hits_by_thread_[head.tid];
    }
    ++*last_hits_;
  }

  uint64_t probe_hits() const { return probe_hits_; }
  uint64_t busiest_thread_hits() const;

 private:
  absl::node_hash_map<uint32_t, uint64_t> hits_by_thread_;
  uint64_t probe_hits_ = 0;
  uint32_t last_tid_ = 0;
  uint64_t* last_hits_ = nullptr;  // stable: the map's nodes do not move
};

}  // namespace proftrace
