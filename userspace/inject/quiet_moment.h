// A moment in which all threads of a process stand still, none of them where code is to be changed.
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

// Lets the calling thread run before all ordinary ones, where that is permitted: a stop lasts until
// it has run. It sleeps between its looks.
class Hurry {
 public:
  Hurry();
  ~Hurry();
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

  // Whether it was permitted.
  bool is_first() const { return has_policy_; }

 private:
  int nice_;
  int policy_;
  int priority_ = 0;
  bool has_policy_ = false;
};

struct StopTimes {
  int64_t longest_stop_ns = 0;  // from the first thread's interrupt until all go on
  int64_t longest_wait_ns = 0;  // of that: until the last thread stood still
  uint32_t stops = 0;           // of all threads
};

class QuietMoment {
 public:
  // Lets all threads go on but one that `check` lets pass and that stands on a stack of its own,
  // where there is such a thread, or comes to be one soon (stack_room.h). Fails as
  // StoppedThreads::StopOne().
  absl::StatusOr<StoppedThread> ReleaseAllButOne(const ThreadCheck& check);

 private:
  friend absl::Status AtQuietMoment(Pid pid, const WritableMemory& memory,
                                    const std::function<bool(uint64_t)>& is_in_the_way,
                                    const std::function<absl::Status(QuietMoment*)>& work,
                                    StopTimes* times, StoppedThreads* held);
  QuietMoment(StoppedThreads* threads, StopTimes* times, StoppedThreads* held)
      : threads_(*threads), times_(times), held_(held) {}
  // Stops all, and does the work if nobody is in the way. False: it may be tried again.
  bool Try(int64_t limit_ns, Pid pid, const WritableMemory& memory,
           const std::function<bool(uint64_t)>& is_in_the_way,
           const std::function<absl::Status(QuietMoment*)>& work, absl::Status* status);
  void NoteStop();

  std::vector<Mapping> mappings_;
  StoppedThreads& threads_;
  StopTimes* times_;
  StoppedThreads* held_;
  int64_t begin_ns_ = 0;  // 0 = noted
  int64_t still_ns_ = 0;  // when all stood still, or were not waited for any longer
};

// Stops all threads, at moments when none goes on at an address that `is_in_the_way` (null:
// anywhere will do), calls `work` then, on a thread of ours for it alone (StoppedThreads::Use), and
// lets them go on. What `work` returns, or kUnavailable where there was no such moment. Adds to
// `times`. `held` (may be null): threads of it that stand still already; they are looked at as
// well, and not let go.
absl::Status AtQuietMoment(Pid pid, const WritableMemory& memory,
                           const std::function<bool(uint64_t)>& is_in_the_way,
                           const std::function<absl::Status(QuietMoment*)>& work, StopTimes* times,
                           StoppedThreads* held = nullptr);

}  // namespace proftrace
