// Dumps of many ranks folded: who stands where, and who is missing.
#include "userspace/cli/dump_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/cli/dump_bytes.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kTorch[] = "/usr/lib/python3/site-packages/torch/distributed/";

DumpedFrame Frame(const std::string& file, const std::string& name, int32_t line) {
  return DumpedFrame{file, name, name, 1, line};
}

// A rank that waits in a function of torch.distributed, or (empty) stands in its own code.
RankDump Rank(int rank, const std::string& collective, int32_t line = 10, uint32_t pid = 0) {
  RankDump one;
  one.dump.pid = Pid{pid != 0 ? pid : 100 + static_cast<uint32_t>(rank)};
  one.dump.comm = "python";
  one.parent = Pid{1};
  one.rank = rank;
  one.world_size = 8;
  one.job = "localhost:29500";
  DumpedThread thread;
  thread.tid = Raw(one.dump.pid);
  thread.state = ThreadState::kWaits;
  DumpedStack stack;
  if (!collective.empty()) {
    stack.frames.push_back(Frame(std::string(kTorch) + "distributed_c10d.py", collective, 2806));
    stack.frames.push_back(Frame(std::string(kTorch) + "c10d_logger.py", "wrapper", 81));
  }
  stack.frames.push_back(Frame("/job/train.py", "step", line));
  thread.stacks.push_back(std::move(stack));
  one.dump.threads.push_back(std::move(thread));
  return one;
}

std::vector<int> RanksOf(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  std::vector<int> ranks;
  for (const size_t member : group.members) ranks.push_back(dumps[member].rank.value_or(-1));
  return ranks;
}

// Eight ranks: one sleeps, one has left the loop, one is in another collective.
std::vector<RankDump> HangingJob() {
  std::vector<RankDump> dumps;
  for (int rank = 7; rank >= 0; --rank) {
    if (rank == 3) {
      dumps.push_back(Rank(rank, "", 22));
    } else if (rank == 5) {
      dumps.push_back(Rank(rank, "", 40));
    } else if (rank == 6) {
      dumps.push_back(Rank(rank, "barrier", 12));
    } else {
      dumps.push_back(Rank(rank, "all_reduce"));
    }
  }
  return dumps;
}

TEST(DumpGroupsTest, TheOddOnesComeFirstAndThoseInNoCollectiveBeforeAll) {
  const std::vector<RankDump> dumps = HangingJob();
  const std::vector<DumpGroup> groups = FoldDumps(dumps);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_THAT(RanksOf(dumps, groups[0]), ElementsAre(3));
  EXPECT_THAT(RanksOf(dumps, groups[1]), ElementsAre(5));
  EXPECT_THAT(RanksOf(dumps, groups[2]), ElementsAre(6));
  EXPECT_THAT(RanksOf(dumps, groups[3]), ElementsAre(0, 1, 2, 4, 7));
  EXPECT_EQ(groups[2].collective, (EnteredCollective{"barrier", "/job/train.py", 12}));
}

TEST(DumpGroupsTest, SaysWhoIsMissingInWhichCall) {
  const std::vector<RankDump> dumps = HangingJob();
  const std::vector<MissingRanks> missing = FindMissingRanks(dumps, FoldDumps(dumps));
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].collective, (EnteredCollective{"all_reduce", "/job/train.py", 10}));
  EXPECT_THAT(missing[0].waiting, ElementsAre(0, 1, 2, 4, 7));
  EXPECT_THAT(missing[0].missing, ElementsAre(3, 5, 6));
  EXPECT_THAT(missing[0].absent, IsEmpty());
}

TEST(DumpGroupsTest, ARankWhoseProcessIsGoneIsMissingUnlessItMayBeOnAnotherHost) {
  std::vector<RankDump> dumps;
  for (int rank = 0; rank < 7; ++rank) dumps.push_back(Rank(rank, "all_reduce"));
  auto missing = FindMissingRanks(dumps, FoldDumps(dumps));
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].absent, ElementsAre(7));
  for (RankDump& one : dumps) one.local_world_size = 4;  // the others are on another host
  EXPECT_THAT(FindMissingRanks(dumps, FoldDumps(dumps)), IsEmpty());
}

TEST(DumpGroupsTest, NothingIsMissingWhereAllWaitTogetherOrNoCallHasMost) {
  std::vector<RankDump> all;
  for (int rank = 0; rank < 8; ++rank) all.push_back(Rank(rank, "all_reduce"));
  EXPECT_THAT(FindMissingRanks(all, FoldDumps(all)), IsEmpty());
  std::vector<RankDump> halves;
  for (int rank = 0; rank < 8; ++rank) {
    halves.push_back(Rank(rank, rank % 2 == 0 ? "all_reduce" : "barrier"));
  }
  EXPECT_THAT(FindMissingRanks(halves, FoldDumps(halves)), IsEmpty());
}

TEST(DumpGroupsTest, WorkersAndLaunchersAreNoRanks) {
  std::vector<RankDump> dumps;
  for (int rank = 0; rank < 3; ++rank) dumps.push_back(Rank(rank, "all_reduce"));
  dumps.push_back(Rank(1, "", 99, 500));  // a worker of rank 1's DataLoader
  dumps.back().parent = Pid{101};
  dumps.push_back(Rank(0, "", 7, 50));  // the launcher
  dumps.back().rank.reset();
  dumps.back().job.clear();
  const std::vector<DumpGroup> groups = FoldDumps(dumps);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_TRUE(groups[0].is_of_ranks);
  EXPECT_THAT(RanksOf(dumps, groups[0]), ElementsAre(0, 1, 2));
  EXPECT_FALSE(groups[1].is_of_ranks);
  EXPECT_FALSE(groups[2].is_of_ranks);
}

