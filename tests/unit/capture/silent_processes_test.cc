#include "userspace/capture/processes/silent_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>

namespace proftrace {
namespace {

int64_t OwnCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

// This process itself, after it has run for long enough.
class SilentProcessesTest : public ::testing::Test {
 protected:
  SilentProcessesTest() {
    times_.Begin(std::span(&self_, 1));
    const int64_t until_ns = OwnCpuNs() + SilentProcesses::kLeastCpuNs + 1'000'000;
    while (OwnCpuNs() < until_ns) {
    }
    times_.Read(std::span(&self_, 1));
  }

  void Observe(uint8_t kind) {
    abi::pt_record head{};
    head.kind = kind;
    head.pid = Raw(self_);
    silent_.Observe(head);
  }

  std::string Describe(const std::set<uint32_t>& explained = {}) const {
    return silent_.Describe(std::span(&self_, 1), times_, explained).value_or("");
  }

  const Pid self_{static_cast<uint32_t>(getpid())};
  ProcessCpuTimes times_;
  SilentProcesses silent_;
};

TEST_F(SilentProcessesTest, NamesOneThatRanWithoutRows) {
  const std::string text = Describe();
  EXPECT_TRUE(text.starts_with("PID " + std::to_string(getpid()) + " (0.1")) << text;
  EXPECT_TRUE(text.ends_with(" s of CPU time)")) << text;
}

TEST_F(SilentProcessesTest, ForksAndEndsOfThreadsAreNoRows) {
  Observe(abi::PT_FORK);
  Observe(abi::PT_THREAD_EXIT);
  EXPECT_NE(Describe(), "");
  Observe(abi::PT_SPAN_END);
  EXPECT_EQ(Describe(), "");
}

TEST_F(SilentProcessesTest, WhatIsExplainedElsewhereIsNotSaidAgain) {
  EXPECT_EQ(Describe({Raw(self_)}), "");
}

TEST_F(SilentProcessesTest, OneThatOnlyWaitedIsNotNamed) {
  times_.Begin(std::span(&self_, 1));
  EXPECT_EQ(Describe(), "");
}

TEST_F(SilentProcessesTest, LostRecordsMayBeItsOwn) {
  EXPECT_NE(WhySilent("PID 1 (2 s of CPU time)", true).find("lost"), std::string::npos);
  EXPECT_EQ(WhySilent("PID 1 (2 s of CPU time)", false).find("lost"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
