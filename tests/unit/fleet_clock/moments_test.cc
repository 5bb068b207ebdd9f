// Which calls of which ranks are one collective.
#include "userspace/fleet_clock/fleet_moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/fleet_clock/clock_bounds.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

FleetInput RanksOnBootsOfTheirOwn(int ranks) {
  FleetInput input;
  input.groups.push_back({"world", {}});
  for (int rank = 0; rank < ranks; ++rank) {
    input.boots.push_back({"boot" + std::to_string(rank), "host" + std::to_string(rank)});
    input.groups[0].ranks.push_back(rank);
    input.ranks.push_back({rank, 0, static_cast<uint32_t>(rank)});
  }
  return input;
}

CollectiveCall Numbered(int64_t sequence, int64_t entered_ns, int64_t left_ns) {
  CollectiveCall call;
  call.sequence = sequence;
  call.entered_ns = entered_ns;
  call.left_ns = left_ns;
  return call;
}

TEST(FleetMomentsTest, MatchesByNumberWhereRanksLackSome) {
  FleetInput input = RanksOnBootsOfTheirOwn(3);
  input.ranks[0].calls = {Numbered(1, 10, 20), Numbered(2, 30, 40), Numbered(4, 70, 80)};
  input.ranks[1].calls = {Numbered(2, 30, 40), Numbered(4, 70, 80)};
  input.ranks[2].calls = {Numbered(1, 10, 20), Numbered(4, 70, 80)};
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 3u);
  EXPECT_EQ(moments.moments[0].sequence, 1);
  EXPECT_EQ(moments.Rows(0).size(), 2u);
  EXPECT_EQ(moments.Rows(0)[1].boot, 2u);
  EXPECT_EQ(moments.Rows(2).size(), 3u);
  EXPECT_EQ(moments.incomplete, 2u);
}

TEST(FleetMomentsTest, EqualNamesOfUnlikeGroupsAreNotMatched) {
  FleetInput input = RanksOnBootsOfTheirOwn(4);
  input.groups = {{"tp", {0, 1}}, {"tp", {2, 3}}, {"tp", {1, 0}}};
  for (int rank = 0; rank < 4; ++rank) input.ranks[rank].calls = {Numbered(1, 10, 20)};
  input.ranks[1].calls[0].group = 2;  // the same as group 0, as rank 1's recording has it
  input.ranks[2].calls[0].group = input.ranks[3].calls[0].group = 1;
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 2u);
  EXPECT_EQ(moments.Rows(0)[1].rank, 1u);
  EXPECT_EQ(moments.Rows(1)[0].rank, 2u);
}

TEST(FleetMomentsTest, AttemptsAndRoundsOfNumbersAreApart) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  input.ranks[0].calls = {Numbered(1, 10, 20), Numbered(2, 30, 40), Numbered(1, 50, 60)};
  input.ranks[1].calls = input.ranks[0].calls;
  for (int rank = 0; rank < 2; ++rank) {
    FleetRank again = input.ranks[rank];
    again.attempt = 1;
    input.ranks.push_back(again);
  }
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 6u);
  for (size_t moment = 0; moment < 6; ++moment) EXPECT_EQ(moments.Rows(moment).size(), 2u);
  // One of them saw only the second round: which one that is cannot be told from numbers.
  input.ranks.resize(2);
  input.ranks[1].calls = {Numbered(1, 50, 60)};
  FleetMoments uneven;
  MatchByNumber(input, uneven);
  EXPECT_TRUE(uneven.moments.empty());
  ASSERT_EQ(uneven.refused_groups.size(), 1u);
  EXPECT_THAT(uneven.refused_groups[0], HasSubstr("\"world\""));
}

TEST(FleetMomentsTest, RanksThatDisagreeBindNoClock) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  input.ranks[0].calls = {Numbered(1, 10, 20), Numbered(2, 30, 40), Numbered(2, 35, 45)};
  input.ranks[1].calls = {Numbered(1, 10, 20), Numbered(2, 30, 40)};
  input.ranks[1].calls[0].bytes = 8;
  FleetMoments moments;
  MatchByNumber(input, moments);
  EXPECT_EQ(moments.mismatches, 1u);
  EXPECT_FALSE(moments.moments[0].is_bound);
  EXPECT_EQ(moments.duplicates, 2u);
}

