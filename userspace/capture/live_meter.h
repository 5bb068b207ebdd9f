// Cheap counts of what passes by, for the live line and the cost: nothing is kept per event.
#pragma once

#include <absl/container/node_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bpf/abi/records.h"

namespace proftrace {

class LiveMeter {
 public:
  void Count(const abi::pt_record& head) {
    if (head.kind > abi::PT_NODE_BEGIN && head.kind != abi::PT_LITERAL_BEGIN) return;
    ++probe_hits_;
    if (head.tid != last_tid_ || last_hits_ == nullptr) {
      last_tid_ = head.tid;
      last_hits_ = &hits_by_thread_[head.tid];
    }
    ++*last_hits_;
  }

  // Looks for the optimizer's annotations: they mark the job's steps.
  void ObserveAnnotation(std::span<const std::byte> record);

  uint64_t probe_hits() const { return probe_hits_; }
  uint64_t busiest_thread_hits() const;
  // Time between the last two steps, in milliseconds.
  std::optional<double> step_ms() const { return step_ms_; }

 private:
  absl::node_hash_map<uint32_t, uint64_t> hits_by_thread_;
  uint64_t probe_hits_ = 0;
  uint32_t last_tid_ = 0;
  uint64_t* last_hits_ = nullptr;  // stable: the map's nodes do not move
  uint32_t step_tid_ = 0;
  int64_t last_step_ns_ = 0;
  std::optional<double> step_ms_;
};

}  // namespace proftrace
