// Counts what is allocated in each process, from its allocations and frees in order of time. A free
// does not tell its size, so the sizes of live blocks are kept by address.
//
// torch's rule (c10/core/CPUAllocator.cpp): an allocation of 0 bytes makes no event, nor does a
// free of a block whose allocation was not recorded. The running total of CPU memory begins at 0
// with the window. There is one total for all threads of a process, and it is unknown from the
// first loss on. The totals of a device and of shared CPU memory (at::MapAllocator, which
// DataLoader workers use) are those that torch reports with each event. A forked child's total
// begins at 0 with its own probes: blocks that it inherited from its parent, and their frees, are
// not in it.
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
  // The most live blocks that are kept, of all processes together: 18 bytes each.
  static constexpr size_t kMostBlocks = size_t{8} << 20;
  // No process has so large an address space: a record of a larger allocation is wrong, and counts
  // as untracked.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 57;

  explicit MemoryTracker(size_t most_blocks = kMostBlocks) : most_blocks_(most_blocks) {}

  // Takes an event from kAllocation to kOutOfMemory, in order of time and inside the window.
  // nullopt where torch has no event. The caller fills in `parent` and `thread`.
  std::optional<MemoryEvent> Observe(const Event& event);

  // Notes that records of the process were lost: its total is unknown from here on, and so are the
  // sizes of its live blocks, because each may have been freed and allocated anew. Returns whether
  // the total was known before.
  bool OnLoss(Pid pid);
  // Notes that records were lost, of processes that are not known.
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
  // Returns whether a report of CPU memory repeats the thread's last allocation or free, as torch
  // does while its own profiler runs.
  bool IsRepeated(const Event& event) const;

  size_t most_blocks_;
  size_t blocks_ = 0;
  bool any_gap_ = false;
  MemorySummary summary_;
  absl::flat_hash_map<uint32_t, Process> processes_;    // by pid
  absl::flat_hash_map<uint64_t, ThreadState> threads_;  // by pid << 32 | tid
};

}  // namespace proftrace
