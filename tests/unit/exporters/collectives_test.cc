// The args of NCCL's kernels, from made-up rows of record_param_comms.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "exporters/args/collective_args.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/collectives.h"

namespace proftrace {
namespace {

constexpr uint32_t kPid = 7;

class CollectiveTest : public testing::Test {
 protected:
  // What comes of a kernel that is launched in the row, below the operator `op`.
  std::optional<Collective> Made(
      const std::string& op, const OperatorInputs& inputs,
      const std::string& kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
      const std::string& row_name = "record_param_comms") {
    TimelineMaker maker;
    const ThreadIndex thread = maker.AddThread(kPid, kPid, "python");
    const SpanId around = maker.Begin(thread, maker.AddOperator(op), 0);
    if (of_operator_.has_value()) EXPECT_TRUE(maker.SetInputs(around, *of_operator_).ok());
    const SpanId row = maker.Begin(thread, maker.AddOperator(row_name), 10);
    EXPECT_TRUE(maker.SetInputs(row, inputs).ok());
    maker.End(thread, 20);
    maker.End(thread, 30);
    Target target;
    target.pid = Pid{kPid};
    target.process_groups = groups_;
    maker.info().targets = {target};
    const std::unique_ptr<Timeline> timeline = maker.Finish();
    return CollectiveOf(*timeline, row, kernel);
  }
  // As torch 2.8 gives them: the tensors, then number, group, rank, name (the texts and the tuple
  // are not shown), splits, the first rank, the stride and the size of the group.
  static OperatorInputs Inputs(const std::string& shape, const std::string& type,
                               const std::string& in_split = "[]",
                               const std::string& out_split = "[]",
                               const std::string& series = R"("4", "2", "8")") {
    OperatorInputs inputs;
    inputs.dims = "[" + shape + ", [], [], [], [], [], [], [], [], []]";
    inputs.types =
        "[\"" + type +
        R"(", "Scalar", "", "Scalar", "", "ScalarList", "ScalarList", "Scalar", "Scalar", "Scalar"])";
    inputs.concrete =
        R"(["", "3", "", "1", "", ")" + in_split + "\", \"" + out_split + "\", " + series + "]";
    return inputs;
  }

  std::optional<OperatorInputs> of_operator_;
  std::vector<ProcessGroup> groups_ = {{"0", "default_pg", "nccl", 6, 16},
                                       {"3", "rows", "nccl", 1, 8}};
};

TEST_F(CollectiveTest, AllReduceOfAListOfTensors) {
  const auto made = Made("c10d::allreduce_", Inputs("[[4, 5], [10]]", "TensorList"));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->name, "allreduce");
  EXPECT_EQ(made->type, "Float");
  EXPECT_EQ(made->in_elements, 30);
  EXPECT_EQ(made->out_elements, 30);
  EXPECT_EQ(made->group_size, 8);
  EXPECT_EQ(made->rank, 1);
  EXPECT_EQ(made->in_split, "[]");
  EXPECT_EQ(made->out_split, "[]");
  EXPECT_EQ(made->group, "3");
  EXPECT_EQ(made->group_description, "rows");
  EXPECT_EQ(made->ranks, "[4, 6, 8, 10, 12, 14, 16, 18]");
}

TEST_F(CollectiveTest, OutputsFollowFromTheKind) {
  const OperatorInputs inputs = Inputs("[16, 4]", "c10::BFloat16");
  const auto gathered = Made("c10d::_allgather_base_", inputs, "ncclDevKernel_AllGather_RING_LL");
  ASSERT_TRUE(gathered.has_value());
  EXPECT_EQ(gathered->name, "_allgather_base");
  EXPECT_EQ(gathered->type, "BFloat16");
  EXPECT_EQ(gathered->in_elements, 64);
  EXPECT_EQ(gathered->out_elements, 512);
  const auto scattered = Made("_c10d_functional::reduce_scatter_tensor", inputs);
  ASSERT_TRUE(scattered.has_value());
  EXPECT_EQ(scattered->name, "_reduce_scatter_base");
  EXPECT_EQ(scattered->type, "BFloat16");  // the tensor's own, whatever the kernel is called
  EXPECT_EQ(scattered->out_elements, 8);
}

