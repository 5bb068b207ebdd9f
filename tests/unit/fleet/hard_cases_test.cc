// Jobs of which not all was recorded: what is seen is told, and nothing that was not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exporters/sinks/output_file.h"
#include "tests/support/fake_source.h"
#include "userspace/fleet/chrome_merge.h"
#include "userspace/fleet/fleet_merge.h"

namespace proftrace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

nlohmann::json MergedTrace(FleetMerge& merge) {
  StringSink sink;
  EXPECT_TRUE(merge.Write(*NewChromeMerge(sink)).ok());
  return nlohmann::json::parse(sink.text());
}

// The inputs of these ranks alone.
std::vector<std::unique_ptr<SourceInput>> Seen(const FakeJob& job, const std::vector<int>& ranks) {
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (const int rank : ranks) inputs.push_back(job.Make(rank));
  return inputs;
}

TEST(HardCasesTest, MissingRanksAreToldAndNobodySeenIsProvedToBeTheLast) {
  FakeJob job;
  job.ranks = 4;
  job.late_ns = {0, 2'000'000, 0, 200'000'000};  // the culprit is rank 3
  job.step_ns = 400'000'000;
  auto merge = FleetMerge::Prepare(Seen(job, {0, 1}), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_THAT((*merge)->joined().missing_ranks, ElementsAre(2, 3));
  EXPECT_THAT((*merge)->remarks(), Contains(HasSubstr("may be one of them")));
  int collectives = 0;
  const nlohmann::json some = MergedTrace(**merge);
  for (const nlohmann::json& event : some["traceEvents"]) {
    if (!event.contains("args") || !event["args"].contains("entered last")) continue;
    ++collectives;
    EXPECT_FALSE(event["args"]["entered last is proved"]) << event;
    EXPECT_LE(event["args"]["entered last"], 1) << event;
  }
  EXPECT_EQ(collectives, 2 * job.collectives);

  auto whole = FleetMerge::Prepare(job.MakeAll(), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const nlohmann::json all = MergedTrace(**whole);
  for (const nlohmann::json& event : all["traceEvents"]) {
    if (!event.contains("args") || !event["args"].contains("entered last")) continue;
    EXPECT_EQ(event["args"]["entered last"], 3) << event;
  }
}

TEST(HardCasesTest, HostsThatShareNoCollectiveAreMarkedAndTheOthersAligned) {
  FakeJob job;
  job.ranks = 12;
  for (int rank = 0; rank < job.ranks; ++rank) job.offsets_ns.push_back(rank * 3'600'000'000'000);
  auto inputs = Seen(job, {0, 1, 2, 5, 6});
  for (const int rank : {9, 11}) {
    SourceFacts facts = job.Make(rank)->facts();
    facts.calls.clear();
    std::vector<FakeEvent> events = {
        {'X', "aten::mm", "cpu_op", FakeJob::kPid, FakeJob::kPid, job.LocalAt(rank, 0), 5'000}};
    inputs.push_back(std::make_unique<FakeSource>(std::move(facts), std::move(events)));
  }
  auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_THAT((*merge)->joined().missing_ranks, ElementsAre(3, 4, 7, 8, 10));
  EXPECT_THAT((*merge)->clock().not_aligned, UnorderedElementsAre("host9", "host11"));
  EXPECT_TRUE((*merge)->clock().worst_bound_ns);
  const std::string trace = MergedTrace(**merge).dump();
  EXPECT_THAT(trace, HasSubstr("rank 9 [not aligned]"));
  EXPECT_THAT(trace, HasSubstr("rank 11 [not aligned]"));
  EXPECT_THAT(trace, testing::Not(HasSubstr("rank 6 [not aligned]")));
}

// An agent of torchelastic counts the restarts that it made for its own workers' sake: where
// another host's worker failed, that host's count is higher than the others'.
TEST(HardCasesTest, CountsOfRestartsDifferBetweenHostsOfOneAttempt) {
  FakeJob job;
  job.ranks = 3;
  for (int rank = 0; rank < job.ranks; ++rank) job.offsets_ns.push_back(rank * 60'000'000'000);
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    SourceFacts facts = job.Make(rank)->facts();
    facts.attempt = rank == 1 ? 2 : 0;
    inputs.push_back(std::make_unique<FakeSource>(std::move(facts), std::vector<FakeEvent>()));
  }
  auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_TRUE((*merge)->clock().not_aligned.empty());
  EXPECT_TRUE((*merge)->clock().worst_bound_ns);
}

}  // namespace
}  // namespace proftrace
