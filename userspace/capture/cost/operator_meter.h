// Measures operators from the stream of records: how often they are called and how long they take
// in each thread, and lasting traits of each site. Nesting is followed as in merge/span_builder.h,
// as far as is needed here. Memory is bounded by the number of threads, the depth of their calls
// and the number of sites. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/node_hash_map.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/ids.h"

namespace proftrace {

class OperatorMeter {
 public:
  struct Use {
    uint64_t calls = 0;  // calls that have ended
    int64_t duration_ns = 0;
  };
  struct ThreadUse {
    Pid pid{};
    uint32_t tid = 0;
    std::vector<std::pair<uint16_t, Use>> sites;
  };
  // The facts about a site that all its calls have shown since its process is recorded.
  struct Traits {
    bool has_children = false;  // another row began inside of a call
    bool is_outermost = false;  // nothing enclosed a call
    uint32_t open = 0;          // calls that have not ended, as far as that is known
  };

  // Takes any record, thread by thread in their order.
  void Observe(const abi::pt_record& head);
  // Returns the calls of each thread since the last Take().
  std::vector<ThreadUse> Take();
  Traits TraitsOf(Pid pid, uint16_t site) const;
  // Forgets a process that has ended, or runs another program.
  void Forget(Pid pid);

 private:
  struct Frame {
    uint32_t sp = 0;
    uint16_t site = 0;
    int64_t begin_ns = 0;
  };
  struct ThreadState {
    Pid pid{};
    uint32_t tid = 0;
    std::vector<Frame> stack;
    absl::flat_hash_map<uint16_t, Use> sites;
  };

  ThreadState& StateOf(const abi::pt_record& head);
  Traits& MutableTraits(Pid pid, uint16_t site);
  void Open(const abi::pt_record& head, ThreadState& thread);
  void OnEnd(const abi::pt_record& head, ThreadState& thread);
  void MarkParent(const ThreadState& thread);
  void DropTop(ThreadState& thread);
  // Drops calls whose entry was below `sp` on the stack, or with `or_at` at `sp`.
  void DropBelow(ThreadState& thread, uint32_t sp, bool or_at);

  absl::node_hash_map<uint64_t, ThreadState> threads_;  // by pid and tid
  absl::flat_hash_map<uint64_t, Traits> traits_;        // by pid and site
  uint64_t last_key_ = 0;
  ThreadState* last_ = nullptr;  // stable: the map's nodes do not move
};

}  // namespace proftrace
