#include "userspace/capture/processes/late_starts.h"

#include <gtest/gtest.h>

namespace proftrace {
namespace {

constexpr int64_t kMs = 1'000'000;

class LateStartsTest : public ::testing::Test {
 protected:
  std::string Text() const { return starts_.Describe("process", "processes").value_or(""); }

  LateStarts starts_;
};

TEST_F(LateStartsTest, NamesEachWithItsTime) {
  starts_.BeginWindow(1000 * kMs);
  starts_.Add(Pid{17}, 2000 * kMs, 2084 * kMs + 1);
  EXPECT_EQ(Text(), "1 process, PID 17 (85 ms)");
  starts_.Add(Pid{18}, 3000 * kMs, 3090 * kMs);
  starts_.Add(Pid{19}, 3000 * kMs, 3001 * kMs);
  EXPECT_EQ(Text(), "3 processes, PID 17 (85 ms), PID 18 (90 ms) and PID 19 (1 ms)");
}

TEST_F(LateStartsTest, WhatPassedBeforeTheWindowWasNotMissed) {
  starts_.Add(Pid{17}, 500 * kMs, 900 * kMs);
  starts_.Add(Pid{18}, 500 * kMs, 1010 * kMs);
  EXPECT_EQ(Text(), "");
  starts_.BeginWindow(1000 * kMs);
  EXPECT_EQ(Text(), "1 process, PID 18 (10 ms)");
}

TEST_F(LateStartsTest, ManyAreCounted) {
  starts_.BeginWindow(0);
  for (uint32_t i = 1; i <= 5000; ++i) starts_.Add(Pid{i}, kMs, kMs + i * kMs);
  const std::string text = Text();
  EXPECT_TRUE(text.starts_with("5000 processes, PID 1 (1 ms), PID 2 (2 ms), ")) << text;
  EXPECT_TRUE(text.ends_with("PID 8 (8 ms) and 4992 more (at most 5000 ms)")) << text;
}

}  // namespace
}  // namespace proftrace
