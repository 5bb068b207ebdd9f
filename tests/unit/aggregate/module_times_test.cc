// What each nn.Module did.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporters/tables/csv.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/backward_modules.h"

namespace proftrace {
namespace {

class ModuleTimesTest : public testing::Test {
 protected:
  uint32_t AddModule(const std::string& class_name, const std::string& path) {
    PythonModule module;
    module.pid = Pid{4711};
    module.class_name = class_name;
    module.path = path;
    module.has_path = true;
    return maker_.AddModule(module);
  }

  SpanId Op(StackId stack, int64_t start_ns, int64_t end_ns, int64_t bytes = 0) {
    const SpanId span = maker_.Add(thread_, maker_.AddOperator("aten::a"), start_ns, end_ns);
    EXPECT_TRUE(maker_.SetStack(span, stack).ok());
    EXPECT_TRUE(maker_.SetMemory(span, {bytes, bytes, 0, 0}).ok());
    return span;
  }

  ModuleSums Sums() {
    timeline_ = maker_.Finish();
    return Aggregate(*timeline_, {}).modules;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(4711, 4711, "python3");
  uint32_t net_ = AddModule("Net", "");
  uint32_t layer_ = AddModule("Linear", "layers.0");
  uint32_t call_ = maker_.AddCode("torch/nn/modules/module.py", "_wrapped_call_impl", 1773);
  StackId in_net_ = maker_.AddFrame(kNoStack, call_, 1, net_);
  StackId in_layer_ = maker_.AddFrame(in_net_, call_, 1, layer_);
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(ModuleTimesTest, AModulesTimesHaveThoseOfTheModulesThatItCalls) {
  Op(in_net_, 0, 10);
  Op(in_layer_, 20, 30, 64);
  Op(in_layer_, 35, 40, -16);
  Op(in_net_, 45, 50, 8);
  Op(in_layer_, 60, 70);
  const ModuleSums sums = Sums();
  ASSERT_EQ(sums.modules.size(), 2u);
  const ModuleTimes& net = sums.modules[0];
  EXPECT_EQ(net.calls, 1u);
  EXPECT_EQ(net.forward_ns, 70);
  EXPECT_EQ(net.self_forward_ns, 40);
  EXPECT_EQ(net.operators, 5u);
  EXPECT_EQ(net.cpu_memory_bytes, 56);
  const ModuleTimes& layer = sums.modules[1];
  EXPECT_EQ(layer.calls, 2u);
  EXPECT_EQ(layer.forward_ns, 30);
  EXPECT_EQ(layer.self_forward_ns, 30);
  EXPECT_EQ(layer.operators, 3u);
  EXPECT_EQ(layer.cpu_memory_bytes, 48);
  EXPECT_EQ(sums.total_ns, 70);
}

TEST_F(ModuleTimesTest, TheBackwardBelongsToTheModulesOfTheForward) {
  const SpanId forward = Op(in_layer_, 0, 10);
  const StackId in_backward = maker_.AddFrame(kNoStack, call_, 3);
  const LabelId engine =
      maker_.AddLabel({"autograd::engine::evaluate_function: LinearBackward0", "", Category::kCpuOp,
                       Scope::kFunction, SpanKind::kAutograd});
  const LabelId linear = maker_.AddLabel(
      {"LinearBackward0", "", Category::kCpuOp, Scope::kBackwardFunction, SpanKind::kAutograd});
  const SpanId around = maker_.Begin(thread_, engine, 90);
  ASSERT_TRUE(maker_.SetStack(around, in_backward).ok());
  ASSERT_TRUE(maker_.SetSequence(around, {.number_plus_1 = 1, .forward_number = 1}).ok());
  const SpanId node = maker_.Begin(thread_, linear, 100);
  // Another operator has had the number before.
  ASSERT_TRUE(maker_.SetStack(node, in_backward).ok());
  ASSERT_TRUE(
      maker_
          .SetSequence(
              node, {.number_plus_1 = 1, .forward_number = 1, .forward_plus_1 = Raw(forward) + 1})
          .ok());
  Op(in_layer_, 110, 120, 32);
  maker_.End(thread_, 130);
  Op(in_layer_, 132, 134, 32);  // the engine's own
  maker_.End(thread_, 140);
  const ModuleSums sums = Sums();
  for (const ModuleTimes& module : sums.modules) {
    EXPECT_EQ(module.backward_ns, 30);
    EXPECT_EQ(module.operators, 1u);
    EXPECT_EQ(module.cpu_memory_bytes, 0);
  }
  EXPECT_EQ(sums.modules[0].self_backward_ns, 0);
  EXPECT_EQ(sums.modules[1].self_backward_ns, 30);
  EXPECT_EQ(sums.total_ns, 40);
}

// Bias sums of the engine, and the accumulation of gradients that it runs next.
TEST_F(ModuleTimesTest, TheEnginesOwnOperatorsAndAccumulationBelongToTheForwardsModule) {
  const SpanId forward = Op(in_layer_, 0, 10);
  const SpanId other = Op(in_net_, 20, 30);
  const LabelId linear =
      maker_.AddLabel({"autograd::engine::evaluate_function: LinearBackward0", "", Category::kCpuOp,
                       Scope::kFunction, SpanKind::kAutograd});
  const LabelId accumulate =
      maker_.AddLabel({"autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "",
                       Category::kCpuOp, Scope::kFunction, SpanKind::kAutograd});
  const auto row = [&](LabelId label, int64_t start_ns, SpanId made_by) {
    const SpanId span = maker_.Begin(thread_, label, start_ns);
    if (made_by != kNoSpan) {
      EXPECT_TRUE(maker_
                      .SetSequence(span, {.number_plus_1 = 1,
                                          .forward_number = 1,
                                          .forward_plus_1 = Raw(made_by) + 1})
                      .ok());
    }
    maker_.Add(thread_, maker_.AddOperator("aten::sum"), start_ns + 1, start_ns + 5);
    maker_.End(thread_, start_ns + 10);
    return span;
  };
  const SpanId of_layer = row(linear, 100, forward);
  row(accumulate, 120, kNoSpan);
  row(accumulate, 140, kNoSpan);
  row(linear, 160, other);
  const SpanId of_net = row(accumulate, 180, kNoSpan);
  Op(in_net_, 200, 210);  // what follows is of another backward pass
  const SpanId of_none = row(accumulate, 220, kNoSpan);
  const ModuleSums sums = Sums();
  EXPECT_EQ(sums.modules[1].self_backward_ns, 30);
  EXPECT_EQ(sums.modules[0].self_backward_ns, 20);
  BackwardModules modules(*timeline_);
  std::vector<StackId> stacks;
  for (uint32_t i = 0; i < timeline_->span_count(); ++i) {
    stacks.push_back(modules.Of(SpanId{i}, timeline_->span(SpanId{i})).stack);
  }
  for (uint32_t i = Raw(of_layer); i < Raw(of_layer) + 6; ++i) EXPECT_EQ(stacks[i], in_layer_);
  for (uint32_t i = Raw(of_net) - 2; i < Raw(of_net) + 2; ++i) EXPECT_EQ(stacks[i], in_net_);
  EXPECT_EQ(stacks[Raw(of_none)], kNoStack);
}

// A loss that each forward makes, with a module of its own in it.
TEST_F(ModuleTimesTest, ModulesThatEachForwardMakesAreOneRowAParentAndClass) {
  const auto unhung = [this](const std::string& class_name, uint32_t number) {
    PythonModule module;
    module.pid = Pid{4711};
    module.class_name = class_name;
    module.number = number;
    return maker_.AddModule(module);
  };
  int64_t now_ns = 0;
  for (uint32_t i = 0; i < 5; ++i) {
    const StackId loss = maker_.AddFrame(in_net_, call_, 2, unhung("Loss", i));
    Op(maker_.AddFrame(loss, call_, 3, unhung("Softmax", 2 * i)), now_ns, now_ns + 10);
    Op(maker_.AddFrame(in_layer_, call_, 4, unhung("Softmax", 2 * i + 1)), now_ns + 20,
       now_ns + 25);
    now_ns += 100;
  }
  const ModuleSums sums = Sums();
  StringSink sink;
  ASSERT_TRUE(ExportModulesCsv(*timeline_, sums, sink).ok());
  ASSERT_EQ(sums.modules.size(), 5u) << sink.text();
  std::map<std::string, std::vector<int64_t>> rows;  // calls, forward, instances
  for (const ModuleTimes& times : sums.modules) {
    const std::string& name = timeline_->python_modules()[times.module].class_name;
    for (const int64_t figure : {static_cast<int64_t>(times.calls), times.forward_ns,
                                 static_cast<int64_t>(times.instances)}) {
      rows[name].push_back(figure);
    }
  }
  EXPECT_EQ(rows["Loss"], (std::vector<int64_t>{5, 50, 5}));
  EXPECT_EQ(rows["Softmax"], (std::vector<int64_t>{5, 50, 5, 5, 25, 5}));
  EXPECT_NE(sink.text().find("4711,,Loss,5,"), std::string::npos) << sink.text();
}

TEST_F(ModuleTimesTest, AModuleThatCallsItselfCountsOnce) {
  Op(maker_.AddFrame(in_net_, call_, 2, net_), 0, 10);
  Op(in_net_, 20, 30);
  const ModuleSums sums = Sums();
  EXPECT_EQ(sums.modules[0].calls, 2u);
  EXPECT_EQ(sums.modules[0].forward_ns, 30);
  EXPECT_EQ(sums.modules[0].self_forward_ns, 30);
  EXPECT_EQ(sums.modules[0].operators, 2u);
  EXPECT_EQ(sums.total_ns, 30);
}

TEST_F(ModuleTimesTest, TheFileHasARowAModule) {
  maker_.info().targets[0].memory_recorded = true;
  Op(in_net_, 0, 10'000);
  Op(in_layer_, 20'000, 30'000, 64);
  const ModuleSums sums = Sums();
  StringSink sink;
  ASSERT_TRUE(ExportModulesCsv(*timeline_, sums, sink).ok());
  EXPECT_EQ(sink.text(),
            "pid,module,module_class,calls,forward_us,self_forward_us,backward_us,"
            "self_backward_us,percent,operators,cpu_memory_bytes,instances\n"
            "4711,,Net_0,1,30.000,20.000,0.000,0.000,100.0000,2,64,1\n"
            "4711,layers.0,Linear_0,1,10.000,10.000,0.000,0.000,33.3333,1,64,1\n");
}

}  // namespace
}  // namespace proftrace
