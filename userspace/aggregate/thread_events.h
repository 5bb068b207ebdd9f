// System events by thread, in order of their start.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class ThreadEvents {
 public:
  explicit ThreadEvents(const Timeline& timeline);

  // Indices of Timeline::system_event(); requests of io_uring, which are in no thread, are left
  // out.
  const std::vector<uint32_t>& of(ThreadIndex thread) const { return by_thread_[Raw(thread)]; }

 private:
  std::vector<std::vector<uint32_t>> by_thread_;
};

// Whether the span or one that it lies in waits for a batch of torch's DataLoader.
bool IsInDataLoader(const Timeline& timeline, SpanId span);
// Whether it is such a span itself:
// "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__".
bool IsDataLoaderSpan(const Timeline& timeline, SpanId span);

// Whether the event is a system call that moves bytes of files or of the network, or looks for
// them.
bool IsIoCall(const SystemEvent& event);

}  // namespace proftrace
