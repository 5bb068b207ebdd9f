// The times of Python's functions in a stretch of the recording.
#include "userspace/aggregate/function_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/python_program.h"
#include "tests/support/timeline_maker.h"

namespace proftrace {
namespace {

class FunctionTimesTest : public testing::Test {
 protected:
  void Op(StackId stack, int64_t start_ns, int64_t end_ns) {
    EXPECT_TRUE(maker_.SetStack(maker_.Add(thread_, op_, start_ns, end_ns), stack).ok());
  }

  // "module 0 calls 40 total 20 self": of the function, in the stretch.
  std::string Of(const std::string& name, int64_t start_ns, int64_t end_ns) {
    if (timeline_ == nullptr) timeline_ = maker_.Finish();
    const PythonRows rows(*timeline_, StepRows(), "");
    for (const FunctionTimes& times : SumFunctions(*timeline_, rows, {start_ns, end_ns})) {
      if (timeline_->python_codes()[times.code].name != name) continue;
      return std::to_string(times.calls) + " calls " + std::to_string(times.total_ns) + " total " +
             std::to_string(times.self_ns) + " self";
    }
    return "not there";
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(7, 7, "main");
  LabelId op_ = maker_.AddOperator("aten::a");
  StackId module_ = maker_.AddFrame(kNoStack, maker_.AddCode("train.py", "<module>", 1), 1);
  StackId train_ = maker_.AddFrame(module_, maker_.AddCode("train.py", "train", 10), 1);
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(FunctionTimesTest, AFunctionThatWasCalledBeforeTheStretchCountsWithinIt) {
  Op(module_, 10, 20);
  Op(train_, 40, 60);
  Op(module_, 100, 110);
  EXPECT_EQ(Of("<module>", 0, 200), "1 calls 100 total 80 self");
  EXPECT_EQ(Of("<module>", 30, 80), "0 calls 50 total 30 self");
  EXPECT_EQ(Of("train", 30, 80), "1 calls 20 total 20 self");
  EXPECT_EQ(Of("<module>", 50, 55), "0 calls 5 total 0 self");
  EXPECT_EQ(Of("train", 50, 55), "0 calls 5 total 5 self");
  EXPECT_EQ(Of("train", 60, 80), "not there");
  EXPECT_EQ(Of("train", 10, 40), "not there");
  EXPECT_EQ(Of("<module>", 110, 120), "not there");
}

// What stretches beside each other have adds up to what all of them have together.
TEST(FunctionTimesPropertyTest, StretchesAddUp) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::unique_ptr<Timeline> timeline = MakePythonTimeline(seed, 300);
    const PythonRows rows(*timeline, StepRows(), "");
    int64_t end_ns = 0;
    for (uint32_t i = 0; i < rows.size(); ++i) end_ns = std::max(end_ns, rows.at(i).end_ns);
    FunctionTimes parts, all;
    const auto add = [](const std::vector<FunctionTimes>& functions, FunctionTimes* sum) {
      for (const FunctionTimes& times : functions) {
        EXPECT_GE(times.self_ns, 0);
        EXPECT_LE(times.self_ns, times.total_ns);
        sum->calls += times.calls;
        sum->self_ns += times.self_ns;
      }
    };
    add(SumFunctions(*timeline, rows, {0, end_ns + 1}), &all);
    int64_t from_ns = 0;
    for (int part = 1; part <= 7; ++part) {
      const int64_t to_ns = (end_ns + 1) * part / 7;
      add(SumFunctions(*timeline, rows, {from_ns, to_ns}), &parts);
      from_ns = to_ns;
    }
    EXPECT_GT(all.calls, 10u);
    EXPECT_EQ(parts.calls, all.calls);
    EXPECT_EQ(parts.self_ns, all.self_ns);
  }
}

}  // namespace
}  // namespace proftrace
