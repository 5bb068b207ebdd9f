// The dumps of several hosts as one: what they must agree in, and what is told of their ranks.
#include "userspace/cli/dump_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "userspace/base/exit_status.h"
#include "userspace/cli/dump_document.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kWorld = 8;
constexpr char kJob[] = "node0:29500";

DumpHost HostOf(const std::string& name) {
  return {name, "boot of " + name, "pid:[1]", 10, 20, true};
}

// A rank of a job on two hosts of four; `line`: where it stands, 0 = in an all_reduce.
RankDump Rank(int rank, uint32_t pid, int32_t line = 0) {
  RankDump one;
  one.dump.pid = Pid{pid};
  one.dump.comm = "python";
  one.dump.python_version = "3.11.2";
  one.dump.interpreters = 1;
  one.dump.stopped_ns = 500'000;
  one.parent = Pid{1};
  one.rank = rank;
  one.world_size = kWorld;
  one.local_world_size = kWorld / 2;
  one.job = kJob;
  DumpedThread thread{pid, "python", ThreadState::kWaits, "futex", "", "", {}};
  DumpedStack stack;
  if (line == 0) {
    const std::string file = "/torch/distributed/distributed_c10d.py";
    stack.frames.push_back(DumpedFrame{file, "all_reduce", "all_reduce", 1, 2806});
  }
  stack.frames.push_back(DumpedFrame{"/job/train.py", "step", "Trainer.step", 9, line + 10});
  thread.stacks.push_back(std::move(stack));
  one.dump.threads.push_back(std::move(thread));
  ProcessGroup group{"0", "default_pg", "gloo", rank, kWorld, "", {0, 1, 2, 3, 4, 5, 6, 7}};
  one.begun.push_back({std::move(group), line == 0 ? 7u : 6u});
  return one;
}

// PIDs are the same on each host, as in containers.
JobDumps OfHost(const std::string& name, const std::vector<int>& ranks, int odd = -1) {
  JobDumps all;
  all.hosts.push_back(HostOf(name));
  for (const int rank : ranks) {
    all.dumps.push_back(Rank(rank, 47 + static_cast<uint32_t>(rank % 4), rank == odd ? 5 : 0));
  }
  return all;
}

std::vector<std::vector<int>> RanksOfGroups(const JobDumps& all) {
  std::vector<std::vector<int>> ranks;
  for (const DumpGroup& group : FoldDumps(all.dumps)) ranks.push_back(RanksIn(all.dumps, group));
  return ranks;
}

void ExpectRefused(const std::string& sentence,
                   std::vector<std::pair<std::string, JobDumps>> files) {
  const auto joined = JoinDumps(std::move(files));
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(ExitCodeOf(joined.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(std::string(joined.status().message()), HasSubstr(sentence));
}

TEST(DumpMergeTest, EqualStacksOfTwoHostsAreOneGroupAndTheOddOneIsFirst) {
  const auto joined =
      JoinDumps({{"b", OfHost("node1", {4, 5, 6, 7}, 6)}, {"a", OfHost("node0", {0, 1, 2, 3})}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(RanksOfGroups(*joined),
              ElementsAre(ElementsAre(6), ElementsAre(0, 1, 2, 3, 4, 5, 7)));
  const auto missing = FindMissingRanks(joined->dumps, FoldDumps(joined->dumps), joined->scope());
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].missing, ElementsAre(6));
  EXPECT_THAT(missing[0].absent, IsEmpty());
  EXPECT_THAT(missing[0].not_dumped, IsEmpty());
  const auto uneven = FindUnevenGroups(joined->dumps, joined->scope());
  ASSERT_EQ(uneven.size(), 1u);
  EXPECT_EQ(uneven[0].ranks.front(), (std::pair<uint64_t, std::vector<int>>(6, {6})));
}

TEST(DumpMergeTest, ARankWithoutAProcessIsToldFromOneWhoseHostWasNotDumped) {
  const auto gone =
      JoinDumps({{"a", OfHost("node0", {0, 1, 2, 3})}, {"b", OfHost("node1", {4, 6, 7})}});
  ASSERT_TRUE(gone.ok());
  auto missing = FindMissingRanks(gone->dumps, FoldDumps(gone->dumps), gone->scope());
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].absent, ElementsAre(5));
  const auto uneven = FindUnevenGroups(gone->dumps, gone->scope());
  ASSERT_EQ(uneven.size(), 1u);
  EXPECT_THAT(uneven[0].unseen, ElementsAre(5));

  JobDumps only_helpers = OfHost("node1", {4});
  only_helpers.dumps[0].rank.reset();
  const auto half = JoinDumps({{"a", OfHost("node0", {0, 1, 2, 3})}, {"b", only_helpers}});
  ASSERT_TRUE(half.ok());
  missing = FindMissingRanks(half->dumps, FoldDumps(half->dumps), half->scope());
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0].absent, IsEmpty());
  EXPECT_THAT(missing[0].not_dumped, ElementsAre(4, 5, 6, 7));
}

TEST(DumpMergeTest, WorkersOfEqualPidsOnOtherHostsAreTheirOwnParents) {
  JobDumps second = OfHost("node1", {4, 5, 6, 7});
  second.dumps.push_back(Rank(4, 500, 30));  // a worker of rank 4, whose PID is rank 0's on node0
  second.dumps.back().parent = Pid{47};
  const auto joined = JoinDumps({{"a", OfHost("node0", {0, 1, 2, 3})}, {"b", second}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(RanksOfGroups(*joined),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), ElementsAre(4)));
}