// What torch 2.11 has of the operators (dist.gather and its like): lists of lists have no shapes.
TEST_F(CollectiveTest, ListsOfListsFollowFromTheOperator) {
  const std::string send_receive = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
  const auto check = [&](const char* op, const OperatorInputs& row, const char* name, int64_t in,
                         int64_t out) {
    const auto made = Made(op, row, send_receive);
    ASSERT_TRUE(made.has_value()) << op;
    EXPECT_EQ(made->name, name);
    EXPECT_EQ(made->type, "BFloat16") << op;
    EXPECT_EQ(made->in_elements, in) << op;
    EXPECT_EQ(made->out_elements, out) << op;
    EXPECT_EQ(made->group, "3") << op;
  };
  of_operator_.emplace();
  of_operator_->list_type = "c10::BFloat16";
  of_operator_->dims = "[[], [[4, 3]], [], [], [], []]";
  check("c10d::gather_", Inputs("[[4, 3]]", "TensorList"), "gather", 12, 96);
  of_operator_->dims = "[[[4, 3]], [], [], [], [], []]";
  check("c10d::scatter_", Inputs("[]", ""), "scatter", 96, 12);
  check("c10d::scatter_", Inputs("[]", "", "[]", "[]", R"("8")"), "scatter", 12, 96);  // 2.1, 2.2
  check("c10d::reduce_scatter_", Inputs("[]", ""), "reduce_scatter", 96, 12);
  of_operator_->dims = "[[[2], [5]], [[1], [9]], [], [], []]";
  check("c10d::alltoall_", Inputs("[[1], [9]]", "TensorList", "[1, 9]", "[2, 5]"), "all_to_all", 10,
        7);
  of_operator_.reset();
  EXPECT_FALSE(Made("c10d::scatter_", Inputs("[]", "float")).has_value());
}

TEST_F(CollectiveTest, ARootsRankIsNotTakenForTheOwn) {
  const auto made = Made("c10d::broadcast_", Inputs("[[1]]", "TensorList"));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->group, "3");
  groups_.push_back(
      {"5", "columns", "nccl", 6, 8});  // the root's rank, 1, is not the own one there
  const auto unclear = Made("c10d::broadcast_", Inputs("[[1]]", "TensorList"));
  ASSERT_TRUE(unclear.has_value());
  EXPECT_EQ(unclear->group, "");
}

TEST_F(CollectiveTest, UnequalParts) {
  const auto made = Made("c10d::alltoall_base_", Inputs("[10, 4]", "float", "[1, 9]", "[2, 5]"));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->name, "all_to_allv");
  EXPECT_EQ(made->in_elements, 40);
  EXPECT_EQ(made->out_elements, 28);
  EXPECT_EQ(made->in_split, "[1, 9]");
  EXPECT_EQ(made->out_split, "[2, 5]");
}

TEST_F(CollectiveTest, TheSizeAloneInOlderVersions) {
  OperatorInputs inputs = Inputs("[[6]]", "TensorList", "[]", "[]", "\"8\"");
  const auto made = Made("c10d::broadcast_", inputs, "ncclKernel_Broadcast_RING_LL_Sum_int8_t_i8_");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->group_size, 8);
  EXPECT_EQ(made->ranks, "");
  EXPECT_EQ(made->group, "3");
}

TEST_F(CollectiveTest, LongListsAreCut) {
  groups_.clear();
  const auto made =
      Made("c10d::allreduce_", Inputs("[[1]]", "TensorList", "[]", "[]", R"("0", "1", "64")"));
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(made->ranks.starts_with("[0, 1, 2, ")) << made->ranks;
  EXPECT_TRUE(made->ranks.ends_with(", 28, 29, ...]")) << made->ranks;
  EXPECT_EQ(made->group, "");
}

