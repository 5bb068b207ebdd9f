// Which inputs are of one process, one host, one job.
#include "userspace/fleet/joined_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kBootedNs = 1'700'000'000 * kSecondNs;  // wall time at the boots' beginning

SourceFacts Capture(const std::string& host, int64_t pid, std::vector<int64_t> namespace_pids,
                    std::optional<int32_t> rank) {
  SourceFacts facts;
  facts.kind = SourceKind::kCapture;
  facts.clock = SourceClock::kMonotonic;
  facts.path = host + "/capture.ptrec";
  facts.host = host;
  facts.boot_id = "boot-" + host;
  facts.pid = pid;
  facts.namespace_pids = std::move(namespace_pids);
  facts.rank = rank;
  facts.first_ns = 100 * kSecondNs;
  facts.last_ns = 110 * kSecondNs;
  ClockSnapshot snapshot;
  snapshot.monotonic_ns = 100 * kSecondNs;
  snapshot.realtime_ns = kBootedNs + 100 * kSecondNs;
  facts.snapshots = {snapshot};
  return facts;
}

SourceFacts File(const std::string& path, std::optional<int64_t> pid, std::optional<int32_t> rank) {
  SourceFacts facts;
  facts.path = path;
  facts.pid = pid;
  facts.rank = rank;
  facts.first_ns = kBootedNs + 101 * kSecondNs;
  facts.last_ns = kBootedNs + 105 * kSecondNs;
  return facts;
}

absl::StatusOr<JoinedInputs> Join(const std::vector<SourceFacts>& inputs,
                                  const std::string& rank_of = "") {
  static std::vector<SourceFacts> kept;
  kept = inputs;
  std::vector<const SourceFacts*> facts;
  for (const SourceFacts& of : kept) facts.push_back(&of);
  std::optional<RankPattern> pattern;
  if (!rank_of.empty()) pattern = *RankPattern::Parse(rank_of);
  return JoinInputs(facts, pattern);
}

std::string ErrorOf(const absl::StatusOr<JoinedInputs>& joined) {
  return std::string(joined.status().message());
}

TEST(JoinedInputsTest, AFileFromInsideAContainerIsJoinedToItsCaptureByNamespacePid) {
  auto capture = Capture("h0", 81234, {81234, 47}, 3);
  auto file = File("trace.json", 47, std::nullopt);
  const auto joined = Join({file, capture});
  ASSERT_TRUE(joined.ok()) << joined.status();
  ASSERT_EQ(joined->processes.size(), 1);
  EXPECT_THAT(joined->processes[0].inputs, ElementsAre(1, 0));
  EXPECT_EQ(joined->processes[0].rank, 3);
  EXPECT_EQ(joined->ToLocal(0, file, *file.first_ns), 101 * kSecondNs);
}

TEST(JoinedInputsTest, APidAloneIsNotEnough) {
  auto capture = Capture("h0", 47, {}, 0);
  auto later = File("later.json", 47, 1);
  auto other_time = File("old.json", 47, std::nullopt);
  other_time.first_ns = kBootedNs + 5000 * kSecondNs;
  other_time.last_ns = kBootedNs + 5001 * kSecondNs;
  const auto by_rank = Join({capture, later});
  ASSERT_TRUE(by_rank.ok()) << by_rank.status();
  EXPECT_EQ(by_rank->processes.size(), 2);
  EXPECT_THAT(ErrorOf(Join({capture, other_time})), HasSubstr("--rank-of"));
}

TEST(JoinedInputsTest, OfEightContainersWithOnePidTheRankTellsWhich) {
  std::vector<SourceFacts> inputs;
  for (int rank = 0; rank < 8; ++rank) {
    inputs.push_back(Capture("h" + std::to_string(rank), 1000 + rank, {1000 + rank, 47}, rank));
  }
  inputs.push_back(File("run_rank_5.json", 47, std::nullopt));
  EXPECT_THAT(ErrorOf(Join(inputs)), HasSubstr("fits several processes"));
  const auto joined = Join(inputs, "rank_(?P<rank>[0-9]+)");
  ASSERT_TRUE(joined.ok()) << joined.status();
  ASSERT_EQ(joined->processes.size(), 8);
  EXPECT_THAT(joined->processes[5].inputs, ElementsAre(5, 8));
}

TEST(JoinedInputsTest, FilesOfOneHostShareAClockAndUseThatOfItsCapture) {
  auto capture = Capture("h0", 1, {}, 0);
  auto same_host = File("b.json", 2, 1);
  same_host.host = "h0";
  auto first = File("c.json", 3, 2);
  auto second = File("d.json", 4, 3);
  first.host = second.host = "h1";
  const auto joined = Join({capture, same_host, first, second});
  ASSERT_TRUE(joined.ok()) << joined.status();
  ASSERT_EQ(joined->boots.size(), 2);
  EXPECT_EQ(joined->processes[0].boot, joined->processes[1].boot);
  EXPECT_EQ(joined->processes[2].boot, joined->processes[3].boot);
  EXPECT_TRUE(joined->boots[joined->processes[2].boot].is_wall);
}

TEST(JoinedInputsTest, ATimeThatBeginsNowhereSharesNoClock) {
  auto capture = Capture("h0", 7, {}, 0);
  auto old = File("old.json", 7, 1);
  old.clock = SourceClock::kOwn;
  old.host = "h0";
  const auto joined = Join({capture, old});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->boots.size(), 2);
}

