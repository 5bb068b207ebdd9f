#include "userspace/capture/targets/job_threads.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>

namespace proftrace {
namespace {

constexpr uint32_t kMostNumber = 1u << 22;  // PID_MAX_LIMIT

Pid OwnPid() { return Pid{static_cast<uint32_t>(getpid())}; }

TEST(JobThreadsTest, OwnThreadsKeepTheirNumbers) {
  JobThreads threads(OwnPid());
  std::promise<void> ends;
  std::promise<uint32_t> number;
  std::thread thread([&] {
    number.set_value(static_cast<uint32_t>(gettid()));
    ends.get_future().wait();
  });
  const uint32_t other = number.get_future().get();
  const uint32_t ended = kMostNumber;  // or never was
  for (const uint32_t tid : {static_cast<uint32_t>(gettid()), other, ended}) {
    EXPECT_EQ(threads.NumberOf(tid), tid);
  }
  threads.LookForMissing();
  EXPECT_FALSE(threads.needs_resolving());
  for (const uint32_t tid : {static_cast<uint32_t>(gettid()), other, ended}) {
    EXPECT_EQ(threads.Resolve(threads.NumberOf(tid)), tid);
  }
  ends.set_value();
  thread.join();
}

TEST(JobThreadsTest, ThreadsOfOthersAreNotItsOwn) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  JobThreads threads(OwnPid());
  const uint32_t number = threads.NumberOf(static_cast<uint32_t>(child));
  threads.LookForMissing();
  ASSERT_TRUE(threads.needs_resolving());
  EXPECT_GT(threads.Resolve(number), kMostNumber);
  EXPECT_EQ(threads.Resolve(threads.NumberOf(static_cast<uint32_t>(getpid()))),
            static_cast<uint32_t>(getpid()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(JobThreadsTest, NumbersThatLinuxGivesToNobodyAreNone) {
  JobThreads threads(OwnPid());
  EXPECT_EQ(threads.NumberOf(0), 0u);
  EXPECT_EQ(threads.NumberOf(kMostNumber + 1), 0u);
  EXPECT_EQ(threads.NumberOf(~0u), 0u);
}

// A job that makes up a thread for each record.
TEST(JobThreadsTest, NoMoreThreadsComeThanAJobCanStart) {
  JobThreads threads(OwnPid());
  uint32_t admitted = 0;
  for (uint32_t number = 1; number < kMostNumber; ++number) {
    admitted += threads.NumberOf(number) != 0;
  }
  EXPECT_GE(admitted, 65'536u);
  EXPECT_LT(admitted, 1'000'000u);
  EXPECT_EQ(threads.NumberOf(1), 1u);
}

}  // namespace
}  // namespace proftrace
