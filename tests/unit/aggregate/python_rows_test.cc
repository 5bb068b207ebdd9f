// Python's calls as rows, from what spans saw.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/python_program.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/python_rows.h"

namespace proftrace {
namespace {

StepRows StepsOn(const Timeline& timeline, ThreadIndex thread,
                 const std::vector<std::pair<int64_t, int64_t>>& intervals) {
  Steps steps;
  ProcessSteps& process = steps.processes.emplace_back();
  process.pid = timeline.thread(thread).pid;
  process.thread = thread;
  for (const auto& [start_ns, end_ns] : intervals) process.steps.push_back({start_ns, end_ns, 0});
  steps.process_of_thread.resize(timeline.threads().size());
  return StepRows(timeline, steps);
}

class PythonRowsTest : public testing::Test {
 protected:
  SpanId Op(StackId stack, int64_t start_ns, int64_t end_ns, const std::string& name = "aten::a") {
    const SpanId span = Begin(maker_.AddOperator(name), stack, start_ns);
    maker_.End(thread_, end_ns);
    return span;
  }

  SpanId Begin(LabelId label, StackId stack, int64_t start_ns) {
    const SpanId span = maker_.Begin(thread_, label, start_ns);
    if (stack != kNoStack) EXPECT_TRUE(maker_.SetStack(span, stack).ok());
    return span;
  }

  void MarkBackward(SpanId span) {
    EXPECT_TRUE(maker_.SetSequence(span, {.number_plus_1 = 1, .forward_number = 1}).ok());
  }

  // "f 10-20": the rows in the order in which they open, indented by their depth.
  std::vector<std::string> Rows(const StepRows& steps = StepRows()) {
    if (timeline_ == nullptr) timeline_ = maker_.Finish();
    const PythonRows rows(*timeline_, steps, "");
    EXPECT_TRUE(rows.status().ok());
    std::vector<std::string> texts;
    std::vector<std::string> indents;
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const PythonRow& row = rows.at(i);
      const PythonFrame& frame = timeline_->python_frame(row.frame);
      indents.push_back(row.parent_plus_1 == 0 ? "" : indents[row.parent_plus_1 - 1] + " ");
      texts.push_back(indents.back() + timeline_->python_codes()[frame.code].name + " " +
                      std::to_string(row.start_ns) + "-" + std::to_string(row.end_ns));
    }
    return texts;
  }

  using Texts = std::vector<std::string>;

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(4711, 4711, "python3");
  uint32_t main_ = maker_.AddCode("train.py", "main", 1);
  uint32_t f_ = maker_.AddCode("train.py", "f", 10);
  uint32_t g_ = maker_.AddCode("train.py", "g", 20);
  uint32_t enter_ = maker_.AddCode("torch/autograd/profiler.py", "__enter__", 854);
  uint32_t call_ = maker_.AddCode("torch/_ops.py", "__call__", 1257);
  LabelId annotation_ = maker_.AddAnnotation("forward");
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(PythonRowsTest, ARowLastsFromItsFirstSpanToItsLast) {
  const StackId f = maker_.AddFrame(maker_.AddFrame(kNoStack, main_, 1), f_, 1);
  Op(f, 10, 20);
  Op(f, 30, 40);
  EXPECT_EQ(Rows(), (Texts{"main 10-40", " f 10-40"}));
}

TEST_F(PythonRowsTest, TheCallerGoesOnWhenItCallsAnother) {
  Op(maker_.AddFrame(maker_.AddFrame(kNoStack, main_, 1), f_), 10, 20);
  Op(maker_.AddFrame(kNoStack, main_, 2), 22, 24);
  Op(maker_.AddFrame(maker_.AddFrame(kNoStack, main_, 3), f_), 30, 40);
  EXPECT_EQ(Rows(), (Texts{"main 10-40", " f 10-20", " f 30-40"}));
}

TEST_F(PythonRowsTest, AFunctionThatGoesOnIsOneRow) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Op(maker_.AddFrame(main, f_, 1), 10, 20);
  Op(maker_.AddFrame(maker_.AddFrame(main, f_, 2), g_), 22, 24);
  Op(maker_.AddFrame(main, f_, 3), 30, 40);
  EXPECT_EQ(Rows(), (Texts{"main 10-40", " f 10-40", "  g 22-24"}));
}

TEST_F(PythonRowsTest, CallsOfAnotherModuleAreOthers) {
  const uint32_t first = maker_.AddModule({.class_name = "Linear"});
  const uint32_t second = maker_.AddModule({.class_name = "Linear", .number = 1});
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Op(maker_.AddFrame(main, f_, 1, first), 10, 20);
  Op(maker_.AddFrame(main, f_, 1, second), 30, 40);
  EXPECT_EQ(Rows(), (Texts{"main 10-40", " f 10-20", " f 30-40"}));
}

TEST_F(PythonRowsTest, PythonInsideOfAnOperatorEndsWithIt) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Begin(maker_.AddOperator("MyFunction"), main, 10);
  Op(main, 11, 12);
  Op(maker_.AddFrame(main, f_), 13, 14);
  maker_.End(thread_, 20);
  Op(maker_.AddFrame(main, f_), 22, 24);
  EXPECT_EQ(Rows(), (Texts{"main 10-24", " f 13-14", " f 22-24"}));
}