TEST_F(CollectiveTest, TwoGroupsThatFitAreNotTakenForOneAnother) {
  groups_.push_back({"5", "columns", "nccl", 1, 8});
  const auto made = Made("c10d::allreduce_", Inputs("[[1]]", "TensorList"));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->group, "");
  EXPECT_EQ(made->ranks, "[4, 6, 8, 10, 12, 14, 16, 18]");
}

TEST_F(CollectiveTest, NothingWhereAFactIsMissing) {
  const OperatorInputs good = Inputs("[[1]]", "TensorList");
  EXPECT_TRUE(Made("c10d::allreduce_", good).has_value());
  EXPECT_FALSE(Made("c10d::allreduce_", good, "ncclDevKernel_Generic_1").has_value());  // of what?
  EXPECT_FALSE(Made("c10d::barrier", good).has_value());
  EXPECT_FALSE(
      Made("c10d::allreduce_", good, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "aten::mul")
          .has_value());
  EXPECT_FALSE(Made("c10d::allreduce_", OperatorInputs()).has_value());
  for (const char* wrong : {"[[-1]]", "[]", "[\"?\"]", "7", "[[9223372036854775807, 2]]"}) {
    EXPECT_FALSE(Made("c10d::allreduce_", Inputs(wrong, "TensorList")).has_value()) << wrong;
  }
  for (const char* series : {R"("0", "1", "0")", R"("0", "1", "")", R"("0", "1", "x")"}) {
    EXPECT_FALSE(
        Made("c10d::allreduce_", Inputs("[[1]]", "TensorList", "[]", "[]", series)).has_value())
        << series;
  }
}

// What the row itself says.
class NamedCollectiveTest : public CollectiveTest {
 protected:
  static OperatorInputs Named(OperatorInputs inputs, const std::string& name,
                              const std::string& group, const std::string& description,
                              int64_t sequence, bool is_p2p = false) {
    inputs.keywords = {{"Seq", sequence},
                       {"Is P2P", is_p2p},
                       {"Process Group Name", group},
                       {"Process Group Description", description},
                       {"Collective name", name}};
    return inputs;
  }
};

TEST_F(NamedCollectiveTest, TheRowsOwnWordsComeBeforeWhatFits) {
  groups_.push_back({"5", "columns", "nccl", 1, 8});  // fits as well
  const OperatorInputs inputs =
      Named(Inputs("[[4, 5]]", "TensorList"), "allreduce", "5", "columns", 17);
  const auto made = Made("aten::add", inputs);  // the operator around does not matter
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->name, "allreduce");
  EXPECT_EQ(made->in_elements, 20);
  EXPECT_EQ(made->sequence, 17);
  EXPECT_EQ(made->is_p2p, false);
  EXPECT_EQ(made->group, "5");
  EXPECT_EQ(made->group_description, "columns");
}

TEST_F(NamedCollectiveTest, MembersOfAnIrregularGroupAreThoseOfTheProcess) {
  ProcessGroup group{"9", "odd", "nccl", 1, 3};
  group.ranks = {0, 3, 4};
  groups_.push_back(group);
  const OperatorInputs send = Named(Inputs("[6]", "float", "[]", "[]", R"("-1", "0", "3")"), "send",
                                    "9", "odd", 4, /*is_p2p=*/true);
  const auto made = Made("c10d::send", send);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->ranks, "[0, 3, 4]");
  EXPECT_EQ(made->destination, 3);  // by the peer's rank in the group, 1
  EXPECT_EQ(made->source, std::nullopt);
  EXPECT_EQ(made->is_p2p, true);
  const OperatorInputs receive = Named(Inputs("[6]", "float", "[]", "[]", R"("-1", "0", "3")"),
                                       "recv", "9", "odd", 5, /*is_p2p=*/true);
  EXPECT_EQ(Made("c10d::recv_", receive)->source, 3);
}

