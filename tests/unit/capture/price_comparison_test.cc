#include "userspace/capture/cost/price_comparison.h"

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include "userspace/capture/cost/stretch_meter.h"
#include "userspace/capture/kernel/site_reuse.h"

namespace proftrace {
namespace {

constexpr double kOperators = 20'000;
constexpr PredictedPrice kPrice{
    .hit_ns = 1000, .reading_ns = 500, .usual_factor = 1.35, .spread = 0.3};

// A job whose operators take 4 us, with hits that take `hit_ns` each.
ComparedStretch Stretch(double hits_an_operator, double hit_ns, double operator_ns = 4000) {
  ComparedStretch stretch;
  stretch.operators = kOperators;
  stretch.hits = kOperators * hits_an_operator;
  stretch.cpu_ns = kOperators * (operator_ns + hits_an_operator * hit_ns);
  return stretch;
}

TEST(PriceComparisonTest, IsWhatIsUsualWhereNothingWasCompared) {
  PriceComparison comparison;
  comparison.AddRecorded(Stretch(3, 1500));  // nobody knows what it takes without probes
  EXPECT_EQ(comparison.Find(kPrice).value, 1.35);
  EXPECT_FALSE(comparison.Find(kPrice).is_compared);
  comparison.SetAlone(Stretch(1, 1500));
  EXPECT_EQ(comparison.Find(kPrice).value, 1.35);
}

TEST(PriceComparisonTest, IsWhatASteadyJobPays) {
  for (const double hit_ns : {1050.0, 1500.0, 2400.0}) {
    PriceComparison comparison;
    comparison.SetAlone(Stretch(1, hit_ns));
    for (int i = 0; i < 4; ++i) comparison.AddRecorded(Stretch(4, hit_ns));
    const PriceComparison::Factor factor = comparison.Find(kPrice);
    EXPECT_NEAR(factor.value, hit_ns / 1000, 0.05);
    EXPECT_TRUE(factor.is_compared);
  }
}

TEST(PriceComparisonTest, CountsReadingsAsDearerHits) {
  PriceComparison comparison;
  comparison.SetAlone(Stretch(1, 1200));
  for (int i = 0; i < 4; ++i) {
    ComparedStretch stretch = Stretch(4, 1200);
    stretch.readings = kOperators;
    stretch.cpu_ns += stretch.readings * 1.2 * kPrice.reading_ns;
    comparison.AddRecorded(stretch);
  }
  EXPECT_NEAR(comparison.Find(kPrice).value, 1.2, 0.05);
}

TEST(PriceComparisonTest, TrustsWhatIsUsualWhereTheJobIsNotSteady) {
  PriceComparison comparison;
  comparison.SetAlone(Stretch(1, 1500, /*operator_ns=*/40'000));  // another phase of it
  for (const double operator_ns : {4000.0, 40'000.0, 9000.0, 70'000.0}) {
    comparison.AddRecorded(Stretch(4, 1500, operator_ns));
  }
  const PriceComparison::Factor factor = comparison.Find(kPrice);
  EXPECT_NEAR(factor.value, 1.35, 0.1);
  EXPECT_FALSE(factor.is_compared);
}

TEST(PriceComparisonTest, SaysNothingOfJobsWhoseHitsAreLostInTheirWork) {
  PriceComparison comparison;
  comparison.SetAlone(Stretch(1, 1500, 2'000'000));
  for (int i = 0; i < 4; ++i) comparison.AddRecorded(Stretch(4, 1500, 2'050'000));
  EXPECT_NEAR(comparison.Find(kPrice).value, 1.35, 0.05);
}

TEST(PriceComparisonTest, TakesNoStretchWithFewOperators) {
  PriceComparison comparison;
  ComparedStretch few = Stretch(1, 1500);
  few.operators = PriceComparison::kFewestOperators - 1;
  comparison.SetAlone(few);
  EXPECT_FALSE(comparison.has_alone());
}

// A stretch with jumps, in which a step of `step_us` has an operator at site 7 once and one at site
// 9 forty times.
ComparedStretch Steps(double steps, double step_us, double jumps_a_step) {
  ComparedStretch stretch;
  stretch.cpu_ns = steps * step_us * 1000;
  stretch.jumps = steps * jumps_a_step;
  stretch.calls_by_site.resize(10);
  stretch.calls_by_site[7] = static_cast<uint32_t>(steps);
  stretch.calls_by_site[9] = static_cast<uint32_t>(40 * steps);
  return stretch;
}

TEST(PriceComparisonTest, CountsAloneWhatIsSeldomButOftenEnough) {
  PriceComparison steps_of_200us;
  for (int i = 0; i < 4; ++i) steps_of_200us.AddRecorded(Steps(2000, 200, 80));
  EXPECT_EQ(steps_of_200us.ChooseCounted(), 7);
  PriceComparison steps_of_10ms;
  for (int i = 0; i < 4; ++i) steps_of_10ms.AddRecorded(Steps(40, 10'000, 80));
  EXPECT_EQ(steps_of_10ms.ChooseCounted(), 9);
  PriceComparison steps_of_1s;
  for (int i = 0; i < 4; ++i) steps_of_1s.AddRecorded(Steps(1, 1'000'000, 80));
  EXPECT_EQ(steps_of_1s.ChooseCounted(), std::nullopt);
  EXPECT_EQ(PriceComparison().ChooseCounted(), std::nullopt);
}

TEST(PriceComparisonTest, ComparesTheLastStretchesWithWhatCameAfter) {
  PredictedPrice price;
  price.hit_ns = 1500;
  price.jump_ns = 300;
  price.spread = 0.5;
  PriceComparison comparison;
  for (int i = 0; i < 20; ++i) comparison.AddRecorded(Steps(500, 900, 80));  // another phase
  for (int i = 0; i < 6; ++i) comparison.AddRecorded(Steps(2000, 200 + 80 * 0.45, 80));
  EXPECT_FALSE(comparison.Find(price).is_compared);
  EXPECT_EQ(comparison.Find(price).error, 0.5);
  ComparedStretch after;  // its probe at site 7 takes 1 % of the time
  after.operators = after.hits = 700;
  after.cpu_ns = 700 * (200'000 + 1.5 * 1500);
  comparison.SetAloneAfter(after, 7);
  const PriceComparison::Factor factor = comparison.Find(price);
  EXPECT_NEAR(factor.value, 1.5, 0.15);
  EXPECT_TRUE(factor.is_compared);
  EXPECT_LT(factor.error, 0.4);
}

TEST(PriceComparisonTest, ForgetsStretchesOfAnotherProcess) {
  PriceComparison comparison;
  for (int i = 0; i < 4; ++i) comparison.AddRecorded(Steps(2000, 200, 80));
  comparison.Forget();
  EXPECT_EQ(comparison.ChooseCounted(), std::nullopt);
}

abi::pt_record BareRecord(uint8_t kind, uint32_t pid, uint16_t site, uint64_t time_ns) {
  abi::pt_record record{};
  record.kind = kind;
  record.pid = record.tid = pid;
  record.site = site;
  record.time_ns = time_ns;
  return record;
}

uint64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST(StretchMeterTest, CountsRecordsThatComeLateWhereTheyBelong) {
  const auto pid = static_cast<uint32_t>(getpid());
  StretchMeter meter;
  meter.Add(Pid{pid});
  const uint64_t before = Now();
  meter.Begin();
  const uint64_t in_first = Now();
  for (int i = 0; i < 10; ++i) {
    meter.Observe(BareRecord(abi::PT_COST, pid, 0, before));            // of before
    meter.Observe(BareRecord(abi::PT_SPAN_END, pid + 1, 0, in_first));  // of another process
  }
  meter.Cut();
  for (int i = 0; i < 20; ++i) {
    meter.Observe(BareRecord(abi::PT_COST, pid, 0, in_first));
    meter.Observe(BareRecord(abi::PT_SPAN_BEGIN, pid, 5, in_first));
    meter.Observe(BareRecord(abi::PT_SPAN_END, pid, 5, in_first));
  }
  const auto first = meter.Take({});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->operators, 20);
  EXPECT_EQ(first->hits, 60);
  EXPECT_FALSE(meter.Take({}).has_value());
  // Without the probe for counting: by the share of the hits.
  for (int i = 0; i < 30; ++i) meter.Observe(BareRecord(abi::PT_SPAN_END, pid, 5, Now()));
  meter.Cut();
  const auto second = meter.Take({});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->operators, 15);
  EXPECT_EQ(second->hits, 30);
}

TEST(StretchMeterTest, CountsTheCallsOfTheProcessThatIsFollowed) {
  const auto pid = static_cast<uint32_t>(getpid());
  StretchMeter meter;
  EXPECT_EQ(meter.followed(), std::nullopt);
  meter.Follow(Pid{pid});
  EXPECT_EQ(meter.followed(), Pid{pid});
  meter.Begin();
  const uint64_t inside = Now();
  for (int i = 0; i < 5; ++i) {
    meter.ObserveJump(BareRecord(abi::PT_SPAN_BEGIN, pid, 7, inside));
    meter.ObserveJump(BareRecord(abi::PT_SPAN_END, pid, 7, inside));
    meter.ObserveJump(BareRecord(abi::PT_SPAN_BEGIN, pid + 1, 7, inside));  // of another process
    meter.Observe(BareRecord(abi::PT_OPERATOR_CALL, pid, 8, inside));
  }
  meter.Cut();
  const auto stretch = meter.Take({});
  ASSERT_TRUE(stretch.has_value());
  EXPECT_EQ(stretch->jumps, 10);
  EXPECT_EQ(stretch->hits, 5);
  EXPECT_EQ(stretch->readings, 5);
  EXPECT_EQ(stretch->calls_by_site[7], 5u);
  EXPECT_EQ(stretch->calls_by_site[8], 5u);
  // What came before another one is followed is not its own.
  meter.Follow(Pid{pid + 1});
  EXPECT_FALSE(meter.Take({}).has_value());
}

TEST(SiteReuseTest, IsWarmWhereTheSamePlaceComesAgainAtOnce) {
  SiteReuse reuse;
  EXPECT_FALSE(reuse.coldness().has_value());
  for (uint64_t i = 0; i < 1000; ++i) reuse.Observe(BareRecord(abi::PT_SPAN_BEGIN, 1, 5, i * 2000));
  EXPECT_EQ(reuse.coldness(), 0);
}

TEST(SiteReuseTest, IsColdWhereAPlaceComesOnceAStep) {
  SiteReuse reuse;
  for (uint64_t step = 0; step < 100; ++step) {
    for (uint16_t site = 1; site <= 40; ++site) {
      reuse.Observe(BareRecord(abi::PT_SPAN_BEGIN, 1, site, step * 400'000 + site * 10'000));
    }
  }
  EXPECT_NEAR(reuse.coldness().value_or(0), 1, 0.01);
}

TEST(SiteReuseTest, LeavesOutWhatTheHitsThemselvesTake) {
  SiteReuse reuse;
  reuse.SetCost(1000);
  for (uint64_t i = 0; i < 1000; ++i) {
    for (uint16_t site = 1; site <= 20; ++site) {
      reuse.Observe(BareRecord(abi::PT_SPAN_BEGIN, 1, site, (i * 20 + site) * 1100));
    }
  }
  EXPECT_EQ(reuse.coldness(), 0);
}

TEST(SiteReuseTest, TellsThreadsAndKindsApart) {
  SiteReuse reuse;
  for (uint64_t i = 0; i < 1000; ++i) {
    reuse.Observe(BareRecord(abi::PT_SPAN_BEGIN, 1, 5, i * 100'000));
    reuse.Observe(BareRecord(abi::PT_SPAN_END, 1, 5, i * 100'000 + 500));
    reuse.Observe(BareRecord(abi::PT_SPAN_BEGIN, 2, 5, i * 100'000 + 600));
  }
  EXPECT_NEAR(reuse.coldness().value_or(0), 1, 0.01);
}

}  // namespace
}  // namespace proftrace
