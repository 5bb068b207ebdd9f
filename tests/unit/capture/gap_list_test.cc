#include "userspace/capture/processes/gap_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Pid kJob{100};

std::vector<std::string> Features(const std::vector<Unsupported>& gaps) {
  std::vector<std::string> features;
  for (const Unsupported& gap : gaps) features.push_back(gap.feature);
  return features;
}

TEST(GapListTest, GapIsKeptOnce) {
  GapList gaps;
  gaps.Add({"stacks", "no room"});
  gaps.Add({"stacks", "no room"});
  gaps.Add({"stacks", "no frame"});
  EXPECT_THAT(Features(gaps.Describe({})), ElementsAre("stacks", "stacks"));
}

TEST(GapListTest, ProcessesBeyondTheFirstAreCounted) {
  GapList gaps;
  for (uint32_t i = 1; i <= 30; ++i) {
    gaps.AddRefusal(Pid{i}, Fail(ExitCode::kHostUnfit, "no room"), /*living=*/i);
  }
  const std::vector<Unsupported> told = gaps.Describe({});
  ASSERT_EQ(told.size(), 21);
  EXPECT_EQ(told.front().feature, "process 1");
  EXPECT_EQ(told.back().reason, "30 in all could not be recorded");
  EXPECT_EQ(gaps.follow_failed(), 30);
  EXPECT_EQ(gaps.refusal().message(), "PID 1: no room");
}

TEST(GapListTest, ProcessWithoutTorchHasNothingToLose) {
  GapList gaps;
  gaps.AddRefusal(kJob, Fail(ExitCode::kNoTorch, "no PyTorch"), /*living=*/1);
  EXPECT_EQ(gaps.follow_failed(), 0);
  EXPECT_EQ(ExitCodeOf(gaps.refusal()), ExitCode::kNoTorch);
}

TEST(GapListTest, ProcessIsWarnedOfOnce) {
  GapList gaps;
  gaps.AddUnreached(kJob, "its code was moved");
  gaps.AddUnreached(kJob, "more of its code was moved");
  EXPECT_THAT(gaps.TakeWarnings(), ElementsAre("PID 100: its code was moved"));
  EXPECT_THAT(gaps.TakeWarnings(), IsEmpty());
  EXPECT_THAT(gaps.unreached(), ElementsAre(Raw(kJob)));
  EXPECT_EQ(gaps.Describe({}).size(), 2);
}

TEST(GapListTest, PlacesBesideAnothersJumpsAreCounted) {
  GapList gaps;
  gaps.AddAnothersJumps(kJob, /*left=*/3, /*all=*/10);
  EXPECT_THAT(gaps.anothers_jumps(), HasSubstr("7 of 10 places are not recorded here"));
  EXPECT_THAT(gaps.unreached(), ElementsAre(Raw(kJob)));
}

TEST(GapListTest, SentencesComeInAnOrderOfTheirOwn) {
  GapList gaps;
  gaps.BeginWindow(1000);
  gaps.AddEndedEarly();
  gaps.AddLateLoad(kJob, 2000, 3000);
  gaps.AddLateFork(kJob, 2000, 3000);
  gaps.AddLateLibrary();
  gaps.Add({"of a plan", ""});
  GapList::Facts facts;
  facts.of_schemas = {{"of schemas", ""}};
  facts.of_kernel = {{"of the kernel", ""}};
  facts.loaded = {kJob};
  facts.waiting_forks = 1;
  facts.ended_forks = 1;
  facts.replaced_operators = 1;
  EXPECT_THAT(
      Features(gaps.Describe(facts)),
      ElementsAre("of a plan", "of schemas", "of the kernel",
                  "start of libraries that were loaded while recording", "start of children",
                  "start of processes that loaded PyTorch while recording",
                  "processes that loaded PyTorch at the end", "children forked at the end",
                  "short-lived children", "names of deregistered operators",
                  "short-lived processes"));
}

}  // namespace
}  // namespace proftrace
