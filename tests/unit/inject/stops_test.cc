// Threads that are stopped (userspace/inject/stopped_threads.h), of jobs that make it hard.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/inject/standstill.h"
#include "userspace/inject/stopped_threads.h"

namespace proftrace {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;
constexpr int kRounds = 300;

using Counter = std::atomic<uint64_t>;

// A child that does one thing again and again, and counts.
class Job {
 public:
  explicit Job(const std::function<void()>& once) {
    void* const shared =
        mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    count_ = new (shared) Counter(0);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
      once();
      ++*count_;
    }
  }
  ~Job() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(static_cast<void*>(count_), sizeof(Counter));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int tid() const { return pid_; }
  Pid pid() const { return Pid{static_cast<uint32_t>(pid_)}; }
  // Whether it goes on from here.
  bool GoesOn() const {
    const uint64_t before = *count_;
    const int64_t deadline_ns = MonotonicNs() + kPatienceNs;
    while (*count_ < before + 3 && MonotonicNs() < deadline_ns) usleep(100);
    return *count_ >= before + 3;
  }

 private:
  pid_t pid_ = -1;
  Counter* count_ = nullptr;
};

int64_t Soon() { return MonotonicNs() + kPatienceNs; }

std::string StateOf(int tid) {
  const std::string status = ReadSmallFile("/proc/" + std::to_string(tid) + "/status", 8192);
  return std::string(StatusValue(status, "State")).substr(0, 1);
}

int alternate[4096];

void StartAndJoin() {
  std::thread([] {}).join();
}

