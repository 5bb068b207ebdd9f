#include "userspace/capture/cost/job_hit_cost.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>

#include "userspace/capture/cost/job_stack_cost.h"
#include "userspace/capture/cost/live_meter.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/targets/process_cpu_times.h"

namespace proftrace {
namespace {

abi::pt_record Record(uint8_t kind, uint32_t tid, uint16_t site, uint64_t time_ns) {
  abi::pt_record record{};
  record.kind = kind;
  record.tid = tid;
  record.site = site;
  record.time_ns = time_ns;
  return record;
}

TEST(JobHitCostTest, IsTheMedianTimeBetweenTheTwoProbes) {
  JobHitCost cost;
  for (uint64_t i = 0; i < 301; ++i) {
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, i * 10000));
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 2, 6, i * 10000 + 100));  // another thread's
    cost.Observe(Record(abi::PT_COST, 1, 5, i * 10000 + 500 + i));
    cost.Observe(Record(abi::PT_COST, 2, 6, i * 10000 + 100 + 500 + i));
  }
  EXPECT_EQ(cost.pairs(), 602u);
  EXPECT_EQ(cost.median_ns(), 650.0);
}

TEST(JobHitCostTest, TakesNoPairThatDoesNotBelongTogether) {
  JobHitCost cost;
  cost.Observe(Record(abi::PT_COST, 1, 5, 10));  // its begin came before the measurement
  cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, 100));
  cost.Observe(Record(abi::PT_COST, 1, 6, 200));  // of another operator: records were lost
  cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, 300));
  cost.Observe(Record(abi::PT_SPAN_END, 1, 5, 400));
  cost.Observe(Record(abi::PT_COST, 1, 5, 500));
  EXPECT_EQ(cost.pairs(), 0u);
}

TEST(JobHitCostTest, PairsTheProbeBehindEveryBeginWithAny) {
  JobHitCost cost;
  cost.Observe(Record(abi::PT_COST, 1, 0, 10));  // another caller's
  cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, 100));
  cost.Observe(Record(abi::PT_COST, 1, 0, 700));
  cost.Observe(Record(abi::PT_COST, 1, 0, 1300));
  EXPECT_EQ(cost.pairs(), 1u);
}

TEST(JobHitCostTest, TellsReadingInputsFromTheRest) {
  JobHitCost cost;
  for (uint64_t i = 0; i < 301; ++i) {
    cost.Observe(Record(abi::PT_OPERATOR_CALL, 1, 5, i * 10000));
    cost.Observe(Record(abi::PT_COST, 1, 0, i * 10000 + 900));
    cost.Observe(Record(abi::PT_COST_AGAIN, 1, 0, i * 10000 + 1400));
    cost.Observe(Record(abi::PT_COST_AGAIN, 1, 0, i * 10000 + 1500));  // of no pair
    // A few operators have no inputs.
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 6, i * 10000 + 2000));
    cost.Observe(Record(abi::PT_COST, 1, 0, i * 10000 + 8000));
  }
  EXPECT_EQ(cost.median_call_ns(), 900.0);
  EXPECT_EQ(cost.median_ns(), 500.0);
}

TEST(JobHitCostTest, SaysNothingWithFewPairs) {
  JobHitCost cost;
  for (uint64_t i = 0; i + 1 < JobHitCost::kFewestPairs; ++i) {
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, i * 10000));
    cost.Observe(Record(abi::PT_COST, 1, 5, i * 10000 + 500));
  }
  EXPECT_FALSE(cost.median_ns());
}

TEST(JobStackCostTest, IsTheMedianTimeUntilTheRow) {
  JobStackCost cost;
  for (uint64_t i = 0; i < JobStackCost::kMost + 50; ++i) {
    EXPECT_EQ(cost.median_ns().has_value(), i >= JobStackCost::kFewest) << i;
    const uint64_t ns = i < 50 ? 9000 : 300;  // the first ones are forgotten
    cost.Observe(Record(abi::PT_PYTHON_STACK, 1, 0, i * 10000));
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 2, 6, i * 10000 + 10));  // another thread's
    cost.Observe(Record(abi::PT_SPAN_BEGIN, 1, 5, i * 10000 + ns));
    cost.Observe(Record(abi::PT_SPAN_END, 1, 5, i * 10000 + ns + 1));  // has none
  }
  EXPECT_EQ(cost.median_ns(), 300.0);
}