TEST_F(NamedCollectiveTest, RowsWithoutTensorsAndOfOlderVersions) {
  OperatorInputs barrier;
  barrier.dims = "[[], [], [], [], [], [], [], [], []]";
  barrier.types =
      R"(["", "", "Scalar", "", "ScalarList", "ScalarList", "Scalar", "Scalar", "Scalar"])";
  barrier.concrete = R"(["", "", "1", "", "[]", "[]", "0", "1", "4"])";
  const auto made = Made("aten::add", Named(barrier, "barrier", "0", "default_pg", 3), "");
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->in_elements, 0);
  EXPECT_EQ(made->out_elements, 0);
  EXPECT_EQ(made->type, "Byte");
  EXPECT_EQ(made->rank, 1);
  EXPECT_EQ(made->ranks, "[0, 1, 2, 3]");
  // 1.13: tensors, number, rank, collective, splits. What it does not say is not there.
  OperatorInputs old;
  old.dims = "[[], [], [], [], [], []]";
  old.types = R"(["TensorList", "Scalar", "Scalar", "", "", ""])";
  old.concrete = R"(["", "8", "1", "", "[]", "[]"])";
  old.keywords = {{"Seq", int64_t{8}}, {"Collective name", std::string("reduce_scatter")}};
  EXPECT_FALSE(Made("c10d::reduce_scatter_", old).has_value());  // its group's size is not known
}

// A work of gloo, executed by a thread of its own, and the operator of c10d that made it.
class WorkTest : public testing::Test {
 protected:
  WorkFacts Made(const std::string& title, const std::string& dims, const std::string& op,
                 const std::string& op_dims, const std::string& op_types,
                 const std::string& concrete) {
    TimelineMaker maker;
    const ThreadIndex thread = maker.AddThread(kPid, kPid, "python");
    const SpanId call = maker.Begin(thread, maker.AddOperator(op), 0);
    OperatorInputs of_call;
    of_call.dims = op_dims;
    of_call.types = op_types;
    of_call.concrete = concrete;
    of_call.list_type = "short";
    EXPECT_TRUE(maker.SetInputs(call, of_call).ok());
    const SpanId row = maker.Begin(thread, maker.AddOperator(title), 10);
    OperatorInputs inputs;
    inputs.dims = dims;
    inputs.types = dims.empty() ? "" : R"(["c10::BFloat16", "c10::BFloat16"])";
    inputs.keywords = {{"Process Group Name", "3"}, {"Group size", int64_t{3}}};
    EXPECT_TRUE(maker.SetInputs(row, inputs).ok());
    maker.End(thread, 20);
    maker.End(thread, 30);
    Target target;
    target.pid = Pid{kPid};
    target.process_groups = {{"3", "rows", "gloo", own_rank_, 3, "", {4, 6, 9}}};
    maker.info().targets = {target};
    return FactsOfWork(*maker.Finish(), row);
  }
  static std::string Text(const WorkFacts& facts) {
    const auto text = [](const std::optional<int64_t>& value) {
      return value ? std::to_string(*value) : std::string("-");
    };
    return facts.type + " " + text(facts.in_elements) + ">" + text(facts.out_elements) + " rank " +
           text(facts.rank) + " from " + text(facts.source) + " to " + text(facts.destination);
  }

  int own_rank_ = 1;
};

// The args are members of an object, whether the row has keywords or not.
TEST(WorkArgsTest, AreMembersWithKeywordsAndWithout) {
  for (const bool has_keywords : {true, false}) {
    TimelineMaker maker;
    const ThreadIndex thread = maker.AddThread(kPid, kPid, "python");
    const SpanId row = maker.Begin(thread, maker.AddOperator("gloo:all_reduce"), 10);
    OperatorInputs inputs;
    inputs.dims = "[[4, 5]]";
    inputs.types = R"(["float"])";
    if (has_keywords) inputs.keywords = {{"Group size", int64_t{3}}};
    EXPECT_TRUE(maker.SetInputs(row, inputs).ok());
    maker.End(thread, 20);
    const auto args = nlohmann::json::parse(
        "{" + RowKeywordArgs(*maker.Finish(), row, inputs) + "}", nullptr, false);
    ASSERT_TRUE(args.is_object());
    EXPECT_EQ(args.contains("Group size"), has_keywords);
    EXPECT_EQ(args["In msg nelems"], 20);
  }
}