TEST(DumpGroupsTest, JobsOfOneHostAreKeptApart) {
  std::vector<RankDump> dumps = HangingJob();
  for (int rank = 0; rank < 8; ++rank) {
    dumps.push_back(Rank(rank, "all_reduce", 10, 900 + static_cast<uint32_t>(rank)));
    dumps.back().job = "localhost:29501";
  }
  const std::vector<DumpGroup> groups = FoldDumps(dumps);
  EXPECT_EQ(groups.size(), 5u);
  const auto missing = FindMissingRanks(dumps, groups);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].job, "localhost:29500");
}

TEST(DumpGroupsTest, JobsOfOneNameAreToldApartByWhatStartedThem) {
  std::vector<RankDump> dumps = HangingJob();
  for (int rank = 0; rank < 8; ++rank) {
    dumps.push_back(Rank(rank, "all_reduce", 10, 900 + static_cast<uint32_t>(rank)));
    dumps.back().parent = Pid{2};
  }
  dumps.push_back(Rank(1, "", 99, 950));  // a worker of rank 1's DataLoader makes no second rank
  dumps.back().parent = Pid{901};
  TellJobsApart(&dumps);
  EXPECT_EQ(dumps.front().job, "localhost:29500 of PID 1");
  const auto missing = FindMissingRanks(dumps, FoldDumps(dumps));
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].waiting, ElementsAre(0, 1, 2, 4, 7));
  std::vector<RankDump> one_job = HangingJob();
  one_job.push_back(Rank(1, "", 99, 950));
  one_job.back().parent = Pid{101};
  TellJobsApart(&one_job);
  EXPECT_EQ(one_job.front().job, "localhost:29500");
}

TEST(DumpGroupsTest, TheCallOfTheJobIsNamedAndNotWhatTorchMakesOfIt) {
  DumpedStack stack;
  const std::string c10d = std::string(kTorch) + "distributed_c10d.py";
  const std::string logger = std::string(kTorch) + "c10d_logger.py";
  stack.frames = {Frame(c10d, "all_gather", 1), Frame(logger, "wrapper", 2),
                  Frame(c10d, "all_gather_object", 3), Frame(logger, "wrapper", 4),
                  Frame("/job/train.py", "share", 5)};
  EXPECT_EQ(CollectiveOfStack(stack), (EnteredCollective{"all_gather_object", "/job/train.py", 5}));
  stack.frames = {Frame("/job/train.py", "share", 5)};
  EXPECT_FALSE(CollectiveOfStack(stack).has_value());
  stack.frames = {Frame(c10d, "barrier", 1)};  // further out nothing could be read
  EXPECT_EQ(CollectiveOfStack(stack), (EnteredCollective{"barrier", "", std::nullopt}));
}

TEST(DumpGroupsTest, GroupsWhoseMembersHaveBegunUnequallyManyCollectives) {
  std::vector<RankDump> dumps;
  for (int rank = 0; rank < 4; ++rank) {
    dumps.push_back(Rank(rank, "all_reduce"));
    const ProcessGroup world{"0", "default_pg", "gloo", rank, 4};
    dumps.back().begun.push_back({world, rank == 2 ? 11u : 12u});
    // Two groups of one name: each has done the same in all its members.
    ProcessGroup row{"1", "rows", "gloo", rank % 2, 2};
    row.ranks = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    dumps.back().begun.push_back({row, rank < 2 ? 5u : 6u});
  }
  const std::vector<UnevenGroup> uneven = FindUnevenGroups(dumps);
  ASSERT_EQ(uneven.size(), 1u);
  EXPECT_EQ(uneven[0].group.name, "0");
  ASSERT_EQ(uneven[0].ranks.size(), 2u);
  EXPECT_EQ(uneven[0].ranks[0].first, 11u);
  EXPECT_THAT(uneven[0].ranks[0].second, ElementsAre(2));
  EXPECT_THAT(uneven[0].ranks[1].second, ElementsAre(0, 1, 3));
}

TEST(DumpGroupsTest, RangesOfRanksAreShort) {
  EXPECT_EQ(RankRanges({}), "");
  EXPECT_EQ(RankRanges({4}), "4");
  EXPECT_EQ(RankRanges({0, 1, 2, 4, 7, 8}), "0-2, 4, 7, 8");
}

TEST(DumpBytesTest, ADumpComesBackWhole) {
  ProcessDump dump = Rank(3, "all_reduce").dump;
  dump.python_version = "3.11.2";
  dump.interpreters = 2;
  dump.stopped_ns = 1'500'000;
  dump.is_whole = false;
  dump.threads[0].file = "/a";
  dump.threads[0].stacks[0].thread_name = "MainThread";
  dump.threads[0].stacks[0].frames[0].line.reset();
  const std::string bytes = EncodeDump(dump);
  const auto read = DecodeDump(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(EncodeDump(*read), bytes);
  EXPECT_EQ(read->stopped_ns, 1'500'000);
  EXPECT_FALSE(read->threads[0].stacks[0].frames[0].line.has_value());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeDump(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(DecodeDump(bytes + "x"));
}

}  // namespace
}  // namespace proftrace
