// Collectives without numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fleet_simulation.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

SimulatedJob JobWithoutNumbers() {
  SimulatedJob job;
  job.hosts = 4;
  job.ranks_per_host = 2;
  job.steps = 12;
  job.large_in_step = 6;
  job.offset_ns = 3.6e12;
  job.drift_ppm = 100;
  job.step_jitter_ns = 1e6;
  job.is_numbered = false;
  return job;
}

void DropFirst(FleetRank& rank, size_t count) {
  std::sort(rank.calls.begin(), rank.calls.end(),
            [](const auto& a, const auto& b) { return a.entered_ns < b.entered_ns; });
  rank.calls.erase(rank.calls.begin(), rank.calls.begin() + static_cast<ptrdiff_t>(count));
}

TEST(FleetClockOrderTest, LateAttachAndLossesAreMatchedAsSequencesOfTheirOwn) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedJob job = JobWithoutNumbers();
    job.seed = seed;
    FleetSimulation simulation(job);
    DropFirst(simulation.input.ranks[3], 17);
    DropFirst(simulation.input.ranks[6], 5);
    // Rank 5 lost three calls of its group in the middle.
    std::vector<CollectiveCall>& calls = simulation.input.ranks[5].calls;
    calls.erase(calls.begin() + 30, calls.begin() + 33);
    calls[30].is_after_loss = true;
    const auto clock = SolveFleetClock(simulation.input, {});
    ASSERT_TRUE(clock.ok()) << clock.status();
    EXPECT_TRUE(clock->moments().refused_groups.empty())
        << seed << clock->moments().refused_groups[0];
    EXPECT_EQ(clock->moments().duplicates, 0u);
    const SimulationError error = CompareWithTruth(simulation, *clock);
    EXPECT_EQ(error.outside, 0) << seed;
    EXPECT_EQ(error.unmapped, 0) << seed;
    EXPECT_LT(error.worst_ns, 100'000) << seed;
    for (const FleetMoment& moment : clock->moments().moments) {
      EXPECT_EQ(moment.match, FleetMoment::Match::kOrder);
    }
  }
}

SimulatedJob EvenJob() {
  SimulatedJob job = JobWithoutNumbers();
  job.ranks_per_host = 1;
  job.is_periodic = true;
  job.step_jitter_ns = 0;
  job.lateness_ns = 100e3;
  return job;
}

TEST(FleetClockOrderTest, JobThatRepeatsEvenlyIsAmbiguousWithoutNtp) {
  const FleetSimulation simulation(EvenJob());
  const auto clock = SolveFleetClock(simulation.input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  EXPECT_EQ(clock->timelines().size(), 4u);
  ASSERT_FALSE(clock->moments().refused_groups.empty());
  EXPECT_THAT(clock->moments().refused_groups[0], HasSubstr("more than one way"));
}

TEST(FleetClockOrderTest, NtpDecidesWhereTheJobRepeatsEvenly) {
  FleetSimulation simulation(EvenJob());
  for (uint32_t boot = 0; boot < 4; ++boot) {
    for (const double at_ns : {1e9, 6e9, 13e9}) {
      ClockSnapshot snapshot;
      snapshot.monotonic_ns = simulation.LocalAt(boot, at_ns);
      snapshot.realtime_ns =
          1'700'000'000'000'000'000 + static_cast<int64_t>(at_ns) + boot * 20'000'000;
      snapshot.ntp = NtpState{true, 100'000'000};
      simulation.input.boots[boot].snapshots.push_back(snapshot);
    }
  }
  const auto clock = SolveFleetClock(simulation.input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  EXPECT_TRUE(clock->moments().refused_groups.empty());
  ASSERT_EQ(clock->timelines().size(), 1u);
  // The common clock is the reference's REALTIME at its first snapshot.
  const uint32_t reference = clock->timelines()[0].reference_boot;
  EXPECT_NEAR(
      static_cast<double>(clock->Map(reference, simulation.LocalAt(reference, 1e9))->common_ns -
                          1'700'000'001'000'000'000 - reference * 20'000'000),
      0, 10);
  const uint32_t other = reference == 0 ? 1 : 0;
  const auto time = clock->Map(other, simulation.LocalAt(other, 6e9));
  const int64_t truth_ns = clock->Map(reference, simulation.LocalAt(reference, 6e9))->common_ns;
  EXPECT_LE(time->low_ns, truth_ns);
  EXPECT_GE(time->high_ns, truth_ns);
}

TEST(FleetClockOrderTest, NumbersOfOneGroupDecideForAnother) {
  SimulatedJob job = EvenJob();
  FleetSimulation simulation(job);
  for (FleetRank& rank : simulation.input.ranks) {
    int64_t number = 0;
    for (CollectiveCall& call : rank.calls) {
      if (call.group == 0) call.sequence = number++;
    }
  }
  const auto clock = SolveFleetClock(simulation.input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  EXPECT_TRUE(clock->moments().refused_groups.empty());
  EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0);
  int by_order = 0;
  for (const FleetMoment& moment : clock->moments().moments) {
    by_order += moment.match == FleetMoment::Match::kOrder ? 1 : 0;
  }
  EXPECT_EQ(by_order, job.steps);
}

}  // namespace
}  // namespace proftrace
