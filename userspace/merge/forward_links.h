// Finds the forward operator of each backward row, as torch does: by the thread of the forward and
// the sequence number (torch/csrc/profiler/collection.cpp, generateForwardBackwardLink). Where
// several forward rows have the same number, the row that began last made the node. The backward
// row that ends first gets torch's arrow. Not thread-safe.
//
// Forward rows are kept until their backward rows come, which may never happen: beyond kMostWaiting
// rows, the oldest half is forgotten.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class ForwardLinks {
 public:
  static constexpr size_t kMostWaiting = size_t{1} << 20;

  explicit ForwardLinks(TimelineBuilder* timeline) : timeline_(timeline) {}

  // Sets torch's number of a thread. A process numbers its threads from 1 on.
  void SetThreadNumber(Pid pid, Tid tid, uint64_t number);
  // Takes a span that has ended and has an item in the column `sequence`. Spans must come in the
  // order of their ends.
  absl::Status OnClose(Pid pid, Tid tid, SpanId span);
  // Forgets a process that has ended or runs another program now.
  absl::Status OnProcessEnd(Pid pid);
  // Fills in the threads whose numbers came later than the rows that name them.
  absl::Status Finish();

 private:
  using Key = std::pair<uint32_t, int64_t>;  // tid, sequence number + 1
  struct Unresolved {
    SpanId span;
    uint32_t number;
  };
  struct Process {
    absl::flat_hash_map<uint32_t, uint32_t> tids;  // by torch's number
    absl::flat_hash_map<Key, SpanId> forwards;
    absl::flat_hash_map<Key, SpanId> old_forwards;
    std::vector<Unresolved> unresolved;

    uint32_t TidOf(uint32_t number) const;
  };

  absl::Status Resolve(const Process& process);
  void AddForward(const Key& key, SpanId span, Process* process);
  // Returns the forward row for the key and removes it, so that no other backward row gets it.
  SpanId TakeForward(const Key& key, Process* process);

  TimelineBuilder* timeline_;
  absl::flat_hash_map<uint32_t, Process> processes_;  // by pid
  size_t forward_count_ = 0;                          // in all `forwards`
  size_t unresolved_count_ = 0;
};

}  // namespace proftrace
