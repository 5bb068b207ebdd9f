#include "userspace/inject/quiet_moment.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/inject/stack_room.h"
#include "userspace/inject/thread_checks.h"
#include "userspace/inject/trace_turn.h"

namespace proftrace {
namespace {

// How long all threads may take to stand still, by the number of the try. A thread that waits for a
// processor stops only when it gets one, and the others must not wait for that: they go on, and the
// stop is tried again. The last tries wait longer, for processes in which short tries never
// succeed.
constexpr int kMostTries = 60;
constexpr int64_t StopLimitNs(int tries) {
  return tries < 30 ? 4'000'000 : tries < 45 ? 20'000'000 : 300'000'000;
}
constexpr useconds_t kRetryUs = 1500;

// Returns a number that changes when a stack is mapped or grows.
uint64_t MappedPages(Pid pid) {
  const std::string statm =
      ReadSmallFile("/proc/" + std::to_string(Raw(LivingThread(pid))) + "/statm", 256);
  return std::strtoull(statm.c_str(), nullptr, 10);
}

}  // namespace

Hurry::Hurry() : nice_(getpriority(PRIO_PROCESS, 0)), policy_(sched_getscheduler(0)) {
  sched_param parameters{};
  sched_getparam(0, &parameters);
  priority_ = parameters.sched_priority;
  sched_param first{};
  first.sched_priority = 1;
  has_policy_ = policy_ == SCHED_OTHER &&
                sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
  if (!has_policy_) setpriority(PRIO_PROCESS, 0, -20);
}

Hurry::~Hurry() {
  if (has_policy_) {
    sched_param parameters{};
    parameters.sched_priority = priority_;
    sched_setscheduler(0, policy_, &parameters);
  }
  setpriority(PRIO_PROCESS, 0, nice_);
}

void QuietMoment::NoteStop() {
  if (begin_ns_ == 0) return;
  const int64_t let_go_ns = threads_.let_go_ns();
  const int64_t stop_ns = let_go_ns - begin_ns_;
  if (stop_ns > times_->longest_stop_ns) {
    times_->longest_stop_ns = stop_ns;
    times_->longest_wait_ns = std::min(still_ns_, let_go_ns) - begin_ns_;
  }
  begin_ns_ = 0;
}

absl::StatusOr<StoppedThread> QuietMoment::ReleaseAllButOne(const ThreadCheck& check) {
  for (const StoppedThread& thread : threads_.threads()) {
    if (thread.is_gone || !StandsOnItsOwnStack(thread, mappings_) || !check(thread).ok()) continue;
    const StoppedThread kept = thread;
    threads_.Release(kept.tid);
    NoteStop();
    return kept;
  }
  threads_.Release();
  NoteStop();
  const absl::Status status = threads_.StopOne(MonotonicNs() + kOneStopLimitNs, check);
  if (!status.ok()) return status;
  return threads_.threads().front();
}

bool QuietMoment::Try(int64_t limit_ns, Pid pid, const WritableMemory& memory,
                      const std::function<bool(uint64_t)>& is_in_the_way,
                      const std::function<absl::Status(QuietMoment*)>& work, absl::Status* status) {
  // The map is read before the stop, because reading that of a large job takes as long as the stop
  // itself. It is read again only if it has changed since.
  const uint64_t pages = MappedPages(pid);
  absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) {
    *status = mappings.status();
    return true;
  }
  const Hurry hurry;
  begin_ns_ = MonotonicNs();
  std::set<int> held;
  if (held_ != nullptr) {
    for (const StoppedThread& thread : held_->threads()) held.insert(thread.tid);
  }
  *status = threads_.StopAll(begin_ns_ + limit_ns, held);
  still_ns_ = MonotonicNs();
  ++times_->stops;
  bool is_done = false;
  if (status->ok()) {
    if (MappedPages(pid) != pages) mappings = ReadMaps(pid);
    mappings_ = mappings.ok() ? *std::move(mappings) : std::vector<Mapping>();
    const auto goes_on = [&](StoppedThreads* stopped) {
      return is_in_the_way != nullptr &&
             AnyThreadGoesOn(stopped->threads(), mappings_, memory, is_in_the_way);
    };
    if (!goes_on(&threads_) && (held_ == nullptr || !goes_on(held_))) {
      *status = work(this);
      is_done = true;
    } else {
      *status = absl::UnavailableError("a thread stood where the code was to be changed");
    }
    threads_.Release();
  }
  NoteStop();
  return is_done || !absl::IsUnavailable(*status);
}

absl::Status AtQuietMoment(Pid pid, const WritableMemory& memory,
                           const std::function<bool(uint64_t)>& is_in_the_way,
                           const std::function<absl::Status(QuietMoment*)>& work, StopTimes* times,
                           StoppedThreads* held) {
  const absl::StatusOr<TraceTurn> turn = TraceTurn::Take(pid);
  if (!turn.ok()) return turn.status();
  absl::Status status;
  bool is_done = false;
  for (int tries = 0; tries < kMostTries && !is_done; ++tries) {
    if (tries > 0) usleep(kRetryUs);
    status = StoppedThreads::Use(pid, [&](StoppedThreads* threads) {
      absl::Status tried;
      QuietMoment moment(threads, times, held);
      is_done = moment.Try(StopLimitNs(tries), pid, memory, is_in_the_way, work, &tried);
      return tried;
    });
  }
  return status;
}

}  // namespace proftrace
