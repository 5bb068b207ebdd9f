// What the kernel counted of the host: written to a capture, read back, and told as remarks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "userspace/why/rules.h"
#include "userspace/wire/kept_metadata.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

HostState StateAt(int64_t seconds) {
  HostState state;
  state.time_ns = seconds * kSecond;
  return state;
}

// The remarks on a window from second 100 to 110 of a recording with these states.
std::vector<std::string> RemarksOn(const std::vector<HostState>& states) {
  MetadataWriter writer;
  for (const HostState& state : states) writer.AddHostState(state);
  CaptureMetadata metadata;
  EXPECT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  EXPECT_EQ(metadata.info.host_states, states);
  metadata.info.window.start_ns = 100 * kSecond;
  metadata.info.window.duration_ns = 10 * kSecond;
  return HostRemarks(metadata.info);
}

std::vector<HostState> Throttled(int64_t before_ns, int64_t after_ns) {
  std::vector<HostState> states = {StateAt(90), StateAt(100), StateAt(110), StateAt(120)};
  states[0].throttled_ns = 0;
  states[1].throttled_ns = before_ns;
  states[2].throttled_ns = states[3].throttled_ns = after_ns;
  return states;
}

TEST(HostRulesTest, HeatIsToldOfTheWindowOnly) {
  EXPECT_THAT(RemarksOn(Throttled(7 * kSecond, 10 * kSecond)),
              ElementsAre(HasSubstr("slowed down because of heat or power for 3.00 s of 10.00 s")));
  EXPECT_THAT(RemarksOn(Throttled(7 * kSecond, 7 * kSecond)), IsEmpty());
  // A moment of it is no reason for slow steps.
  EXPECT_THAT(RemarksOn(Throttled(7 * kSecond, 7 * kSecond + kSecond / 10)), IsEmpty());
}

TEST(HostRulesTest, ALimitOfTheFrequencyIsTold) {
  std::vector<HostState> states = {StateAt(100), StateAt(110)};
  for (HostState& state : states) state.frequency = FrequencyLimit{16, 12, 1'200'000, 3'500'000};
  EXPECT_THAT(RemarksOn(states),
              ElementsAre(HasSubstr("12 of the host's 16 CPUs may not run at their full speed: "
                                    "the lowest limit is 1.20 GHz of 3.50 GHz")));
  for (HostState& state : states) state.frequency = FrequencyLimit{16, 0, 0, 0};
  EXPECT_THAT(RemarksOn(states), IsEmpty());
}

std::vector<HostState> Hints(uint64_t all, uint64_t local) {
  std::vector<HostState> states = {StateAt(100), StateAt(110)};
  states[0].numa = NumaHints{1'000'000, 10};
  states[1].numa = NumaHints{1'000'000 + all, 10 + local};
  return states;
}

TEST(HostRulesTest, MemoryOfAnotherNodeIsTold) {
  EXPECT_THAT(
      RemarksOn(Hints(20'000, 5'000)),
      ElementsAre(HasSubstr("75 % of the memory that processes of this host used was on "
                            "another node than the CPU that used it (15000 of 20000 pages")));
  EXPECT_THAT(RemarksOn(Hints(20'000, 15'000)), IsEmpty());
  EXPECT_THAT(RemarksOn(Hints(20, 0)), IsEmpty());  // too few
}

TEST(HostRulesTest, NothingIsToldWithoutTwoStates) {
  EXPECT_THAT(RemarksOn({Throttled(0, 9 * kSecond).front()}), IsEmpty());
  std::vector<HostState> at_once = {StateAt(100), StateAt(100)};
  at_once[0].throttled_ns = 0;
  at_once[1].throttled_ns = kSecond;
  EXPECT_THAT(RemarksOn(at_once), IsEmpty());
  EXPECT_THAT(HostRemarks(RecordingInfo()), IsEmpty());
}

TEST(HostRulesTest, ImpossibleStatesAreLeftOut) {
  CaptureMetadata metadata;
  ASSERT_TRUE(metadata
                  .Merge(R"([{"type":"host_state"},{"type":"host_state","time_ns":-1},
      {"type":"host_state","time_ns":9,"throttled_ns":-1,"frequency":{"cpus":1,"limited":2,
       "limit_khz":1,"able_khz":1},"numa":{"all":1,"local":2}},
      {"type":"host_state","time_ns":3}])")
                  .ok());
  HostState empty;
  empty.time_ns = 9;
  EXPECT_THAT(metadata.info.host_states, ElementsAre(empty));
}

TEST(HostRulesTest, AFlightRecorderKeepsTheLastStateBeforeItsWindow) {
  KeptMetadata kept;
  for (const HostState& state : Throttled(1, 2)) {
    MetadataWriter writer;
    writer.AddHostState(state);
    kept.Add(writer.TakeJson(), state.time_ns);
  }
  kept.ForgetSnapshots(105 * kSecond);
  CaptureMetadata metadata;
  for (const std::string& array : kept.ToJson()) ASSERT_TRUE(metadata.Merge(array).ok());
  ASSERT_EQ(metadata.info.host_states.size(), 3u);
  EXPECT_EQ(metadata.info.host_states.front().time_ns, 100 * kSecond);
}

}  // namespace
}  // namespace proftrace
