// Counts what is allocated in each process, from its allocations and frees in order of time. A free
// tells no size: it is that of the block, so live blocks are kept, by address.
//
// torch's rule (c10/core/CPUAllocator.cpp): an allocation of 0 bytes is no event, and a free of a
// block whose allocation was not recorded is none. The running total of CPU memory begins at 0 with
// the window. It is a process's, of all its threads, and is unknown from the first loss on; a
// device's totals, and those of shared CPU memory (at::MapAllocator, which DataLoader workers use),
// are what torch reports for each. A forked child's total begins at 0 with its own probes: what it
// got from its parent, and frees of that, are not in it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "userspace/decode/event.h"
#include "userspace/model/memory_event.h"

namespace proftrace {

class MemoryTracker {
 public:
  // Live blocks of all processes that are kept at most: 18 bytes each.
  static constexpr size_t kMostBlocks = size_t{8} << 20;
  // A larger allocation is made up: no process has such an address space.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 57;

  explicit MemoryTracker(size_t most_blocks = kMostBlocks) : most_blocks_(most_blocks) {}

  // Takes an event from kAllocation to kOutOfMemory, in order of time and inside the window.
  // nullopt where torch has no event. The caller fills in `parent` and `thread`.
  std::optional<MemoryEvent> Observe(const Event& event);

  // Records of the process were lost: its total is unknown from here on, and so are the sizes of
  // its live blocks, as each may have been freed and allocated anew. Whether the total was known.
  bool OnLoss(Pid pid);
  // Records of any process were lost.
  void OnGap();
  // Forgets the memory of a process that has ended.
  void OnProcessEnd(Pid pid);

  const MemorySummary& summary() const { return summary_; }

 private:
  struct Process {
    absl::flat_hash_map<uint64_t, uint64_t> live;  // bytes, by address
    int64_t allocated = 0;
    bool is_known = true;  // whether `allocated` is a fact
  };
  struct ThreadState {
    uint64_t last_block = 0;  // allocated or freed last
    bool last_is_free = false;
    uint64_t allocated = 0;  // the device's totals for the event that comes next
    uint64_t reserved = 0;
  };

  bool OnAllocation(const Event& event, MemoryEvent* out);
  bool OnFree(const Event& event, MemoryEvent* out);
  void Doubt(Process* process);
  void ForgetBlocks(Process* process);
  Process& ProcessOf(const Event& event);
  // Whether a report of CPU memory repeats the thread's last allocation or free: so does torch
  // while its own profiler runs.
  bool IsRepeated(const Event& event) const;

  size_t most_blocks_;
  size_t blocks_ = 0;
  bool any_gap_ = false;
  MemorySummary summary_;
  absl::flat_hash_map<uint32_t, Process> processes_;    // by pid
  absl::flat_hash_map<uint64_t, ThreadState> threads_;  // by pid << 32 | tid
};

}  // namespace proftrace