TEST_F(PythonRowsTest, AnAnnotationLiesInTheFunctionThatBeganIt) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  const StackId f = maker_.AddFrame(main, f_, 1);
  Op(f, 1, 2);
  Begin(annotation_, maker_.AddFrame(maker_.AddFrame(f, enter_), call_), 10);
  Op(maker_.AddFrame(maker_.AddFrame(main, f_, 2), g_), 12, 14);
  maker_.End(thread_, 20);
  Op(maker_.AddFrame(main, f_, 3), 22, 24);
  EXPECT_EQ(Rows(), (Texts{"main 1-24", " f 1-24", "  g 12-14"}));
}

TEST_F(PythonRowsTest, AnEmptyAnnotationHasNoRowsOfTheHelpersThatItBeginsIn) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Begin(annotation_, maker_.AddFrame(maker_.AddFrame(main, enter_), call_), 10);
  maker_.End(thread_, 20);
  EXPECT_EQ(Rows(), (Texts{"main 10-20"}));
}

TEST_F(PythonRowsTest, AnAnnotationThatOutlivesTheFunctionIsNotInIt) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  const StackId f = maker_.AddFrame(main, f_, 1);
  Op(f, 1, 2);
  Begin(annotation_, maker_.AddFrame(f, enter_), 10);
  Op(maker_.AddFrame(kNoStack, main_, 2), 12, 14);
  maker_.End(thread_, 20);
  EXPECT_EQ(Rows(), (Texts{"main 1-20", " f 1-2"}));
}

TEST_F(PythonRowsTest, TheBackwardPassHasNoPart) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  const StackId f = maker_.AddFrame(main, f_, 1);
  Op(f, 1, 2);
  MarkBackward(Begin(maker_.AddOperator("AddBackward0"), f, 10));
  Op(f, 11, 12);
  maker_.End(thread_, 20);
  Op(maker_.AddFrame(kNoStack, main_, 2), 22, 24);
  EXPECT_EQ(Rows(), (Texts{"main 1-24", " f 1-2"}));
}

TEST_F(PythonRowsTest, ASpanWithoutAStackIsInWhatThoseInsideOfItShare) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Op(main, 1, 2);
  Begin(maker_.AddOperator("aten::outer"), kNoStack, 10);
  Op(maker_.AddFrame(main, f_), 12, 14);
  Op(maker_.AddFrame(main, g_), 15, 16);
  maker_.End(thread_, 20);
  EXPECT_EQ(Rows(), (Texts{"main 1-20", " f 12-14", " g 15-16"}));
}

TEST_F(PythonRowsTest, ThreadsHaveTheirOwn) {
  const StackId main = maker_.AddFrame(kNoStack, main_, 1);
  Op(main, 1, 2);
  thread_ = maker_.AddThread(4711, 4712, "worker");
  Op(main, 3, 4);
  EXPECT_EQ(Rows(), (Texts{"main 1-2", "main 3-4"}));
}