TEST(StoppedThreadsTest, OneThatStopsLateGoesOnAllTheSame) {
  int both[2];
  ASSERT_EQ(pipe(both), 0);
  static int end;
  end = both[0];
  const int other_end = both[1];
  // The parent of a vfork sleeps until its child has ended, and no stop wakes it.
  const Job job([other_end] {
    close(other_end);  // so that none of it stays behind the test
    const int child = clone(
        [](void*) {
          char byte = 0;
          _exit(read(end, &byte, 1) == 1 ? 0 : 1);
          return 0;
        },
        alternate + 4000, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    waitpid(child, nullptr, 0);
  });
  const auto wait_for_sleep = [&job] {
    const int64_t deadline_ns = Soon();
    while (StateOf(job.tid()) != "D" && MonotonicNs() < deadline_ns) usleep(100);
  };
  wait_for_sleep();
  const absl::Status status = StoppedThreads::Use(job.pid(), [&job](StoppedThreads* threads) {
    return threads->StopThread(job.tid(), MonotonicNs() + 1'000'000);
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  bool was_held = true;
  StoppedThreads::WhileHeld(job.pid(),
                            [&was_held](StoppedThreads* held) { was_held = held != nullptr; });
  EXPECT_FALSE(was_held);
  const std::string bytes(1000, 'x');
  ASSERT_EQ(write(both[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(job.GoesOn());
  close(both[0]);
  close(both[1]);
}

TEST(StoppedThreadsTest, OneWorksOnAProcessAtATime) {
  const Job job([] { usleep(100); });
  std::atomic<bool> is_over = false;
  std::atomic<bool> was_over = false;
  std::thread other;
  StoppedThreads::WhileHeld(job.pid(), [&](StoppedThreads* held) {
    ASSERT_NE(held, nullptr);
    std::atomic<bool> is_there = false;
    other = std::thread([&] {
      is_there = true;
      const absl::Status status = StoppedThreads::Use(job.pid(), [&](StoppedThreads* threads) {
        was_over = is_over.load();
        return threads->StopAll(Soon());
      });
      EXPECT_TRUE(status.ok()) << status;
    });
    while (!is_there) usleep(100);
    // Part of the same work.
    const absl::Status status = StoppedThreads::Use(
        job.pid(), [&](StoppedThreads* threads) { return threads->StopAll(Soon(), {job.tid()}); });
    EXPECT_TRUE(status.ok()) << status;
    is_over = true;
  });
  other.join();
  EXPECT_TRUE(was_over);
  EXPECT_TRUE(job.GoesOn());
}

TEST(StoppedThreadsTest, WhatAnotherThreadOfOursTracesIsNoDebuggers) {
  const Job job([] { usleep(100); });
  std::atomic<bool> is_seized = false;
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    EXPECT_EQ(ptrace(PTRACE_SEIZE, job.tid(), nullptr, nullptr), 0);
    EXPECT_EQ(ptrace(PTRACE_INTERRUPT, job.tid(), nullptr, nullptr), 0);
    is_seized = true;
    while (!is_over) usleep(100);
    // Its stop is still there for it.
    int status = 0;
    EXPECT_EQ(waitpid(job.tid(), &status, __WALL), job.tid());
    EXPECT_TRUE(WIFSTOPPED(status));
  });
  while (!is_seized) usleep(100);
  const absl::Status status = StoppedThreads::Use(
      job.pid(), [](StoppedThreads* threads) { return threads->StopAll(Soon()); });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  is_over = true;
  other.join();
  EXPECT_TRUE(job.GoesOn());
}

TEST(StoppedThreadsTest, OneThatStartsOthersStops) {
  const Job job(StartAndJoin);
  for (int round = 0; round < kRounds; ++round) {
    const absl::Status status = StoppedThreads::Use(job.pid(), [&job](StoppedThreads* threads) {
      return threads->StopThread(job.tid(), Soon());
    });
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(job.GoesOn());
  }
}

TEST(StoppedThreadsTest, ThreadsThatHaveJustBegunStopWithTheOthers) {
  const Job job(StartAndJoin);
  for (int round = 0; round < kRounds; ++round) {
    const absl::Status status = StoppedThreads::Use(job.pid(), [&job](StoppedThreads* threads) {
      const absl::Status stopped = threads->StopAll(Soon());
      std::set<int> known;
      for (const StoppedThread& thread : threads->threads()) known.insert(thread.tid);
      const std::string tasks = "/proc/" + std::to_string(job.tid()) + "/task";
      for (const uint32_t tid : ReadNumberedEntries(tasks)) {
        EXPECT_TRUE(known.contains(static_cast<int>(tid)) || ThreadHasEnded(tid));
      }
      threads->Release();
      EXPECT_TRUE(job.GoesOn()) << "while the tracer is there";
      return stopped;
    });
    ASSERT_TRUE(status.ok() && !HasFailure()) << status;
  }
}

TEST(StoppedThreadsTest, AProcessThatIsCloned) {
  // Its end is told by no signal: for ptrace it begins as a thread does.
  const Job job([] {
    const int child = clone(
        [](void*) {
          _exit(0);
          return 0;
        },
        alternate + 4000, 0, nullptr);
    waitpid(child, nullptr, __WCLONE);
  });
  for (int round = 0; round < kRounds; ++round) {
    const absl::Status status = StoppedThreads::Use(job.pid(), [&job](StoppedThreads* threads) {
      const absl::Status stopped = threads->StopAll(Soon());
      for (const StoppedThread& thread : threads->threads()) EXPECT_EQ(thread.tid, job.tid());
      return stopped;
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(job.GoesOn());
  }
}

TEST(StandstillTest, OneThatRunsOrSleepsDoesNotStandStill) {
  const Job job([] { usleep(1000); });
  EXPECT_TRUE(job.GoesOn());
  EXPECT_FALSE(FindStandstill(job.pid()).has_value());
  EXPECT_FALSE(FindStandstill(Pid{0x7ffffff0}).has_value());
}

TEST(StandstillTest, OneThatASignalStoppedIsNamed) {
  const Job job([] {});
  kill(job.tid(), SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(job.tid(), &status, WUNTRACED), job.tid());
  const auto still = FindStandstill(job.pid());
  ASSERT_TRUE(still.has_value());
  EXPECT_EQ(still->kind, StandstillKind::kStopped);
  EXPECT_NE(still->sentence.find("kill -CONT " + std::to_string(job.tid())), std::string::npos);
  kill(job.tid(), SIGCONT);
  EXPECT_TRUE(job.GoesOn());
  EXPECT_FALSE(FindStandstill(job.pid()).has_value());
}

TEST(StandstillTest, OneThatWeHoldOurselvesIsNot) {
  const Job job([] {});
  const absl::Status status = StoppedThreads::Use(job.pid(), [&job](StoppedThreads* threads) {
    absl::Status stopped = threads->StopAll(MonotonicNs() + kPatienceNs);
    EXPECT_FALSE(FindStandstill(job.pid()).has_value());
    return stopped;
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StandstillTest, OneThatAnotherTracerHoldsIsNamed) {
  const Job job([] {});
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ptrace(PTRACE_SEIZE, job.tid(), nullptr, nullptr);
    ptrace(PTRACE_INTERRUPT, job.tid(), nullptr, nullptr);
    waitpid(job.tid(), nullptr, __WALL);
    (void)!write(ready[1], "", 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto still = FindStandstill(job.pid());
  ASSERT_TRUE(still.has_value());
  EXPECT_EQ(still->kind, StandstillKind::kHeld);
  EXPECT_NE(still->sentence.find("held by PID " + std::to_string(holder)), std::string::npos);
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(job.GoesOn());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace proftrace
