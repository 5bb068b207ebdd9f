// Lookups that several aggregates of system activity need: events by thread in order of their
// start, threads by number, and rows that wait for data.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class ThreadEvents {
 public:
  explicit ThreadEvents(const Timeline& timeline);

  // Returns indices for Timeline::system_event(). Requests of io_uring are left out, because they
  // run in no thread.
  const std::vector<uint32_t>& of(ThreadIndex thread) const { return by_thread_[Raw(thread)]; }

 private:
  std::vector<std::vector<uint32_t>> by_thread_;
};

class ThreadsByNumber {
 public:
  explicit ThreadsByNumber(const Timeline& timeline);

  // Finds a thread; nullopt: it was not recorded. Where a number was used again, this is the first
  // thread.
  std::optional<ThreadIndex> Find(Pid pid, Tid tid) const;

 private:
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, ThreadIndex> threads_;
};

// Returns the innermost system call that the event lies in; nullptr: none.
const SystemEvent* CallAround(const Timeline& timeline, const SystemEvent& event);

// Finds rows that wait for a batch of torch's DataLoader:
// "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__". `timeline` must outlive this.
class DataLoaderRows {
 public:
  explicit DataLoaderRows(const Timeline& timeline);

  bool empty() const { return is_empty_; }
  bool Has(const Span& span) const { return is_of_loader_[Raw(span.label)]; }
  // Returns whether the span is such a row or lies in one; false for kNoSpan.
  bool IsIn(SpanId span) const;

 private:
  const Timeline& timeline_;
  std::vector<bool> is_of_loader_;  // by label
  bool is_empty_ = true;
};

}  // namespace proftrace
