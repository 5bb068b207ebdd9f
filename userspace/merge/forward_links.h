// Finds the forward operator of each backward row, as torch does: by the thread of the forward and
// the sequence number (torch/csrc/profiler/collection.cpp, generateForwardBackwardLink). Of several
// forward rows with one number the last that began is the one that made the node; the first
// backward row to end gets the arrow. Not thread-safe.
//
// Forward rows wait for their backward, which may never run: past kMostWaiting the oldest half is
// forgotten.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class ForwardLinks {
 public:
  static constexpr size_t kMostWaiting = size_t{1} << 20;

  explicit ForwardLinks(TimelineBuilder* timeline) : timeline_(timeline) {}

  // torch's number of a thread. A process numbers its threads from 1 on.
  void SetThreadNumber(Pid pid, Tid tid, uint64_t number);
  // A span with an item in the column `sequence` is over: spans in the order of their ends.
  absl::Status OnClose(Pid pid, Tid tid, SpanId span);
  // The process has another program now, or none.
  absl::Status OnProcessEnd(Pid pid);
  // Fills in the threads whose numbers came later than the rows that name them.
  absl::Status Finish();

 private:
  using Key = std::tuple<uint32_t, uint32_t, int64_t>;  // pid, tid, sequence number + 1
  struct Unresolved {
    SpanId span;
    uint32_t pid;
    uint32_t number;
  };

  absl::Status Resolve(const Unresolved& row);
  uint32_t TidOf(uint32_t pid, uint32_t number) const;
  void AddForward(const Key& key, SpanId span);
  // The forward row for the key, which no other backward row gets after that.
  SpanId TakeForward(const Key& key);

  TimelineBuilder* timeline_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> tids_;  // by pid, torch's number
  absl::flat_hash_map<Key, SpanId> forwards_;
  absl::flat_hash_map<Key, SpanId> old_forwards_;
  std::vector<Unresolved> unresolved_;
};

}  // namespace proftrace
