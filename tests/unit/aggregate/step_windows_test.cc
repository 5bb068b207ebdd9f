// Sums of single steps beside those of the whole, the choice of rows for a picture, and who held
// the memory at its peak.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/report_job.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/file_io.h"
#include "userspace/aggregate/level_of_detail.h"
#include "userspace/aggregate/memory_peak.h"
#include "userspace/aggregate/stack_shares.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/aggregate/wait_sums.h"

namespace proftrace {
namespace {

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// Steps of 10 ns, the one with that index of 90.
Intervals StepsWithSlow(size_t count, size_t slow) {
  Intervals intervals;
  int64_t now_ns = 100;
  for (size_t i = 0; i < count; ++i) {
    const int64_t ns = i == slow ? 90 : 10;
    intervals.emplace_back(now_ns, now_ns + ns);
    now_ns += ns;
  }
  return intervals;
}

TEST(StepWindowsTest, AllStepsAreChosenWhereThereIsRoom) {
  std::vector<uint32_t> ranked;
  const StepWindows windows = ChooseSteps(StepsWithSlow(30, 17), 200, &ranked);
  EXPECT_EQ(windows.steps.size(), 30u);
  EXPECT_EQ(windows.steps[ranked.front()], 17u);
  EXPECT_EQ(std::set<uint32_t>(ranked.begin(), ranked.end()).size(), 30u);
}

TEST(StepWindowsTest, TheSlowestAndTheEndsAreAmongTheChosen) {
  std::vector<uint32_t> ranked;
  const StepWindows windows = ChooseSteps(StepsWithSlow(5000, 4321), 50, &ranked);
  ASSERT_EQ(windows.steps.size(), 50u);
  const std::set<uint32_t> steps(windows.steps.begin(), windows.steps.end());
  for (const uint32_t step : {0u, 4321u, 4999u}) EXPECT_TRUE(steps.contains(step)) << step;
  EXPECT_TRUE(std::is_sorted(windows.steps.begin(), windows.steps.end()));
}

TEST(StepWindowsTest, ATimeLiesInOneWindowOrNone) {
  const StepWindows windows{{{10, 20}, {20, 30}, {40, 50}}, {0, 1, 2}};
  EXPECT_EQ(windows.At(9), std::nullopt);
  EXPECT_EQ(windows.At(10), 0u);
  EXPECT_EQ(windows.At(20), 1u);
  EXPECT_EQ(windows.At(30), std::nullopt);
  EXPECT_EQ(windows.At(49), 2u);
  EXPECT_EQ(windows.At(50), std::nullopt);
}

// A made-up job, with windows that cover all of it.
class SharesTest : public testing::Test {
 protected:
  SharesTest() : timeline_(MakeReportJob(40)), aggregates_(Aggregate(*timeline_, {})) {
    const int64_t start_ns = timeline_->info().window.start_ns;
    const int64_t end_ns = start_ns + timeline_->info().window.duration_ns;
    const int64_t half_ns = (start_ns + end_ns) / 2;
    windows_ = {{{start_ns, half_ns}, {half_ns, end_ns}}, {0, 1}};
  }

