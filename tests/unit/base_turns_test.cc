#include "userspace/base/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace proftrace {
namespace {

TEST(ShareTurns, EachTurnIsDoneOnce) {
  constexpr size_t kTurns = 10000;
  std::vector<std::atomic<int>> done(kTurns);
  ShareTurns(kTurns, [&done]() -> TurnWorker { return [&done](size_t turn) { ++done[turn]; }; });
  for (size_t turn = 0; turn < kTurns; ++turn) ASSERT_EQ(done[turn], 1) << turn;
}

TEST(ShareTurns, AWorkerStaysWithItsThread) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<size_t> workers = 0;
  std::atomic<size_t> strangers = 0;
  ShareTurns(1000, [&]() -> TurnWorker {
    ++workers;
    const std::thread::id own = std::this_thread::get_id();
    const std::scoped_lock lock(mutex);
    threads.insert(own);
    return [&strangers, own](size_t) { strangers += std::this_thread::get_id() != own ? 1 : 0; };
  });
  EXPECT_EQ(strangers, 0u);
  EXPECT_EQ(workers, threads.size());
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ShareTurns, NothingToDoIsNothingDone) {
  ShareTurns(0, []() -> TurnWorker { return [](size_t) { FAIL(); }; });
}

}  // namespace
}  // namespace proftrace
