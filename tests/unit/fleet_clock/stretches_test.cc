// Traces that were stretched because the wall clock was set while they were recorded, and clocks
// that were set back: what cannot be put right is named and left out, and the rest stays right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/fleet_simulation.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;
using Kind = ClockFinding::Kind;

constexpr uint32_t kOddBoot = 2;
constexpr int kSeeds = 10;

FleetOptions ByBoot0() {
  FleetOptions options;
  options.reference_boot_id = "boot0000";
  return options;
}

// Writes the odd boot's times anew.
void Rewrite(FleetSimulation& simulation, const std::function<int64_t(int64_t)>& written) {
  for (CollectiveCall& call : simulation.input.ranks[kOddBoot].calls) {
    call.entered_ns = written(call.entered_ns);
    call.left_ns = std::max(call.entered_ns, written(call.left_ns));
  }
}

// Puts the odd boot's calls in the order of their times, as a reader of its trace does.
void SortCalls(FleetSimulation& simulation) {
  std::vector<CollectiveCall>& calls = simulation.input.ranks[kOddBoot].calls;
  std::stable_sort(
      calls.begin(), calls.end(),
      [](const CollectiveCall& a, const CollectiveCall& b) { return a.entered_ns < b.entered_ns; });
}

// What torch.profiler writes if the wall clock was set by `step_ns` while it recorded: the line
// through the wall times of the trace's two ends.
std::function<int64_t(int64_t)> Stretched(const FleetSimulation& simulation, double step_ns) {
  const int64_t from_ns = simulation.LocalAt(kOddBoot, 0.5e9);
  const double length_ns = simulation.end_ns();
  return [=](int64_t ns) {
    const auto since_ns = static_cast<double>(ns - from_ns);
    return ns + std::llround(since_ns * (step_ns / length_ns));
  };
}

int CountOf(const FleetClock& clock, Kind kind) {
  int count = 0;
  for (const ClockFinding& finding : clock.findings()) {
    if (finding.kind != kind) continue;
    EXPECT_EQ(finding.boot, kOddBoot) << finding.text;
    EXPECT_THAT(finding.text, HasSubstr("host0002"));
    ++count;
  }
  return count;
}

// The error of the odd boot's times within the bounds, at true times each of which was written as
// `written` says.
void CheckOddBoot(const FleetSimulation& simulation, const FleetClock& clock,
                  const std::function<int64_t(int64_t)>& written, int most_unmapped) {
  int unmapped = 0;
  for (double at_ns = 1.5e9; at_ns < simulation.end_ns() - 0.5e9; at_ns += 0.37e9) {
    const auto time = clock.Map(kOddBoot, written(simulation.LocalAt(kOddBoot, at_ns)));
    if (!time) {
      ++unmapped;
      continue;
    }
    ASSERT_EQ(time->timeline, 0U);
    EXPECT_LE(time->low_ns, simulation.LocalAt(0, at_ns) + 2) << at_ns;
    EXPECT_GE(time->high_ns, simulation.LocalAt(0, at_ns) - 2) << at_ns;
  }
  EXPECT_LE(unmapped, most_unmapped);
}

// The other boots' times are within the bounds, and none of them has lost its place.
void CheckOthers(const FleetSimulation& simulation, const FleetClock& clock) {
  const SimulationError error = CompareWithTruth(simulation, clock);
  EXPECT_EQ(error.outside, 0);
  EXPECT_EQ(error.unmapped, error.places / 3);  // the places of one boot of four
  EXPECT_LT(error.worst_ns, 100'000);
}

TEST(FleetClockStretchesTest, ClearlyStretchedTraceIsNamedAndLeftOut) {
  for (const double step_ns : {50e6, -50e6, 20e9, 3600e9}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      FleetSimulation simulation(FiveHosts(seed));
      Rewrite(simulation, Stretched(simulation, step_ns));
      const auto clock = SolveFleetClock(simulation.input, ByBoot0());
      ASSERT_TRUE(clock.ok()) << clock.status();
      EXPECT_EQ(CountOf(*clock, Kind::kStretched), 1) << step_ns << " " << seed;
      EXPECT_EQ(CountOf(*clock, Kind::kNotAligned), 1);
      EXPECT_EQ(CountOf(*clock, Kind::kClockStep), 0);
      for (const ClockFinding& finding : clock->findings()) {
        if (finding.kind != Kind::kStretched) continue;
        EXPECT_NEAR(static_cast<double>(finding.amount_ns), step_ns, std::abs(step_ns) / 8);
      }
      CheckOthers(simulation, *clock);
    }
  }
}

// The late host's slack of 20 ms would hide it from what depends on what; the ends show it.
TEST(FleetClockStretchesTest, StretchThatContradictsNothingIsNamedAsWell) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedJob job = FiveHosts(seed);
    job.steps = 4;
    job.late_host = 1;
    FleetSimulation simulation(job);
    Rewrite(simulation, Stretched(simulation, 15e6));
    const auto clock = SolveFleetClock(simulation.input, ByBoot0());
    ASSERT_TRUE(clock.ok()) << clock.status();
    EXPECT_EQ(CountOf(*clock, Kind::kStretched), 1) << seed;
    EXPECT_EQ(CountOf(*clock, Kind::kNotAligned), 1);
    EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0);
  }
}

