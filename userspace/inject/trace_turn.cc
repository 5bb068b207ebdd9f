#include "userspace/inject/trace_turn.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace proftrace {
namespace {

// A hold may last until all probes and jumps are in place.
constexpr std::chrono::seconds kWait{30};

}  // namespace

std::shared_ptr<TraceTurn::Mutex> TraceTurn::MutexOf(Pid pid) {
  // There is one table for the whole program, because a thread that one part of the program traces
  // cannot be traced by any other part.
  static std::mutex all_mutex;
  static auto& all = *new std::map<uint32_t, std::weak_ptr<Mutex>>;
  const std::lock_guard lock(all_mutex);
  std::erase_if(all, [](const auto& known) { return known.second.expired(); });
  std::shared_ptr<Mutex> mutex = all[Raw(pid)].lock();
  if (mutex == nullptr) {
    mutex = std::make_shared<Mutex>();
    all[Raw(pid)] = mutex;
  }
  return mutex;
}

absl::StatusOr<TraceTurn> TraceTurn::Take(Pid pid) {
  std::shared_ptr<Mutex> mutex = MutexOf(pid);
  if (!mutex->try_lock_for(kWait)) {
    return absl::UnavailableError("PID " + std::to_string(Raw(pid)) +
                                  " is being worked on by another part of proftrace");
  }
  return TraceTurn(std::move(mutex));
}

}  // namespace proftrace
