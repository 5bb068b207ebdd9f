#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "userspace/base/exit_status.h"
#include "userspace/patch/target_lock.h"

namespace proftrace {
namespace {

// A process that waits until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ != 0) return;
    while (true) pause();
  }
  ~Sleeper() { End(); }
  void End() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  Pid pid() const { return Pid{static_cast<uint32_t>(pid_)}; }

 private:
  pid_t pid_;
};

class TargetLockTest : public testing::TestWithParam<TargetLock::Place> {};

TEST_P(TargetLockTest, HasOneHolderWhoIsNamed) {
  const Sleeper target;
  const Sleeper other;
  auto first = TargetLock::TakeAt(GetParam(), target.pid());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(TargetLock::TakeAt(GetParam(), other.pid()).ok());
  const auto second = TargetLock::TakeAt(GetParam(), target.pid());
  EXPECT_EQ(ExitCodeOf(second.status()), ExitCode::kNotPermitted);
  const std::string self = std::to_string(getpid());
  EXPECT_EQ(second.status().message(),
            "PID " + std::to_string(Raw(target.pid())) + " is being patched by proftrace PID " +
                self + "; wait until that recording has ended, or end it with kill -INT " + self);
  *first = TargetLock();
  EXPECT_TRUE(TargetLock::TakeAt(GetParam(), target.pid()).ok());
}

TEST(CodeLockTest, JumpsAndProbesExcludeEachOther) {
  const Sleeper target;
  EXPECT_FALSE(TargetLock::IsTaken(target.pid()));
  const auto owner = TargetLock::Take(target.pid());
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_TRUE(TargetLock::IsTaken(target.pid()));
  // Beside the owner's lock, and several at once.
  auto probes = TargetLock::TakeForProbes(target.pid());
  ASSERT_TRUE(probes.ok()) << probes.status();
  EXPECT_TRUE(TargetLock::TakeForProbes(target.pid()).ok());
  std::atomic<bool> are_there = false;
  std::thread jumps([&] {
    EXPECT_TRUE(TargetLock::TakeForJumps(target.pid()).ok());
    are_there = true;
  });
  usleep(50'000);
  EXPECT_FALSE(are_there);
  *probes = TargetLock();
  jumps.join();
  EXPECT_TRUE(are_there);
}

TEST_P(TargetLockTest, GoesWithAKilledHolder) {
  const Sleeper target;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const auto lock = TargetLock::TakeAt(GetParam(), target.pid());
    const char answer = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(TargetLock::TakeAt(GetParam(), target.pid()).ok());
  kill(holder, SIGKILL);
  EXPECT_TRUE(TargetLock::TakeAt(GetParam(), target.pid()).ok());
  waitpid(holder, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_P(TargetLockTest, ProcessesThatAreGoneHaveNone) {
  Sleeper target;
  const Pid pid = target.pid();
  target.End();
  EXPECT_EQ(ExitCodeOf(TargetLock::TakeAt(GetParam(), pid).status()), ExitCode::kNoTarget);
}

INSTANTIATE_TEST_SUITE_P(Places, TargetLockTest, testing::ValuesIn(TargetLock::Places()));

// A kernel whose pidfds have no inode of their own has no lock in them.
TEST(TargetLock, IsOfOneProcessAlone) {
  const Sleeper target;
  const Sleeper other;
  const auto first = TargetLock::Take(target.pid());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(TargetLock::Take(other.pid()).ok());
  EXPECT_FALSE(TargetLock::Take(target.pid()).ok());
}

}  // namespace
}  // namespace proftrace
