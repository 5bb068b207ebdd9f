// Lets one OS thread of this program at a time work on a process by ptrace. Injections, patches and
// holds come from several threads, and a thread that one of them traces cannot be traced by
// another.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <mutex>

#include "userspace/model/ids.h"

namespace proftrace {

class TraceTurn {
 public:
  // Waits up to half a minute for the turn, then fails with kUnavailable. The thread that has the
  // turn may take it again. While a thread has the turn, it must not wait for anything that the
  // process does, and it must destroy the object itself.
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
