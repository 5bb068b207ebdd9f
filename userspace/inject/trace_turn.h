// One OS thread of this program at a time works on a process by ptrace: injections, patches and
// holds come from several, and what one of them traces another one cannot.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <mutex>

#include "userspace/model/ids.h"

namespace proftrace {

class TraceTurn {
 public:
  // Waits for half a minute, then fails with kUnavailable. A thread that has it may take it again.
  // Whoever has it waits for nothing that the process does. Given back on the same thread.
  static absl::StatusOr<TraceTurn> Take(Pid pid);

 private:
  using Mutex = std::recursive_timed_mutex;
  explicit TraceTurn(std::shared_ptr<Mutex> mutex)
      : mutex_(std::move(mutex)), lock_(*mutex_, std::adopt_lock) {}
  static std::shared_ptr<Mutex> MutexOf(Pid pid);

  std::shared_ptr<Mutex> mutex_;
  std::unique_lock<Mutex> lock_;
};

}  // namespace proftrace
