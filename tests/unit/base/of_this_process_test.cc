#include "userspace/base/of_this_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace proftrace {
namespace {

struct Guarded {
  std::mutex mutex;
  int value = 0;
};

TEST(OfThisProcessTest, AllThreadsShareOneObject) {
  static constinit OfThisProcess<Guarded> objects;
  std::mutex mutex;
  std::set<Guarded*> seen;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      Guarded* mine = &objects.Get();
      const std::lock_guard lock(mutex);
      seen.insert(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), 1U);
}

TEST(OfThisProcessTest, AChildHasItsOwnWhateverItsParentHolds) {
  static constinit OfThisProcess<Guarded> objects;
  objects.Get().value = 7;
  const std::lock_guard held(objects.Get().mutex);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);  // ends a child that waits for the lock
    const std::lock_guard lock(objects.Get().mutex);
    const bool is_new = objects.Get().value == 0;
    objects.Get().value = 1;
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(objects.Get().value);
    int state = 0;
    waitpid(grandchild, &state, 0);
    _exit(is_new && WIFEXITED(state) && WEXITSTATUS(state) == 0 ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  EXPECT_EQ(objects.Get().value, 7);
}

}  // namespace
}  // namespace proftrace