  static std::map<uint32_t, ShareValues> SumsOf(const std::vector<WindowShare>& shares) {
    std::map<uint32_t, ShareValues> sums;
    for (const WindowShare& share : shares) {
      for (size_t i = 0; i < kShareValues; ++i) sums[share.row][i] += share.values[i];
    }
    return sums;
  }

  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
  StepWindows windows_;
};

TEST_F(SharesTest, OperatorsOfAllWindowsAreThoseOfTheWhole) {
  KeyAveragesOptions options;
  options.windows = &windows_;
  const KeyAverages averages = BuildKeyAverages(*timeline_, options);
  const auto sums = SumsOf(averages.by_window);
  ASSERT_FALSE(averages.rows.empty());
  for (uint32_t row = 0; row < averages.rows.size(); ++row) {
    const KeyAverage& average = averages.rows[row];
    if (average.name == "[memory]") continue;  // of no span
    const ShareValues& sum = sums.at(row);
    EXPECT_EQ(sum[0], static_cast<int64_t>(average.count)) << average.name;
    EXPECT_EQ(sum[1], average.self_cpu_time_total_ns) << average.name;
    EXPECT_EQ(sum[2], average.cpu_time_total_ns) << average.name;
    EXPECT_EQ(sum[3], average.self_device_time_total_ns) << average.name;
  }
}

TEST_F(SharesTest, FilesAndWaitsOfAllWindowsAreThoseOfTheWhole) {
  std::vector<WindowShare> shares;
  const std::vector<FileIo> files = SumFileIo(*timeline_, &windows_, &shares);
  auto sums = SumsOf(shares);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(sums.at(0), (ShareValues{40, files[0].time_ns, files[0].bytes_read, 0}));
  const std::vector<WaitSum> waits = SumWaits(*timeline_, &windows_, &shares);
  sums = SumsOf(shares);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(sums.at(0), (ShareValues{40, waits[0].blocked_ns, 0, 0}));
}

TEST_F(SharesTest, ModulesOfAllWindowsAreThoseOfTheWhole) {
  std::vector<WindowShare> shares;
  const ModuleSums modules = SumModules(*timeline_, aggregates_.python_rows, &windows_, &shares);
  const auto sums = SumsOf(shares);
  ASSERT_EQ(modules.modules.size(), 2u);
  for (uint32_t row = 0; row < modules.modules.size(); ++row) {
    const ModuleTimes& times = modules.modules[row];
    EXPECT_EQ(sums.at(row), (ShareValues{static_cast<int64_t>(times.calls), times.forward_ns,
                                         times.self_forward_ns, times.backward_ns}));
  }
}

TEST_F(SharesTest, StacksOfAllWindowsAreThoseOfTheWhole) {
  const StackValues* self = aggregates_.stacks.Find(StackWeight::kSelfCpuTime);
  ASSERT_NE(self, nullptr);
  const auto sums = SumsOf(SumStackShares(*timeline_, aggregates_.stacks, windows_));
  for (uint32_t node = 1; node < self->self.size(); ++node) {
    const auto it = sums.find(node);
    EXPECT_EQ(it == sums.end() ? 0 : it->second[1], self->self[node]) << node;
  }
}

TEST_F(SharesTest, IdleTimeOfAllWindowsIsThatOfTheWhole) {
  const auto sums = SumsOf(SumIdleShares(aggregates_.device_idle, windows_));
  ASSERT_FALSE(aggregates_.device_idle.empty());
  int64_t all_ns = 0;
  for (const auto& [row, values] : sums) all_ns += row < kIdleCauses ? values[0] : 0;
  EXPECT_EQ(all_ns, aggregates_.device_idle[0].idle_ns);
}

TEST_F(SharesTest, TheOwnerOfThePeakIsTheOperatorThatAllocated) {
  const std::vector<MemoryPeak> peaks = FindMemoryPeaks(*timeline_, 50);
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0].bytes, 1 << 20);
  EXPECT_EQ(peaks[0].events, 80u);
  ASSERT_EQ(peaks[0].owners.size(), 1u);
  EXPECT_EQ(PathText(*timeline_, peaks[0].owners[0].path), "aten::linear/aten::addmm");
  EXPECT_EQ(peaks[0].owners[0].bytes, 1 << 20);
  EXPECT_LE(peaks[0].points.size(), 60u);
  EXPECT_EQ(peaks[0].points.back().bytes, 0);
}

TEST(LevelOfDetailTest, EverythingIsKeptWithinTheBudget) {
  const StepWindows windows{{{0, 100}}, {0}};
  const std::vector<uint32_t> ranked = {0};
  LevelOfDetail detail(windows, ranked);
  for (int64_t i = 0; i < 10; ++i) detail.Add(i, i);
  detail.Choose({10, 1, 1});
  EXPECT_EQ(detail.kept(), 10u);
  EXPECT_EQ(detail.least_ns(), 0);
  EXPECT_TRUE(detail.Has(5, 0));
}

TEST(LevelOfDetailTest, LongRowsOfTheWholeAndShortOnesOfTheBestSteps) {
  const StepWindows windows{{{0, 1000}, {1000, 2000}}, {0, 1}};
  const std::vector<uint32_t> ranked = {1, 0};
  LevelOfDetail detail(windows, ranked);
  const auto each = [](auto&& visit) {
    for (int64_t i = 0; i < 2000; ++i) visit(i, i % 100 == 0 ? 1'000'000 : 8 << (i % 3 * 2));
  };
  each([&](int64_t start_ns, int64_t ns) { detail.Add(start_ns, ns); });
  const DetailBudget budget{800, 100, 700};
  detail.Choose(budget);
  uint64_t kept = 0;
  each([&](int64_t start_ns, int64_t ns) { kept += detail.Has(start_ns, ns) ? 1 : 0; });
  EXPECT_EQ(kept, detail.kept());
  EXPECT_LE(kept, budget.all);
  EXPECT_TRUE(detail.Has(100, 1'000'000));
  EXPECT_LT(detail.least_ns(1), detail.least_ns(0));
  EXPECT_GE(detail.least_ns(), 128);
}

TEST(LevelOfDetailTest, AnyDurationHasASize) {
  const StepWindows windows;
  const std::vector<uint32_t> ranked;
  LevelOfDetail detail(windows, ranked);
  for (const int64_t ns : {int64_t{-5}, int64_t{0}, int64_t{3}, int64_t{4}, INT64_MAX}) {
    detail.Add(0, ns);
  }
  detail.Choose({1, 1, 1});
  EXPECT_EQ(detail.kept(), 1u);
  EXPECT_TRUE(detail.Has(0, INT64_MAX));
  EXPECT_FALSE(detail.Has(0, 4));
}

}  // namespace
}  // namespace proftrace
