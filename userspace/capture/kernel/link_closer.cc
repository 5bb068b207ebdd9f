#include "userspace/capture/kernel/link_closer.h"

#include <chrono>
#include <utility>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// How long closing is put off. A job that forks one child after another, as for DataLoader workers,
// makes no pause of this length in between.
constexpr int64_t kQuietNs = 2'000'000'000;
// How many sets of links may wait to be closed. Links that wait slow down each new process that
// maps their files a little.
constexpr size_t kMostWaiting = 32;

}  // namespace

LinkCloser::LinkCloser() {
  thread_ = std::thread([this] { Run(); });
}

void LinkCloser::Close(LinkSet links) {
  if (links.empty()) return;
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(links));
  changed_.notify_all();
}

void LinkCloser::Postpone() {
  const std::lock_guard lock(mutex_);
  not_before_ns_ = MonotonicNs() + kQuietNs;
}

LinkCloser::~LinkCloser() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void LinkCloser::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const int64_t wait_ns = not_before_ns_ - MonotonicNs();
    if (!stop_ && wait_ns > 0 && queue_.size() <= kMostWaiting) {
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    LinkSet links = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    links.clear();
    lock.lock();
  }
}

}  // namespace proftrace
