// Closes links on a thread of its own, when nothing else is to be done: the kernel takes a tenth of
// a second and more for the links of one process, and meanwhile holds up threads that open other
// links.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "userspace/capture/kernel/attach.h"

namespace proftrace {

class LinkCloser {
 public:
  LinkCloser();
  // Waits until all links are closed.
  ~LinkCloser();
  LinkCloser(const LinkCloser&) = delete;
  LinkCloser& operator=(const LinkCloser&) = delete;

  void Close(LinkSet links);
  // Puts off closing for a while, because links are being opened now.
  void Postpone();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LinkSet> queue_;
  int64_t not_before_ns_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace proftrace