TEST_F(PythonRowsTest, AStepCutsWhatDoesNotLastAllOfIt) {
  const StackId loop = maker_.AddFrame(kNoStack, main_, 1);
  Op(maker_.AddFrame(loop, f_), 10, 20);
  Op(maker_.AddFrame(loop, g_), 22, 24);
  Op(maker_.AddFrame(loop, g_), 30, 34);
  Op(maker_.AddFrame(loop, f_), 36, 38);
  timeline_ = maker_.Finish();
  EXPECT_EQ(Rows(StepsOn(*timeline_, thread_, {{10, 30}, {30, 40}})),
            (Texts{"main 10-40", " f 10-20", " g 22-24", " g 30-34", " f 36-38"}));
}

TEST_F(PythonRowsTest, WithoutStacksThereIsNone) {
  Op(kNoStack, 1, 2);
  EXPECT_EQ(Rows(), Texts());
}

// Functions and modules of the stack, outermost first.
using Chain = std::vector<std::pair<uint32_t, uint32_t>>;

Chain ChainOf(const Timeline& timeline, StackId stack) {
  Chain chain;
  for (; stack != kNoStack; stack = timeline.python_frame(stack).parent) {
    const PythonFrame& frame = timeline.python_frame(stack);
    if (timeline.python_codes()[frame.code].name == "__enter__") continue;
    chain.emplace_back(frame.code, frame.module);
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

bool IsInBackward(const Timeline& timeline, SpanId id) {
  for (; id != kNoSpan; id = timeline.span(id).parent) {
    if (timeline.columns().sequence.at(id).is_backward()) return true;
  }
  return false;
}

// Rows nest in each other, in spans and in steps; their parents are around them.
class NestingCheck {
 public:
  NestingCheck(const Timeline& timeline, const StepRows& steps, const PythonRows& rows)
      : timeline_(timeline), steps_(steps), rows_(rows) {}

  void Run() {
    size_t step = 0;
    for (uint32_t i = 0; i <= timeline_.span_count(); ++i) {
      for (; step < steps_.rows().size() && steps_.rows()[step].before_span <= i; ++step) {
        EnterRowsUntil(steps_.NumberOfRow(step));
        const StepRows::Row& row = steps_.rows()[step];
        Enter(row.thread, {row.step.start_ns, row.step.end_ns, false});
      }
      if (i == timeline_.span_count()) break;
      EnterRowsUntil(steps_.NumberOf(SpanId{i}));
      const Span& span = timeline_.span(SpanId{i});
      if (!span.is_async) Enter(span.thread, {span.start_ns, span.end_ns(), false});
    }
    EXPECT_EQ(next_, rows_.size());
  }

 private:
  struct Interval {
    int64_t start_ns;
    int64_t end_ns;
    bool is_row;
  };

  void EnterRowsUntil(uint64_t number) {
    for (; next_ < rows_.size() && rows_.at(next_).before_row <= number; ++next_) {
      const PythonRow& row = rows_.at(next_);
      EXPECT_LE(row.start_ns, row.end_ns);
      if (row.parent_plus_1 != 0) {
        ASSERT_LE(row.parent_plus_1, next_);
        const PythonRow& parent = rows_.at(row.parent_plus_1 - 1);
        EXPECT_LE(parent.start_ns, row.start_ns);
        EXPECT_GE(parent.end_ns, row.end_ns);
      }
      Enter(row.thread, {row.start_ns, row.end_ns, true});
    }
  }

  // A span may stick out of another one, but not of a row alone.
  void Enter(ThreadIndex thread, const Interval& interval) {
    std::vector<Interval>& around = open_[Raw(thread)];
    while (!around.empty() && around.back().end_ns <= interval.start_ns) around.pop_back();
    if (!around.empty() && interval.end_ns > around.back().end_ns) {
      EXPECT_FALSE(interval.is_row) << interval.start_ns << "-" << interval.end_ns;
      const auto span = std::find_if(around.rbegin(), around.rend(),
                                     [](const Interval& open) { return !open.is_row; });
      ASSERT_NE(span, around.rend()) << interval.start_ns << "-" << interval.end_ns;
      EXPECT_GT(interval.end_ns, span->end_ns) << interval.start_ns;
      return;
    }
    around.push_back(interval);
  }

  const Timeline& timeline_;
  const StepRows& steps_;
  const PythonRows& rows_;
  uint32_t next_ = 0;
  std::map<uint32_t, std::vector<Interval>> open_;  // by thread, outermost first
};

TEST(PythonRowsPropertyTest, TheRowsAroundASpanAreItsStack) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const std::unique_ptr<Timeline> timeline = MakePythonTimeline(seed, 300);
    const PythonRows rows(*timeline, StepRows(), "");
    ASSERT_TRUE(rows.status().ok());
    NestingCheck(*timeline, StepRows(), rows).Run();
    for (uint32_t i = 0; i < timeline->span_count(); ++i) {
      const Span& span = timeline->span(SpanId{i});
      if (IsInBackward(*timeline, SpanId{i})) continue;
      Chain chain;
      for (uint32_t row = 0; row < rows.size(); ++row) {
        if (rows.at(row).start_ns > span.start_ns || rows.at(row).end_ns <= span.start_ns) continue;
        EXPECT_GE(rows.at(row).end_ns, span.end_ns());
        const PythonFrame& frame = timeline->python_frame(rows.at(row).frame);
        chain.emplace_back(frame.code, frame.module);
      }
      EXPECT_EQ(chain, ChainOf(*timeline, timeline->stack_of(SpanId{i}))) << i;
    }
  }
}

