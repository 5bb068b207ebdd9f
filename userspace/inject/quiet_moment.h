// A moment at which all threads of a process stand still, and none of them where code is to be
// changed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Lets the calling thread run before all ordinary threads, if that is permitted, because the
// threads of the job stay stopped until the calling thread has run. The calling thread sleeps
// between its looks at them.
class Hurry {
 public:
  Hurry();
  ~Hurry();
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

  // Whether the thread runs before all ordinary ones, by a real-time policy.
  bool is_first() const { return has_policy_; }

 private:
  int nice_;
  int policy_;
  int priority_ = 0;
  bool has_policy_ = false;
};

struct StopTimes {
  int64_t longest_stop_ns = 0;  // from the first thread's interrupt until all go on
  int64_t longest_wait_ns = 0;  // the part of that until the last thread stood still
  uint32_t stops = 0;           // how often all threads were stopped
};

class QuietMoment {
 public:
  // Lets all threads go on except one that `check` lets pass and that stands on a stack of its own
  // (stack_room.h). If there is no such thread, waits a while for one. Fails as
  // StoppedThreads::StopOne() does.
  absl::StatusOr<StoppedThread> ReleaseAllButOne(const ThreadCheck& check);

 private:
  friend absl::Status AtQuietMoment(Pid pid, const WritableMemory& memory,
                                    const std::function<bool(uint64_t)>& is_in_the_way,
                                    const std::function<absl::Status(QuietMoment*)>& work,
                                    StopTimes* times, StoppedThreads* held);
  QuietMoment(StoppedThreads* threads, StopTimes* times, StoppedThreads* held)
      : threads_(*threads), times_(times), held_(held) {}
  // Stops all threads, and does the work if no thread is in the way. Returns false if it may be
  // tried again.
  bool Try(int64_t limit_ns, Pid pid, const WritableMemory& memory,
           const std::function<bool(uint64_t)>& is_in_the_way,
           const std::function<absl::Status(QuietMoment*)>& work, absl::Status* status);
  void NoteStop();

  std::vector<Mapping> mappings_;
  StoppedThreads& threads_;
  StopTimes* times_;
  StoppedThreads* held_;
  int64_t begin_ns_ = 0;  // 0: the stop was noted already
  int64_t still_ns_ = 0;  // when all threads stood still, or the wait for them ended
};

// Stops all threads of the process and calls `work` when none of them continues at an address for
// which `is_in_the_way` is true (null: a thread may continue anywhere); then lets them go on.
// `work` runs on a new thread of ours (StoppedThreads::Use). Returns its result, or kUnavailable if
// there was no such moment. Adds to `times`. `held` (may be null) has threads of the process that
// stand still already; they are checked as well, and are not let go.
absl::Status AtQuietMoment(Pid pid, const WritableMemory& memory,
                           const std::function<bool(uint64_t)>& is_in_the_way,
                           const std::function<absl::Status(QuietMoment*)>& work, StopTimes* times,
                           StoppedThreads* held = nullptr);

}  // namespace proftrace
