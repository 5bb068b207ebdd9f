// Steps of several processes: which of them encloses a span.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/steps.h"

namespace proftrace {
namespace {

Span SpanOf(ThreadIndex thread, int64_t start_ns, int64_t end_ns) {
  Span span;
  span.thread = thread;
  span.start_ns = start_ns;
  span.duration_ns = end_ns - start_ns;
  return span;
}

TEST(StepsOfProcessesTest, EncloseTheSpansOfTheirOwnThread) {
  TimelineMaker maker;
  std::vector<ThreadIndex> threads;
  Steps steps;
  for (uint32_t pid = 1; pid <= 3; ++pid) {
    threads.push_back(maker.AddThread(pid, pid, "python3"));
    ProcessSteps process;
    process.pid = Pid{pid};
    process.thread = threads.back();
    for (int64_t step = 0; step < 4; ++step) {
      const int64_t start_ns = 100 * step + 10 * pid;
      process.steps.push_back({start_ns, start_ns + 50, step});
    }
    if (pid < 3) steps.processes.push_back(process);
  }
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const StepRows rows(*timeline, steps);
  ASSERT_EQ(rows.rows().size(), 8u);
  const auto enclosing = [&](ThreadIndex thread, int64_t start_ns, int64_t end_ns) -> std::string {
    const std::optional<size_t> row = rows.Enclosing(SpanOf(thread, start_ns, end_ns));
    if (!row.has_value()) return "none";
    EXPECT_EQ(rows.rows()[*row].thread, thread);
    return std::to_string(rows.rows()[*row].step.number);
  };
  EXPECT_EQ(enclosing(threads[0], 5, 8), "none") << "before the first one";
  EXPECT_EQ(enclosing(threads[0], 10, 60), "0");
  EXPECT_EQ(enclosing(threads[0], 10, 61), "none");
  EXPECT_EQ(enclosing(threads[0], 60, 60), "none");
  EXPECT_EQ(enclosing(threads[0], 125, 130), "1") << "the other process's begins in between";
  EXPECT_EQ(enclosing(threads[1], 115, 118), "none");
  EXPECT_EQ(enclosing(threads[1], 325, 330), "3");
  EXPECT_EQ(enclosing(threads[2], 135, 140), "none") << "it drives no steps";
  EXPECT_FALSE(StepRows().Enclosing(SpanOf(threads[0], 10, 20)).has_value());
}

}  // namespace
}  // namespace proftrace
