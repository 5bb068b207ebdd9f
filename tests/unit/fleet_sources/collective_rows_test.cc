// Collectives from the rows of traces, as torch of each age and backend writes them.
#include "userspace/collectives/collective_rows.h"

#include <gmock/gmock.h>

#include "userspace/collectives/json_text.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

// Rows of one process; times in nanoseconds.
class Rows {
 public:
  Rows& Add(const std::string& name, const std::string& category, int64_t begin_ns,
            int64_t duration_ns, const std::string& args = "{}", int64_t tid = 1) {
    SourceEvent event;
    event.name = name;
    event.category = category;
    event.begin_ns = begin_ns;
    event.duration_ns = duration_ns;
    event.tid = tid;
    event.args = args;
    rows_.Take(event);
    return *this;
  }
  Rows& Kernel(int64_t begin_ns, const std::string& facts) {
    return Add("ncclDevKernel_x", "kernel", begin_ns, 10, "{" + facts + "}");
  }
  Rows& Loss(int64_t after_ns, int64_t until_ns) {
    rows_.NoteLoss(after_ns, until_ns);
    return *this;
  }
  SourceFacts Finish(const std::string& info, int64_t base_ns = 0) {
    SourceFacts facts;
    const JobFacts job = ReadDistributedInfo(info);
    facts.rank = job.rank;
    rows_.Finish(job, base_ns, &facts);
    return facts;
  }

 private:
  CollectiveRows rows_;
};

std::string Facts(const std::string& name, const std::string& group, const std::string& ranks,
                  int size, const std::string& more = "") {
  return "\"Collective name\": \"" + name + "\", \"In msg nelems\": 4, \"Out msg nelems\": 4, " +
         "\"Group size\": " + std::to_string(size) +
         ", \"dtype\": \"BFloat16\", \"Process Group Name\": \"" + group +
         "\", \"Process Group Ranks\": \"" + ranks + "\"" + more;
}

std::string Text(const SourceCall& call) {
  std::string text = call.op + " " + std::to_string(static_cast<int>(call.call.kind)) + " group " +
                     std::to_string(call.call.group) + " " + std::to_string(call.call.entered_ns) +
                     ".." + std::to_string(call.call.left_ns);
  if (call.call.sequence) text += " seq " + std::to_string(*call.call.sequence);
  if (call.call.root >= 0) text += " root " + std::to_string(call.call.root);
  if (call.call.source >= 0) text += " from " + std::to_string(call.call.source);
  if (call.call.destination >= 0) text += " to " + std::to_string(call.call.destination);
  return text;
}

std::vector<std::string> Calls(const SourceFacts& facts) {
  std::vector<std::string> texts;
  for (const SourceCall& call : facts.calls) texts.push_back(Text(call));
  return texts;
}

TEST(CollectiveRowsTest, GroupsAreKeyedByNameAndRanks) {
  Rows rows;
  rows.Kernel(50, Facts("allreduce", "tp", "[2, 3]", 2, ", \"Seq\": 8, \"Rank\": 1"))
      .Kernel(20, Facts("_allgather_base", "tp", "[2, 3]", 2, ", \"Seq\": 7, \"Rank\": 1"))
      .Kernel(30, Facts("allreduce", "tp", "[1, 3]", 2, ", \"Seq\": 7, \"Rank\": 1"))
      .Kernel(40, Facts("allreduce", "0", "[0, 1, 2, 3]", 4, ", \"Rank\": 3"));
  const SourceFacts facts = rows.Finish("{}", 1000);
  ASSERT_EQ(facts.groups.size(), 3U);
  EXPECT_EQ(facts.groups[0].name, "tp");
  EXPECT_THAT(facts.groups[0].ranks, ElementsAre(2, 3));
  EXPECT_THAT(facts.groups[1].ranks, ElementsAre(1, 3));
  EXPECT_THAT(Calls(facts), ElementsAre("allgather/BFloat16 0 group 0 1020..1030 seq 7",
                                        "allreduce/BFloat16 0 group 0 1050..1060 seq 8",
                                        "allreduce/BFloat16 0 group 1 1030..1040 seq 7",
                                        "allreduce/BFloat16 0 group 2 1040..1050"));
  EXPECT_EQ(facts.calls[0].call.bytes, 8);
  EXPECT_THAT(facts.rank, Optional(3));  // the last member in all of them
}

