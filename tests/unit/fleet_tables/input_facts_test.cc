#include "userspace/fleet_tables/input_facts.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace proftrace {
namespace {

InputFacts Made() {
  InputFacts facts;
  facts.id = "0123456789abcdef";
  SourceFacts& source = facts.source;
  source.kind = SourceKind::kCapture;
  source.clock = SourceClock::kMonotonic;
  source.path = "/a \"b\"\n\xff";
  source.host = "h 0";
  source.boot_id = "boot";
  source.job = "job";
  source.attempt = 2;
  source.rank = 3;
  source.world_size = 4;
  source.pid = 47;
  source.namespace_pids = {47, 1};
  source.first_ns = -5;
  source.last_ns = INT64_MAX;
  source.events = 12;
  source.groups = {{"g 0", {0, 3}}, {"", {1}}};
  source.group_descriptions = {"all of it", ""};
  source.remarks = {"it is cut off"};
  ClockSnapshot snapshot;
  snapshot.monotonic_ns = 1;
  snapshot.realtime_ns = 2;
  snapshot.ntp = NtpState{true, 3, 4, -5, -6, 7};
  source.snapshots = {snapshot, ClockSnapshot()};
  SourceCall call;
  call.op = "allreduce/Float";
  call.call.group = 1;
  call.call.sequence = 9;
  call.call.kind = CollectiveKind::kBroadcast;
  call.call.root = 0;
  call.call.entered_ns = INT64_MIN;
  call.call.left_ns = 20;
  call.place = CallPlace::kGloo;
  call.out_bytes = 256;
  source.calls = {call};
  call.op = "send/";
  source.calls_without_group = {call, call};
  facts.unix_offset_ns = 77;
  facts.lost = 0;
  facts.overhead_percent = 1.5;
  StepRow step;
  step.pid = 47;
  step.is_main = true;
  step.step = 6;
  step.start_ns = 100;
  step.duration_ns = 50;
  step.confidence = Decimal{0.75, 4};
  step.why_ns[2] = 8;
  step.mem_peak_bytes = -1;
  facts.steps = {step};
  return facts;
}

std::string TextOf(const InputFacts& facts) {
  StringSink sink;
  EXPECT_TRUE(WriteInputFacts(facts, sink).ok());
  return sink.text();
}

class InputFactsTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::unique_ptr<InputFacts>>> ReadAll(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadInputFacts(path_);
  }
  absl::StatusOr<std::unique_ptr<InputFacts>> Read(const std::string& text) const {
    auto all = ReadAll(text);
    if (!all.ok()) return all.status();
    EXPECT_EQ(all->size(), 1U);
    return std::move(all->front());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // Tests of this file run at the same time, each in a process of its own.
  std::string path_ = testing::TempDir() + "/input_facts_test." + std::to_string(getpid());
};

TEST_F(InputFactsTest, AllComesBack) {
  const std::string text = TextOf(Made());
  const auto facts = Read(text);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(TextOf(**facts), text);
  const SourceFacts& source = (*facts)->source;
  EXPECT_EQ(source.path, "/a \"b\"\n\xef\xbf\xbd");
  EXPECT_EQ(source.rank, 3);
  EXPECT_EQ(source.last_ns, INT64_MAX);
  EXPECT_EQ(source.groups[0].name, "g 0");
  EXPECT_EQ(source.snapshots[0].ntp->frequency_ppb, -6);
  EXPECT_FALSE(source.snapshots[1].ntp);
  EXPECT_EQ(source.calls[0].call.entered_ns, INT64_MIN);
  EXPECT_EQ(source.calls[0].call.sequence, 9);
  EXPECT_EQ(source.calls[0].in_bytes, std::nullopt);
  EXPECT_EQ(source.calls[0].out_bytes, 256);
  EXPECT_EQ(source.calls_without_group.size(), 2U);
  EXPECT_EQ((*facts)->steps[0].why_ns[2], 8);
  EXPECT_EQ((*facts)->steps[0].comm_ns, std::nullopt);
  EXPECT_DOUBLE_EQ((*facts)->steps[0].confidence->value, 0.75);
}

TEST_F(InputFactsTest, SeveralStandBehindEachOther) {
  InputFacts second = Made();
  second.source.rank = 4;
  const std::string one = TextOf(Made());
  const std::string other = TextOf(second);
  const auto all = ReadAll(one + other + one);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ(TextOf(*(*all)[0]), one);
  EXPECT_EQ(TextOf(*(*all)[1]), other);
  EXPECT_EQ(TextOf(*(*all)[2]), one);
  // All of them are there, or none.
  EXPECT_FALSE(ReadAll(one + other.substr(0, other.size() - 1)).ok());
  EXPECT_FALSE(ReadAll(one + "\n" + other).ok());
}

TEST_F(InputFactsTest, WhatIsNotWholeIsRefused) {
  const std::string text = TextOf(Made());
  for (size_t size = 0; size < text.size(); size += 7) {
    EXPECT_FALSE(Read(text.substr(0, size)).ok()) << size;
  }
  // Any byte that is another one gives facts or an error, and no crash.
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    (void)ReadAll(changed).ok();
  }
  std::string other_group = text;
  other_group.replace(other_group.find("\nc 1 "), 5, "\nc 2 ");
  EXPECT_FALSE(Read(other_group).ok());
}

TEST(StepAtTest, StepsOfTheDrivingThreadCount) {
  std::vector<StepRow> steps(3);
  for (size_t i = 0; i < 3; ++i) {
    steps[i].is_main = i < 2;
    steps[i].step = static_cast<int64_t>(i) + 5;
    steps[i].start_ns = static_cast<int64_t>(i) * 100;
    steps[i].duration_ns = 60;
  }
  EXPECT_EQ(StepAt(steps, -1), std::nullopt);
  EXPECT_EQ(StepAt(steps, 0), 5);
  EXPECT_EQ(StepAt(steps, 60), std::nullopt);
  EXPECT_EQ(StepAt(steps, 159), 6);
  EXPECT_EQ(StepAt(steps, 210), std::nullopt);
}

}  // namespace
}  // namespace proftrace