TEST_F(WorkTest, ElementsAndRootsFollowFromTheOperator) {
  const std::string list = R"(["TensorList", "", "", "Scalar"])";
  EXPECT_EQ(Text(Made("gloo:all_reduce", "[[4, 5]]", "c10d::allreduce_", "[[[4, 5]]]", list, "[]")),
            "BFloat16 20>20 rank - from - to -");
  // A tensor without dimensions has one element.
  EXPECT_EQ(Text(Made("gloo:all_reduce", "[[]]", "c10d::allreduce_", "[[[]]]", list, "[]")),
            "BFloat16 1>1 rank - from - to -");
  EXPECT_EQ(Text(Made("gloo:broadcast", "[[2], [3]]", "c10d::broadcast_", "[[[2], [3]]]", list,
                      R"(["", "", "2"])")),
            "BFloat16 5>5 rank 2 from - to -");
  EXPECT_EQ(Text(Made("gloo:all_gather", "[[5]]", "c10d::_allgather_base_", "[[15], [5]]",
                      R"(["float", "float"])", "[]")),
            "BFloat16 5>15 rank - from - to -");
  EXPECT_EQ(Text(Made("gloo:all_to_all", "[[7]]", "c10d::alltoall_base_", "[[9], [7]]",
                      R"(["float", "float"])", "[]")),
            "BFloat16 7>9 rank - from - to -");
}

TEST_F(WorkTest, OnlyTheRootOfAGatherGetsAndOnlyTheRootOfAScatterGives) {
  const auto gathered = [this] {
    return Text(Made("gloo:gather", "[[4]]", "c10d::gather_", "[[], [[4]]]",
                     R"(["", "TensorList"])", R"(["", "", "", "1"])"));
  };
  const auto scattered = [this](const std::string& dims) {
    return Text(Made("gloo:scatter", dims, "c10d::scatter_", "[[[4]], []]", R"(["TensorList", ""])",
                     R"(["", "", "", "1"])"));
  };
  EXPECT_EQ(gathered(), "BFloat16 4>12 rank 1 from - to -");
  EXPECT_EQ(scattered("[[4], [4], [4]]"), "BFloat16 12>4 rank 1 from - to -");
  own_rank_ = 2;
  EXPECT_EQ(gathered(), "BFloat16 4>0 rank 1 from - to -");
  EXPECT_EQ(scattered(""), "Short 0>4 rank 1 from - to -");
}

TEST_F(WorkTest, PeersAreRanksOfTheJob) {
  const std::string list = R"(["TensorList", "", "Scalar", "Scalar"])";
  EXPECT_EQ(
      Text(Made("gloo:send", "[[4]]", "c10d::send", "[[[4]]]", list, R"(["", "", "2", "0"])")),
      "BFloat16 4>4 rank 2 from - to 9");
  EXPECT_EQ(
      Text(Made("gloo:recv", "[[4]]", "c10d::recv_", "[[[4]]]", list, R"(["", "", "0", "0"])")),
      "BFloat16 4>4 rank 0 from 4 to -");
  // Nobody knows who sends.
  EXPECT_EQ(Text(Made("gloo:recvAnySource", "[[4]]", "c10d::recv_any_source_", "[[[4]]]", list,
                      R"(["", "", "0"])")),
            "BFloat16 4>4 rank - from - to -");
}

// gloo's reduce_scatter is an all_reduce of copies: what the operator gets out is not the work's.
TEST_F(WorkTest, AnOperatorThatAsksForAnotherCollectiveTellsNoSizes) {
  EXPECT_EQ(Text(Made("gloo:all_reduce", "[[12]]", "c10d::_reduce_scatter_base_", "[[4], [12]]",
                      R"(["float", "float"])", "[]")),
            "BFloat16 12>12 rank - from - to -");
}

}  // namespace
}  // namespace proftrace