TEST(RecordingCostTest, CountsStacksOfJumps) {
  LiveMeter jumps;
  for (uint64_t i = 0; i < 1000; ++i) {
    jumps.Count(Record(abi::PT_PYTHON_STACK, 1, 0, i));
    jumps.Count(Record(abi::PT_SPAN_BEGIN, 1, 5, i));
    jumps.Count(Record(abi::PT_SPAN_END, 1, 5, i));
  }
  HitCost hit;
  hit.jump = 25;
  const Cost without = EstimateCost(LiveMeter(), jumps, {.window_ns = 1'000'000}, 0, hit);
  EXPECT_EQ(without.jumps, 2000u);
  EXPECT_DOUBLE_EQ(without.estimated_overhead_percent, 100.0 * 5 / 95);
  hit.stack = 100;
  const Cost with = EstimateCost(LiveMeter(), jumps, {.window_ns = 1'000'000}, 0, hit);
  EXPECT_DOUBLE_EQ(with.estimated_overhead_percent, 100.0 * 15 / 85);
  EXPECT_NE(with.basis.find("count 100 ns each"), std::string::npos);
  // More than there is: a made-up figure, but no division by nothing.
  const Cost most = EstimateCost(LiveMeter(), jumps, {.window_ns = 1000}, 0, hit);
  EXPECT_NEAR(most.estimated_overhead_percent, 9900, 1);
}