TEST(JoinedInputsTest, TheSameFileAndTwoOfOneRankAndTimeAreRefused) {
  auto file = File("a.json", 1, 0);
  const auto twice = Join({file, file});
  EXPECT_EQ(ExitCodeOf(twice.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(ErrorOf(twice), HasSubstr("given twice"));
  auto copy = File("copy.json", 1, 0);
  EXPECT_THAT(ErrorOf(Join({file, copy})), HasSubstr("both of rank 0"));
  copy.first_ns = kBootedNs + 200 * kSecondNs;
  copy.last_ns = kBootedNs + 201 * kSecondNs;
  EXPECT_TRUE(Join({file, copy}).ok());
}

TEST(JoinedInputsTest, OtherJobsAreRefusedByName) {
  auto first = File("a.json", 1, 0);
  auto second = File("b.json", 2, 1);
  first.job = "run-1";
  second.job = "run-2";
  const auto joined = Join({first, second});
  EXPECT_EQ(ExitCodeOf(joined.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(ErrorOf(joined), HasSubstr("run-2"));
  second.job = "run-1";
  first.world_size = 2;
  second.world_size = 4;
  EXPECT_THAT(ErrorOf(Join({first, second})), HasSubstr("of a job of 2 ranks"));
}

TEST(JoinedInputsTest, MissingRanksAreTold) {
  auto first = File("a.json", 1, 0);
  auto second = File("b.json", 2, 4);
  first.world_size = second.world_size = 8;
  const auto joined = Join({first, second});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(RankList(joined->missing_ranks), "1-3, 5-7");
}

TEST(JoinedInputsTest, WorkersAndLaunchersOfACaptureNeedNoRank) {
  auto rank = Capture("h0", 1, {}, 0);
  auto launcher = Capture("h0", 2, {}, std::nullopt);
  auto worker = Capture("h0", 3, {}, 0);  // has the environment of its rank
  const auto joined = Join({launcher, worker, rank});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->processes.size(), 3);
  EXPECT_FALSE(joined->processes[2].rank);
  EXPECT_EQ(joined->boots.size(), 1);
}

TEST(JoinedInputsTest, ThreeProfilersOfOneProcessWithoutRanksAreOneProcess) {
  auto kineto = File("a.json", 5, std::nullopt);
  auto dftracer = File("a.pfw", 5, std::nullopt);
  dftracer.kind = SourceKind::kDftracer;
  auto capture = Capture("h0", 5, {}, std::nullopt);
  const auto joined = Join({kineto, dftracer, capture});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->processes.size(), 1);
  const auto without = Join({kineto, dftracer});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->processes.size(), 1);
}

TEST(JoinedInputsTest, OrderOfInputsDoesNotMatter) {
  std::vector<SourceFacts> inputs;
  for (int rank = 0; rank < 5; ++rank) {
    inputs.push_back(Capture("h" + std::to_string(rank), 10, {}, rank));
    inputs.push_back(File("r" + std::to_string(rank), 10, rank));
  }
  const auto forth = Join(inputs);
  std::reverse(inputs.begin(), inputs.end());
  const auto back = Join(inputs);
  ASSERT_TRUE(forth.ok() && back.ok()) << forth.status() << back.status();
  ASSERT_EQ(forth->processes.size(), back->processes.size());
  for (size_t i = 0; i < forth->processes.size(); ++i) {
    EXPECT_EQ(forth->processes[i].rank, back->processes[i].rank);
    EXPECT_EQ(forth->processes[i].boot, back->processes[i].boot);
    EXPECT_EQ(forth->processes[i].inputs[0], inputs.size() - 1 - back->processes[i].inputs[0]);
  }
}

TEST(RankPatternTest, OtherGroupsAreCountedAndMistakesSaid) {
  const auto pattern = RankPattern::Parse("(a|b)/(?:x)?[(]?r(?P<rank>[0-9]+)_");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_EQ(pattern->RankOf("traces/b/r12_0.json"), 12);
  EXPECT_EQ(pattern->RankOf("traces/r12.json"), std::nullopt);
  EXPECT_FALSE(RankPattern::Parse("rank([0-9]+)").ok());
  EXPECT_FALSE(RankPattern::Parse("(?P<rank>[0-9]+").ok());
}

TEST(WallClockTest, IsPiecewiseAndStepsHoldTheEarlierDifference) {
  const auto at = [](int64_t local_s, int64_t wall_ns) {
    ClockSnapshot snapshot;
    snapshot.monotonic_ns = local_s * kSecondNs;
    snapshot.realtime_ns = wall_ns;
    return snapshot;
  };
  // Slewed by 100 us in the first ten seconds, set by an hour in the next.
  const std::vector<ClockSnapshot> snapshots = {
      at(0, 5'000 * kSecondNs), at(10, 5'010 * kSecondNs + 100'000), at(20, 8'620 * kSecondNs)};
  const WallClock clock(snapshots);
  EXPECT_TRUE(clock.has_jump());
  EXPECT_EQ(clock.ToLocal(5'005 * kSecondNs + 50'000), 5 * kSecondNs);
  EXPECT_EQ(clock.ToWall(5 * kSecondNs), 5'005 * kSecondNs + 50'000);
  EXPECT_EQ(clock.ToLocal(5'015 * kSecondNs + 100'000), 15 * kSecondNs);
  EXPECT_EQ(clock.ToLocal(8'625 * kSecondNs), 25 * kSecondNs);
  EXPECT_EQ(clock.ToWall(-kSecondNs), 4'999 * kSecondNs);
  int64_t last_ns = INT64_MIN;
  for (int64_t wall_ns = 4'990 * kSecondNs; wall_ns < 8'700 * kSecondNs; wall_ns += kSecondNs / 3) {
    ASSERT_GE(clock.ToLocal(wall_ns), last_ns);
    last_ns = clock.ToLocal(wall_ns);
  }
}

}  // namespace
}  // namespace proftrace