TEST(FleetMomentsTest, RanksWithoutDependenceAreLeftOutAndTheOthersBound) {
  FleetInput input = RanksOnBootsOfTheirOwn(3);
  for (FleetRank& rank : input.ranks) rank.calls = {Numbered(1, 10, 20), Numbered(2, 30, 40)};
  input.ranks[0].calls[0].kind = CollectiveKind::kNoDependence;
  input.ranks[0].calls[0].bytes = 0;
  input.ranks[0].calls[1].kind = input.ranks[1].calls[1].kind = CollectiveKind::kNoDependence;
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 2u);
  EXPECT_TRUE(moments.moments[0].is_bound);
  EXPECT_TRUE(moments.moments[0].ends_together);
  EXPECT_EQ(moments.moments[0].kind, CollectiveKind::kAllToAll);
  EXPECT_TRUE(moments.Rows(0)[0].is_left_out);
  EXPECT_FALSE(moments.Rows(0)[1].is_left_out);
  EXPECT_EQ(moments.Rows(0)[0].entered_ns, kNotEntered);
  EXPECT_FALSE(moments.moments[1].is_bound);  // one rank alone binds nobody
  EXPECT_FALSE(moments.Rows(1)[0].is_left_out);
  // A rank that calls something else may not have met the others.
  input.ranks[0].calls[0].op = 7;
  FleetMoments other;
  MatchByNumber(input, other);
  EXPECT_FALSE(other.moments[0].is_bound);
}

TEST(FleetMomentsTest, RootedOnesAndMessagesGoOneWay) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  CollectiveCall call = Numbered(1, 10, 20);
  call.kind = CollectiveKind::kBroadcast;
  call.root = 1;
  input.ranks[0].calls = input.ranks[1].calls = {call};
  EXPECT_EQ(RowOfCall(input, 0, 0).entered_ns, kNotEntered);
  EXPECT_EQ(RowOfCall(input, 0, 0).left_ns, 20);
  EXPECT_EQ(RowOfCall(input, 1, 0).entered_ns, 10);
  EXPECT_EQ(RowOfCall(input, 1, 0).left_ns, kNotLeft);
  call.source = 0;
  call.destination = 1;
  call.kind = CollectiveKind::kSend;
  input.ranks[0].calls = {call};
  call.kind = CollectiveKind::kRecv;
  input.ranks[1].calls = {call};
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 1u);
  EXPECT_EQ(moments.moments[0].source, FleetMoment::Source::kMessage);
  EXPECT_EQ(moments.Rows(0)[0].entered_ns, 10);
  EXPECT_EQ(moments.Rows(0)[1].left_ns, 20);
}

TEST(FleetMomentsTest, BytesOfAStreamAreReceivedAfterTheyWereSent) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  FleetStream stream;
  stream.calls = {{0, true, 100, 10, 11},  {0, true, 100, 20, 21}, {1, false, 50, 30, 31},
                  {1, false, 100, 32, 33}, {1, false, 50, 34, 35}, {1, false, 1, 36, 37}};
  input.streams.push_back(stream);
  FleetMoments moments;
  MatchStreams(input, moments);
  ASSERT_EQ(moments.moments.size(), 3u);  // the last byte's sending was not seen
  EXPECT_EQ(moments.Rows(0)[0].entered_ns, 10);
  EXPECT_EQ(moments.Rows(1)[0].entered_ns, 20);
  EXPECT_EQ(moments.Rows(1)[1].left_ns, 33);
  EXPECT_EQ(moments.Rows(2)[0].entered_ns, 20);
}

TEST(FleetMomentsTest, OrderOfRanksDoesNotMatter) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  input.groups = {{"b", {0, 1}}, {"a", {0, 1}}};
  input.ranks[0].calls = {Numbered(1, 10, 20), Numbered(1, 30, 40)};
  input.ranks[0].calls[1].group = 1;
  input.ranks[1].calls = {input.ranks[0].calls[1], input.ranks[0].calls[0]};
  FleetMoments moments;
  MatchByNumber(input, moments);
  ASSERT_EQ(moments.moments.size(), 2u);
  EXPECT_EQ(input.groups[moments.moments[0].group].name, "a");
}

TEST(FleetMomentsTest, InputThatMakesNoSenseIsRefused) {
  FleetInput input = RanksOnBootsOfTheirOwn(2);
  EXPECT_TRUE(CheckFleetInput(input).ok());
  input.ranks[1].rank = 0;
  EXPECT_THAT(CheckFleetInput(input).message(), HasSubstr("rank 0 of attempt 0 is twice"));
  input.ranks[1].rank = 1;
  input.ranks[1].calls = {Numbered(1, 20, 10)};
  EXPECT_THAT(CheckFleetInput(input).message(), HasSubstr("ends 10 ns before it begins"));
  input.ranks[1].calls = {Numbered(1, 0, INT64_MAX)};
  EXPECT_THAT(CheckFleetInput(input).message(), HasSubstr("host1 cannot be those of one boot"));
  input.ranks[1].calls = {Numbered(1, INT64_MIN, INT64_MIN)};
  EXPECT_FALSE(CheckFleetInput(input).ok());
  input.ranks[1].calls.clear();
  input.boots[1].snapshots.push_back({});
  input.boots[1].snapshots[0].ntp = NtpState{true, INT64_MAX};
  EXPECT_FALSE(CheckFleetInput(input).ok());
  input.boots[1].snapshots.clear();
  input.boots[1].boot_id = "boot0";
  EXPECT_THAT(CheckFleetInput(input).message(), HasSubstr("boot0 is twice"));
}

}  // namespace
}  // namespace proftrace