TEST(DumpMergeTest, RefusesWhatIsNotOfOneJob) {
  const JobDumps first = OfHost("node0", {0, 1, 2, 3});
  ExpectRefused("PID 47 of node0 is in a and in b", {{"a", first}, {"b", first}});
  ExpectRefused("rank 0 of the job \"node0:29500\" is in a and in b",
                {{"a", first}, {"b", OfHost("node1", {0})}});
  JobDumps other = OfHost("node1", {4, 5});
  for (RankDump& one : other.dumps) one.world_size = 6;
  ExpectRefused("a is of a job of 8 ranks, and b of one of 6", {{"b", other}, {"a", first}});
  for (RankDump& one : other.dumps) one.job = "node7:29500";
  ExpectRefused("a is of the job \"node0:29500\", and b of the job \"node7:29500\"",
                {{"a", first}, {"b", other}});
  for (RankDump& one : other.dumps) one.job.clear();
  ExpectRefused("a job without a name", {{"a", first}, {"b", other}});
}

TEST(DumpMergeTest, RandomPartsMakeTheSameDumpInAnyOrder) {
  std::mt19937 random(37);
  for (int round = 0; round < 200; ++round) {
    JobDumps whole;
    whole.hosts = {HostOf("node0"), HostOf("node1")};
    std::vector<std::pair<std::string, JobDumps>> parts;
    for (int part = 0; part < 4; ++part) {
      parts.emplace_back("part" + std::to_string(part), JobDumps());
      parts.back().second.hosts.push_back(whole.hosts[static_cast<size_t>(part) / 2]);
    }
    for (int rank = 0; rank < kWorld; ++rank) {
      RankDump one = Rank(rank, 100 + static_cast<uint32_t>(rank), static_cast<int>(random() % 3));
      const size_t host = rank < 4 ? 0 : 1;
      parts[host * 2 + random() % 2].second.dumps.push_back(one);
      one.host = static_cast<uint32_t>(host);
      whole.dumps.push_back(one);
    }
    std::shuffle(parts.begin(), parts.end(), random);
    // Also by way of a merge of some of them.
    auto two = JoinDumps({parts[0], parts[1]});
    ASSERT_TRUE(two.ok()) << two.status();
    const auto joined = JoinDumps({{"two", *two}, parts[2], parts[3]});
    ASSERT_TRUE(joined.ok()) << joined.status();
    ASSERT_EQ(JobJson(*joined), JobJson(whole));
    const auto again = ReadDumpDocument(JobJson(*joined).dump(), "again");
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(JobJson(*again), JobJson(whole));
  }
}

TEST(DumpDocumentTest, DamageIsASentence) {
  const std::string whole = JobJson(OfHost("node0", {0, 1})).dump();
  ASSERT_TRUE(IsDumpDocument("\n " + whole));
  EXPECT_FALSE(IsDumpDocument("{\"traceEvents\": []}"));
  EXPECT_TRUE(IsDumpDocument("{\"comm\" : \"a\\\"b\\\\\", \"dump\": {}}"));
  for (const char* other : {"{\"comm\"", "{\"comm\": \"\\", "{\"comm\": 3, \"dump\": 1}",
                            "{\"comm\": \"a\", \"pid\": 1}"}) {
    EXPECT_FALSE(IsDumpDocument(other)) << other;
  }
  EXPECT_FALSE(IsDumpDocument("{\"dumps\": 1}"));
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    const auto cut = ReadDumpDocument(whole.substr(0, bytes), "a.json");
    ASSERT_FALSE(cut.ok()) << bytes;
    ASSERT_EQ(ExitCodeOf(cut.status()), ExitCode::kInputDamaged);
  }
  const std::string deep = "{\"dump\": " + std::string(3'000'000, '[');
  for (const std::string& text : {deep, deep + std::string(3'000'000, ']') + "}"}) {
    EXPECT_EQ(ExitCodeOf(ReadDumpDocument(text, "a.json").status()), ExitCode::kInputDamaged);
  }
  // Each value of a process is replaced by one of another kind: it is read or refused, and shown.
  const nlohmann::json document = nlohmann::json::parse(whole);
  const std::vector<nlohmann::json> others = {nullptr,          -1, 1e300, "x", {1, 2}, {{"a", 1}},
                                              uint64_t{1} << 63};
  int refused = 0;
  for (const nlohmann::json& other : others) {
    for (const auto& [key, value] : document["processes"][0].items()) {
      nlohmann::json changed = document;
      changed["processes"][0][key] = other;
      const auto read = ReadDumpDocument(changed.dump(), "a.json");
      refused += read.ok() ? 0 : 1;
      if (read.ok()) EXPECT_FALSE(JobJson(*read).dump().empty());
    }
    nlohmann::json changed = document;
    changed["dump"] = other;
    EXPECT_FALSE(ReadDumpDocument(changed.dump(), "a.json").ok());
  }
  EXPECT_GT(refused, 50);
  nlohmann::json later = document;
  later["dump"]["schema_version"] = 2;
  EXPECT_THAT(std::string(ReadDumpDocument(later.dump(), "a.json").status().message()),
              HasSubstr("version 2"));
  later["dump"]["schema_version"] = 1;
  later["processes"][1]["host"] = 1;
  EXPECT_THAT(std::string(ReadDumpDocument(later.dump(), "a.json").status().message()),
              HasSubstr("its process 2"));
}

}  // namespace
}  // namespace proftrace