TEST(RecordingCostTest, TellsTheSlowDownOfTheBusiestThreadApart) {
  LiveMeter meter;
  for (uint64_t i = 0; i < 1000; ++i) meter.Count(Record(abi::PT_SPAN_BEGIN, 1, 5, i));
  for (uint64_t i = 0; i < 200; ++i) meter.Count(Record(abi::PT_SPAN_BEGIN, 2, 5, i));
  HitCost hit;
  hit.in_tracer = 100;
  // The job waits: it used 0.4 ms of 10 ms.
  const Cost cost =
      EstimateCost(meter, LiveMeter(), {.window_ns = 10'000'000, .cpu_ns = 400'000}, 0, hit);
  EXPECT_DOUBLE_EQ(cost.estimated_overhead_percent, 100.0 * 12 / 28);
  EXPECT_DOUBLE_EQ(*cost.busiest_thread_percent, 100.0 * 10 / 990);
}

// The price is what is usual, and may be wrong by half; all hits together cannot have taken more
// than the job used.
TEST(RecordingCostTest, TellsAPriceThatTheUsedTimeAllowsFor) {
  LiveMeter meter;
  for (uint64_t i = 0; i < 1000; ++i) meter.Count(Record(abi::PT_SPAN_BEGIN, 1, 5, i));
  HitCost hit;
  hit.in_tracer = 100;
  const auto told = [&](double error, int64_t used_ns) {
    hit.error = error;
    return EstimateCost(meter, LiveMeter(), {.window_ns = 1'000'000, .cpu_ns = used_ns}, 0, hit);
  };
  // Half of the prices below 90 of a lognormal distribution around 100 are below the told one.
  const Cost most = told(0.5, 90'000);
  const auto below = [](double price) { return std::erfc(-std::log(price / 100) / 0.5 / M_SQRT2); };
  EXPECT_NEAR(below(most.probe_ns_per_hit), below(90) / 2, 1e-9);
  EXPECT_GT(most.estimated_overhead_percent, 200);
  EXPECT_LT(most.estimated_overhead_percent, 400);
  // Where there is room, and where the price is known well, it stays.
  EXPECT_NEAR(told(0.5, 1'000'000).probe_ns_per_hit, 100, 0.01);
  EXPECT_NEAR(told(0.05, 150'000).probe_ns_per_hit, 100, 1e-6);
  // One that cannot be is as much as there is.
  EXPECT_NEAR(told(0.05, 50'000).probe_ns_per_hit, 50, 0.2);
  for (double used = 1'000; used < 3e5; used *= 1.3) {
    for (double error = 0.01; error < 5; error *= 2) {
      const Cost cost = told(error, static_cast<int64_t>(used));
      EXPECT_GT(cost.probe_ns_per_hit, 0) << used << ' ' << error;
      EXPECT_LE(cost.probe_ns_per_hit * 1000, used * 1.0001) << used << ' ' << error;
    }
  }
}

// Two threads share one CPU with others: of the window they had a quarter.
TEST(RecordingCostTest, IsAPartOfTheCpuTimeThatTheJobUsed) {
  LiveMeter meter;
  for (uint64_t i = 0; i < 1000; ++i) {
    for (const uint32_t tid : {1u, 2u}) meter.Count(Record(abi::PT_SPAN_BEGIN, tid, 5, i));
  }
  HitCost hit;
  hit.in_tracer = 75;
  const RecordedTime time{.window_ns = 1'000'000, .cpu_ns = 250'000};
  const Cost cost = EstimateCost(meter, LiveMeter(), time, 0, hit);
  EXPECT_DOUBLE_EQ(cost.estimated_overhead_percent, 100.0 * 150 / 100);
  EXPECT_NE(cost.basis.find("CPU time"), std::string::npos) << cost.basis;
}

TEST(ProcessCpuTimesTest, CountsFromTheBeginOnAndKeepsWhatAnEndedProcessHad) {
  const auto use = [](int64_t ns) {
    timespec used{};
    do {
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec < ns);
  };
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    use(30'000'000);
    raise(SIGSTOP);
    use(50'000'000);
    raise(SIGSTOP);
    _exit(0);
  }
  ProcessCpuTimes times;
  const Pid pid{static_cast<uint32_t>(child)};
  EXPECT_EQ(times.Of(pid), std::nullopt);
  EXPECT_EQ(times.all(), std::nullopt);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, WUNTRACED), child);
  times.Begin({{pid}});
  ProcessCpuTimes of_later;  // its window began before this process
  of_later.Begin({});
  of_later.Read({{pid}});
  EXPECT_EQ(times.TakeUsed(pid), 0);
  EXPECT_EQ(of_later.TakeUsed(pid), std::nullopt) << "nobody knows since when";
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &state, WUNTRACED), child);
  times.Read({{pid}});
  of_later.Read({{pid}});
  EXPECT_EQ(of_later.TakeUsed(pid), times.Of(pid));
  EXPECT_EQ(times.TakeUsed(pid), times.Of(pid)) << "from the begin of the window on";
  EXPECT_EQ(times.TakeUsed(pid), 0);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &state, 0), child);
  times.Read({{pid}});
  EXPECT_GE(times.Of(pid).value_or(0), 15'000'000);
  EXPECT_LT(times.Of(pid).value_or(0), 30'000'000);
  EXPECT_EQ(times.all(), times.Of(pid));
}

// A price that is not known well is told with what it may be.
TEST(RecordingCostTest, TellsARangeWhereThePriceIsNotKnownWell) {
  LiveMeter jumps;
  for (uint64_t i = 0; i < 1000; ++i) jumps.Count(Record(abi::PT_SPAN_BEGIN, 1, 5, i));
  HitCost hit;
  hit.jump = 100;
  hit.error = 0.05;
  const RecordedTime time{.window_ns = 2'000'000, .cpu_ns = 1'000'000};
  const Cost known = EstimateCost(LiveMeter(), jumps, time, 0, hit);
  EXPECT_EQ(known.basis.find("between"), std::string::npos) << known.basis;
  hit.error = 0.5;
  const Cost guessed = EstimateCost(LiveMeter(), jumps, time, 0, hit);
  EXPECT_NEAR(guessed.estimated_overhead_percent, 100.0 * 10 / 90, 0.001);
  EXPECT_NE(guessed.basis.find("between 5 and 18 %"), std::string::npos) << guessed.basis;
}

}  // namespace
}  // namespace proftrace
