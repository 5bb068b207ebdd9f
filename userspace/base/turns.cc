#include "userspace/base/turns.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace proftrace {

void ShareTurns(size_t turns, const std::function<TurnWorker()>& make_worker) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;  // the first one
  const auto run = [&] {
    try {
      const TurnWorker worker = make_worker();
      for (size_t turn = next++; turn < turns; turn = next++) worker(turn);
    } catch (...) {
      next = turns;
      const std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  const size_t wanted =
      std::min({size_t{std::thread::hardware_concurrency()}, kMostSharingThreads, turns});
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < wanted) others.emplace_back(run);
  } catch (const std::system_error&) {
    // No more threads can be started: those that were started do all turns.
  }
  run();
  for (std::thread& other : others) other.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace proftrace