// What captures have of gloo (decision 137): several groups, whatever thread worked for them.
TEST(CollectiveRowsTest, WorksOfGlooAreKeyedByWhatTheirGroupsSay) {
  const auto args = [](const char* group, const char* ranks, int number) {
    return "{\"Seq\": " + std::to_string(number) +
           ", \"Is P2P\": false, \"Process Group Name\": \"" + group +
           "\", \"Group size\": 2, \"Process Group Ranks\": \"" + ranks +
           "\", \"Input type\": [\"float\"], \"Input Dims\": [[8]]}";
  };
  Rows rows;
  rows.Add("gloo:all_reduce", "user_annotation", 10, 5, args("3", "[0, 2]", 7), 11)
      .Add("gloo:all_reduce", "user_annotation", 20, 5, args("4", "[0, 1]", 7), 11)
      .Add("gloo:broadcast", "user_annotation", 30, 5, args("3", "[0, 2]", 8), 12);
  const SourceFacts facts = rows.Finish(R"({"rank": 0, "world_size": 3})");
  EXPECT_THAT(Calls(facts), ElementsAre("allreduce/Float 0 group 0 10..15 seq 7",
                                        "broadcast/Float 5 group 0 30..35 seq 8",
                                        "allreduce/Float 0 group 1 20..25 seq 7"));
  EXPECT_THAT(facts.groups[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(facts.groups[1].ranks, ElementsAre(0, 1));
  EXPECT_EQ(facts.calls[0].call.bytes, 32);
  EXPECT_THAT(facts.remarks, IsEmpty());
}

TEST(CollectiveRowsTest, AfterALossASequenceOfEachGroupBeginsAnew) {
  Rows rows;
  for (int i = 0; i < 6; ++i) rows.Kernel(100 * i, Facts("allreduce", "0", "[0, 1]", 2));
  for (int i = 0; i < 3; ++i) rows.Kernel(200 * i + 50, Facts("allreduce", "1", "[0, 1]", 2));
  rows.Loss(250, 310).Loss(900, 950);
  const SourceFacts facts = rows.Finish("{}", 1000);
  std::vector<int> marked;
  for (const SourceCall& call : facts.calls) marked.push_back(call.call.is_after_loss);
  // 0 100 200 | 300 in it | 400 after it: only what lies in between and the first one behind.
  EXPECT_THAT(marked, ElementsAre(0, 0, 0, 1, 1, 0, 0, 0, 1));
}

TEST(CollectiveRowsTest, RootsAndPeersAreRanksOfTheJob) {
  Rows rows;
  rows.Kernel(10, Facts("broadcast", "dp", "[4, 6]", 2, ", \"Rank\": 1"))
      .Kernel(20, Facts("reduce", "dp", "[4, 6]", 2, ", \"Rank\": 0"))
      .Kernel(30, Facts("send", "dp", "[4, 6]", 2, ", \"Rank\": 1, \"Dst Rank\": 6, \"Seq\": 3"))
      .Kernel(40, Facts("recv", "dp", "[4, 6]", 2, ", \"Rank\": 1, \"Src Rank\": 6"))
      .Kernel(50, Facts("broadcast", "dp", "[4, 6]", 2));
  EXPECT_THAT(Calls(rows.Finish(R"({"rank": 4})")),
              ElementsAre("broadcast/BFloat16 1 group 0 10..20 root 6",
                          "reduce/BFloat16 2 group 0 20..30 root 4",
                          "send/BFloat16 3 group 0 30..40 from 4 to 6",
                          "recv/BFloat16 4 group 0 40..50 from 6 to 4",
                          "broadcast/BFloat16 5 group 0 50..60"));
}

TEST(CollectiveRowsTest, WhatBindsNothingIsListedAndAGroupOfOneIsNot) {
  Rows rows;
  rows.Kernel(10, Facts("all_to_allv", "0", "[0, 1]", 2, ", \"In split size\": \"[0, 4]\""))
      .Kernel(20,
              "\"Collective name\": \"allreduce\", \"In msg nelems\": 0, \"Out msg nelems\": "
              "0, \"Group size\": 2, \"Process Group Name\": \"0\", \"Process Group Ranks\": "
              "\"[0, 1]\"")
      .Kernel(30, Facts("allreduce", "self", "[0]", 1));
  EXPECT_THAT(Calls(rows.Finish("{}")),
              ElementsAre("all_to_all/BFloat16 5 group 0 10..20", "allreduce/ 5 group 0 20..30"));
  Rows host;  // without kernels
  host.Add("record_param_comms", "cpu_op", 10, 5, "{" + Facts("allreduce", "0", "[0, 1]", 2) + "}");
  EXPECT_THAT(Calls(host.Finish("{}")), ElementsAre("allreduce/BFloat16 5 group 0 10..15"));
}

TEST(CollectiveRowsTest, KernelsGetTheirFactsFromTheRowThatLaunchedThem) {
  Rows rows;
  rows.Add("ncclKernel_AllReduce_RING_LL_Sum_float(x)", "kernel", 50, 10, "{\"External id\": 7}")
      .Add("gemm", "kernel", 60, 10, "{\"External id\": 7}")
      .Add("record_param_comms", "cpu_op", 10, 5,
           "{\"External id\": 7, " + Facts("allreduce", "0", "[0, 1]", 2) + "}")
      .Add("ncclKernel_Broadcast", "kernel", 70, 10, "{\"External id\": 8}");
  const SourceFacts facts = rows.Finish("{}");
  EXPECT_THAT(Calls(facts), ElementsAre("allreduce/BFloat16 0 group 0 50..60"));
  EXPECT_THAT(facts.remarks, ElementsAre(HasSubstr("1 collective does not tell the ranks")));
}

TEST(CollectiveRowsTest, SeveralKernelsOfOneNumberAreOneCollective) {
  Rows rows;
  for (const int begin : {10, 25, 50}) {
    const std::string number = begin == 50 ? ", \"Seq\": 2" : ", \"Seq\": 1";
    rows.Kernel(begin, Facts("allreduce", "0", "[0, 1]", 2, number));
  }
  EXPECT_THAT(Calls(rows.Finish("{}")), ElementsAre("allreduce/BFloat16 0 group 0 10..35 seq 1",
                                                    "allreduce/BFloat16 0 group 0 50..60 seq 2"));
}

TEST(CollectiveRowsTest, RanksThatTorchCutOffComeFromTheHead) {
  std::string cut = "[";
  std::string whole = "[";
  for (int rank = 0; rank < 40; ++rank) {
    if (rank < 29) cut += std::to_string(2 * rank) + ", ";
    whole += (rank == 0 ? "" : ", ") + std::to_string(2 * rank);
  }
  cut += "..., 78]";
  Rows rows;
  rows.Kernel(10, Facts("allreduce", "dp", cut, 40)).Kernel(20, Facts("allreduce", "x", cut, 40));
  const SourceFacts facts =
      rows.Finish(R"({"world_size": 80, "pg_config": [{"pg_name": "dp", "pg_size": 40, "ranks": )" +
                  whole + "]}]}");
  ASSERT_EQ(facts.groups.size(), 1U);
  EXPECT_EQ(facts.groups[0].ranks.size(), 40U);
  EXPECT_EQ(facts.groups[0].ranks[39], 78);
  EXPECT_EQ(facts.calls.size(), 1U);
  EXPECT_THAT(facts.remarks, ElementsAre(HasSubstr("1 collective")));
}

std::string Groups(const std::string& first, const std::string& second) {
  return R"({"rank": 0, "world_size": 2, "pg_count": 2, "pg_config": [{"pg_name": "0", )"
         R"("backend_config": "cpu:gloo", "pg_size": 2, "ranks": )" +
         first + R"(}, {"pg_name": "1", "backend_config": "cpu:gloo", "pg_size": 2, "ranks": )" +
         second + "}]}";
}

TEST(CollectiveRowsTest, WorksOfGlooAreTheirGroupsByTheirThreads) {
  const std::string one = R"({"rank": 0, "world_size": 2})";
  const std::string dims = R"({"Input type": ["float"], "Input Dims": [[5, 2]]})";
  Rows single;
  single.Add("gloo:all_reduce", "user_annotation", 10, 5, dims, 101);
  const SourceFacts facts = single.Finish(one);
  EXPECT_THAT(Calls(facts), ElementsAre("allreduce/Float 0 group 0 10..15"));
  EXPECT_EQ(facts.calls[0].call.bytes, 40);
  EXPECT_THAT(facts.groups[0].ranks, ElementsAre(0, 1));

  // A tensor without dimensions has one element.
  Rows scalar;
  scalar.Add("gloo:all_reduce", "user_annotation", 10, 5,
             R"({"Input Dims": [[]], "Input type": ["double"]})", 101);
  EXPECT_EQ(scalar.Finish(one).calls[0].in_bytes, 8);

  Rows two;
  for (const int64_t tid : {101, 104, 107, 110}) {
    two.Add("gloo:all_reduce", "user_annotation", tid, 5, dims, tid);
  }
  const SourceFacts of_two = two.Finish(Groups("[0, 1]", "[0, 1]"));
  EXPECT_THAT(
      Calls(of_two),
      ElementsAre("allreduce/Float 0 group 0 101..106", "allreduce/Float 0 group 0 104..109",
                  "allreduce/Float 0 group 1 107..112", "allreduce/Float 0 group 1 110..115"));
  EXPECT_EQ(of_two.groups[1].name, "1");

  // Nobody knows which groups three threads belong to.
  Rows three;
  for (const int64_t tid : {101, 104, 107}) {
    three.Add("gloo:all_reduce", "user_annotation", tid, 5, dims, tid);
  }
  const SourceFacts of_three = three.Finish(Groups("[0, 1]", "[0, 1]"));
  EXPECT_THAT(of_three.calls, IsEmpty());
  EXPECT_THAT(of_three.remarks, ElementsAre(HasSubstr("3 rows of gloo do not tell")));
}

TEST(CollectiveRowsTest, WorksOfGlooGetRootAndPeerFromTheCalls) {
  const auto call = [](const std::string& inputs) {
    return R"({"Concrete Inputs": )" + inputs + "}";
  };
  Rows rows;
  rows.Add("c10d::broadcast_", "cpu_op", 10, 1, call(R"(["", "", "1", "0", "False", "-1"])"))
      .Add("gloo:broadcast", "user_annotation", 12, 5)
      .Add("c10d::broadcast_", "cpu_op", 30, 1, call(R"(["", "", "0", "0", "False", "-1"])"))
      .Add("gloo:broadcast", "user_annotation", 32, 5)
      .Add("c10d::reduce_", "cpu_op", 40, 1, call(R"(["", "", "", "1", "0", "-1"])"))
      .Add("gloo:reduce", "user_annotation", 42, 5)
      .Add("c10d::send", "cpu_op", 50, 1, call(R"(["", "", "1", "0"])"))
      .Add("gloo:send", "user_annotation", 51, 5);
  EXPECT_THAT(
      Calls(rows.Finish(R"({"rank": 0, "world_size": 2})")),
      ElementsAre("broadcast/ 1 group 0 12..17 root 1", "broadcast/ 1 group 0 32..37 root 0",
                  "reduce/ 2 group 0 42..47 root 1", "send/ 3 group 0 51..56 from 0 to 1"));
}

TEST(CollectiveRowsTest, AWorkMayBeAPairOfAsynchronousEvents) {
  CollectiveRows rows;
  SourceEvent event;
  event.name = "gloo:barrier";
  event.phase = 'b';
  event.id = SourceId(int64_t{4});
  event.begin_ns = 10;
  rows.Take(event);
  event.phase = 'e';
  event.begin_ns = 25;
  rows.Take(event);
  SourceFacts facts;
  rows.Finish(ReadDistributedInfo(R"({"world_size": 2})"), 0, &facts);
  EXPECT_THAT(Calls(facts), ElementsAre("barrier/ 0 group 0 10..25"));
}

}  // namespace
}  // namespace proftrace
