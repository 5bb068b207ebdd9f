// Counts records cheaply, for the live line and the cost estimate. It keeps nothing for a single
// event.
#pragma once

#include <absl/container/node_hash_map.h>

#include <cstdint>

#include "bpf/abi/records.h"

namespace proftrace {

class LiveMeter {
 public:
  struct Hits {
    uint64_t hits = 0;      // hits of probes
    uint64_t readings = 0;  // records that have read inputs
    uint64_t stacks = 0;    // recorded stacks of Python
    uint64_t system = 0;    // system calls, times off the CPU and faults
    uint64_t faults = 0;    // of these

    uint64_t all() const { return hits + system; }
  };

  void Count(const abi::pt_record& head) {
    const bool is_row = head.kind <= abi::PT_NODE_BEGIN || head.kind == abi::PT_LITERAL_BEGIN ||
                        (head.kind >= abi::PT_GUARD_BEGIN && head.kind <= abi::PT_FRAME_END) ||
                        head.kind == abi::PT_OPERATOR_CALL || head.kind == abi::PT_SIZED_BEGIN ||
                        head.kind == abi::PT_NAMED_BEGIN || head.kind == abi::PT_SPILLED_INPUTS;
    const bool is_reading = head.kind == abi::PT_OPERATOR_CALL || head.kind == abi::PT_INPUTS;
    const bool is_memory = head.kind >= abi::PT_ALLOCATION && head.kind <= abi::PT_STACKED_FREE;
    const bool is_system = head.kind >= abi::PT_SYSTEM_CALL && head.kind <= abi::PT_REQUEST;
    const bool is_stack = head.kind == abi::PT_PYTHON_STACK;
    if (!is_row && !is_memory && !is_reading && !is_system && !is_stack) return;
    if (head.tid != last_tid_ || last_thread_ == nullptr) {
      last_tid_ = head.tid;
      last_thread_ = &threads_[head.tid];
    }
    for (Hits* hits : {&all_, last_thread_}) {
      hits->hits += is_row || is_memory ? 1 : 0;
      hits->readings += is_reading ? 1 : 0;
      hits->stacks += is_stack ? 1 : 0;
      hits->system += is_system ? 1 : 0;
      hits->faults += head.kind == abi::PT_FAULT ? 1 : 0;
    }
  }

  // Forgets a thread that has ended: another thread may have its number from here on.
  void OnThreadExit(uint32_t tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) return;
    if (it->second.all() > busiest_ended_.all()) busiest_ended_ = it->second;
    threads_.erase(it);
    last_thread_ = nullptr;
  }

  const Hits& all() const { return all_; }
  Hits HitsOf(uint32_t tid) const;
  // Returns the hits of the thread that has the most of them.
  Hits busiest_thread() const;

 private:
  absl::node_hash_map<uint32_t, Hits> threads_;
  Hits all_;
  Hits busiest_ended_;
  uint32_t last_tid_ = 0;
  Hits* last_thread_ = nullptr;  // stable: the map's nodes do not move
};

}  // namespace proftrace