// A longer trace is stretched by less than NTP might: it has its place, but is named as well.
TEST(FleetClockStretchesTest, SlightlyStretchedTraceIsNamedAndItsBoundHolds) {
  for (const double step_ns : {50e6, -50e6}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SimulatedJob job = FiveHosts(seed);
      job.steps = 60;
      FleetSimulation simulation(job);
      const auto written = Stretched(simulation, step_ns);
      Rewrite(simulation, written);
      const auto clock = SolveFleetClock(simulation.input, ByBoot0());
      ASSERT_TRUE(clock.ok()) << clock.status();
      EXPECT_EQ(CountOf(*clock, Kind::kStretched), 1) << step_ns << " " << seed;
      EXPECT_EQ(clock->timelines().size(), 1U);
      CheckOddBoot(simulation, *clock, written, 0);
    }
  }
}

TEST(FleetClockStretchesTest, StepsSlewsAndPausesAreNotCalledStretches) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const double place : {0.1, 0.3, 0.5, 0.7, 0.9}) {
      for (const double jump_ns : {50e6, -20e9}) {
        FleetSimulation simulation(FiveHosts(seed));
        // The clock of a migrated virtual machine stood still, and has another rate afterwards.
        const int64_t from_ns =
            simulation.LocalAt(kOddBoot, 1e9 + place * (simulation.end_ns() - 1e9));
        const auto written = [&](int64_t ns) {
          if (ns < from_ns) return ns;
          return ns + static_cast<int64_t>(jump_ns) + (ns - from_ns) / 5000;
        };
        if (jump_ns < 0) {
          // The host does nothing meanwhile, so that no time comes twice.
          for (uint32_t boot = 0; boot < 5; ++boot) {
            simulation.JumpAt(boot, 1e9 + place * (simulation.end_ns() - 1e9), -jump_ns);
          }
          simulation.Rerun();
        }
        Rewrite(simulation, written);
        const auto clock = SolveFleetClock(simulation.input, ByBoot0());
        ASSERT_TRUE(clock.ok()) << clock.status();
        EXPECT_EQ(CountOf(*clock, Kind::kStretched), 0) << place << " " << seed;
        EXPECT_GE(CountOf(*clock, Kind::kClockStep), 1) << place << " " << seed;
        CheckOddBoot(simulation, *clock, written, 3);
      }
    }
  }
}

// After the clock was set back by an hour, what came later has the earlier times.
TEST(FleetClockStretchesTest, ClockThatWasSetBackByAnHourIsPutTogetherAgain) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SimulatedJob job = FiveHosts(seed);
    job.large_in_step = 1;  // several might overlap: they would begin in another order on each rank
    FleetSimulation simulation(job);
    const int64_t from_ns = simulation.LocalAt(kOddBoot, 15.03e9);  // between two steps' work
    const auto written = [&](int64_t ns) {
      return ns < from_ns ? ns : ns - 3600 * int64_t{1'000'000'000};
    };
    Rewrite(simulation, written);
    SortCalls(simulation);
    const auto clock = SolveFleetClock(simulation.input, ByBoot0());
    ASSERT_TRUE(clock.ok()) << clock.status();
    ASSERT_EQ(CountOf(*clock, Kind::kClockStep), 1) << seed;
    for (const ClockFinding& finding : clock->findings()) {
      if (finding.kind != Kind::kClockStep) continue;
      EXPECT_NEAR(static_cast<double>(finding.amount_ns), -3600e9, 5e6);
    }
    EXPECT_TRUE(clock->moments().refused_groups.empty());
    // Before the first and after the last collective it is not known which part a time is of.
    CheckOddBoot(simulation, *clock, written, 4);
    EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0);
  }
}

// Times that run backwards, or in which two stretches of time lie over each other, are of no use.
// That costs that rank its place, and no other rank.
TEST(FleetClockStretchesTest, TimesOutOfOrderCostOneRankItsPlaceOnly) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool is_backwards : {true, false}) {
      FleetSimulation simulation(FiveHosts(seed));
      const int64_t from_ns = simulation.LocalAt(kOddBoot, 15.5e9);
      Rewrite(simulation, [&](int64_t ns) {
        if (is_backwards) return from_ns - 120 * (ns - from_ns);
        return ns < from_ns ? ns : ns - 5'000'000'000;
      });
      SortCalls(simulation);
      const auto clock = SolveFleetClock(simulation.input, ByBoot0());
      ASSERT_TRUE(clock.ok()) << clock.status();
      ASSERT_FALSE(clock->moments().refused_groups.empty());
      for (const std::string& refused : clock->moments().refused_groups) {
        EXPECT_THAT(refused, HasSubstr("host0002"));
      }
      EXPECT_EQ(CountOf(*clock, Kind::kNotAligned), 1) << seed;
      CheckOthers(simulation, *clock);
    }
  }
}

}  // namespace
}  // namespace proftrace