// Stacks that no program has, on spans that nest, cross, have no length or no end on their thread.
TEST(PythonRowsPropertyTest, WhateverTheStacksRowsNest) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
    TimelineMaker maker;
    std::vector<uint32_t> codes;
    for (int i = 0; i < 3; ++i) codes.push_back(maker.AddCode("a.py", std::to_string(i), i));
    codes.push_back(maker.AddCode("torch/_ops.py", "__call__", 1));
    std::vector<StackId> stacks = {kNoStack};
    for (int i = 0; i < 30; ++i) {
      stacks.push_back(maker.AddFrame(stacks[below(static_cast<uint32_t>(stacks.size()))],
                                      codes[below(4)], below(2)));
    }
    for (uint32_t tid = 1; tid <= 2; ++tid) {
      const ThreadIndex thread = maker.AddThread(1, tid, "python3");
      int64_t now_ns = 0;
      std::vector<SpanId> open;
      for (int event = 0; event < 300; ++event) {
        now_ns += below(3);
        if (open.empty() || (open.size() < 6 && below(2) == 0)) {
          const LabelId label = below(4) == 0 ? maker.AddAnnotation("a") : maker.AddOperator("b");
          open.push_back(maker.Begin(thread, label, now_ns));
          ASSERT_TRUE(
              maker.SetStack(open.back(), stacks[below(static_cast<uint32_t>(stacks.size()))])
                  .ok());
          if (below(20) == 0) maker.MarkAsync(open.back());
          if (below(15) == 0) {
            ASSERT_TRUE(
                maker.SetSequence(open.back(), {.number_plus_1 = 1, .forward_number = 1}).ok());
          }
        } else if (open.size() > 1 && below(9) == 0) {
          maker.EndOuter(thread, open[open.size() - 2], now_ns);
          open.erase(open.end() - 2);
        } else {
          maker.End(thread, now_ns);
          open.pop_back();
        }
      }
      for (; !open.empty(); open.pop_back()) maker.End(thread, ++now_ns);
    }
    const std::unique_ptr<Timeline> timeline = maker.Finish();
    std::vector<std::pair<int64_t, int64_t>> rounds;
    for (int64_t at = 5; at < 200; at += rounds.back().second - rounds.back().first) {
      rounds.emplace_back(at, at + 1 + below(40));
    }
    const StepRows steps = StepsOn(*timeline, ThreadIndex{0}, rounds);
    const PythonRows rows(*timeline, steps, "");
    ASSERT_TRUE(rows.status().ok());
    NestingCheck(*timeline, steps, rows).Run();
  }
}

}  // namespace
}  // namespace proftrace
