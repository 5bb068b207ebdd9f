// Clocks that jumped or stood still, and what was restarted.
#include "userspace/fleet_clock/clock_breaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fleet_simulation.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

const ClockFinding* FindingOf(const FleetClock& clock, ClockFinding::Kind kind) {
  for (const ClockFinding& finding : clock.findings()) {
    if (finding.kind == kind) return &finding;
  }
  return nullptr;
}

// Snapshots as a capture has them, every 10 s.
void AddSnapshots(FleetSimulation& simulation, uint32_t boot, double suspended_at_ns,
                  double suspended_ns, int64_t realtime_step_ns) {
  for (double at_ns = 0.5e9; at_ns < simulation.end_ns() + 10e9; at_ns += 10e9) {
    ClockSnapshot snapshot;
    snapshot.monotonic_ns = simulation.LocalAt(boot, at_ns);
    const auto slept_ns = static_cast<int64_t>(at_ns > suspended_at_ns ? suspended_ns : 0);
    snapshot.boottime_ns = snapshot.monotonic_ns + slept_ns;
    snapshot.realtime_ns = *snapshot.boottime_ns + 1'700'000'000'000'000'000 +
                           (at_ns > suspended_at_ns ? realtime_step_ns : 0);
    snapshot.gap_ns = 300;
    simulation.input.boots[boot].snapshots.push_back(snapshot);
  }
}

TEST(FleetClockBreaksTest, StepOfFiftyMillisecondsIsFoundAndNamed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FleetSimulation simulation(FiveHosts(seed));
    simulation.JumpAt(2, 15.3e9, 50e6);
    simulation.Rerun();
    const auto clock = SolveFleetClock(simulation.input, {});
    ASSERT_TRUE(clock.ok()) << clock.status();
    const ClockFinding* found = FindingOf(*clock, ClockFinding::Kind::kClockStep);
    ASSERT_TRUE(found) << seed;
    EXPECT_EQ(found->boot, 2u);
    EXPECT_NEAR(static_cast<double>(found->amount_ns), 50e6, 1e6);
    EXPECT_LE(found->after_ns, simulation.LocalAt(2, 15.3e9));
    EXPECT_GE(found->before_ns, simulation.LocalAt(2, 15.3e9 - 1));
    EXPECT_LT(found->before_ns - found->after_ns, 1'500'000'000);
    EXPECT_THAT(found->text, HasSubstr("host0002"));
    const SimulationError error = CompareWithTruth(simulation, *clock);
    EXPECT_EQ(error.outside, 0) << seed;
    EXPECT_LE(error.unmapped, 1) << seed;
    EXPECT_LT(error.worst_ns, 100'000) << seed;
  }
}

TEST(FleetClockBreaksTest, SeveralStepsAreEachFound) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    FleetSimulation simulation(FiveHosts(seed));
    simulation.JumpAt(0, 10.2e9, 50e6);
    simulation.JumpAt(3, 20.7e9, 3600e9);
    simulation.JumpAt(4, 20.7e9, 8e6);
    simulation.Rerun();
    const auto clock = SolveFleetClock(simulation.input, {});
    ASSERT_TRUE(clock.ok()) << clock.status();
    std::vector<uint32_t> boots;
    for (const ClockFinding& finding : clock->findings()) {
      if (finding.kind == ClockFinding::Kind::kClockStep) boots.push_back(finding.boot);
    }
    EXPECT_EQ(boots, (std::vector<uint32_t>{0, 3, 4})) << seed;
    const SimulationError error = CompareWithTruth(simulation, *clock);
    EXPECT_EQ(error.outside, 0) << seed;
    EXPECT_LE(error.unmapped, 3) << seed;
  }
}

TEST(FleetClockBreaksTest, StepBetweenTwoHostsIsFoundOnOneOfThem) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (uint32_t boot = 0; boot < 2; ++boot) {
      SimulatedJob job = FiveHosts(seed);
      job.hosts = 2;
      FleetSimulation simulation(job);
      simulation.JumpAt(boot, 15.3e9, 50e6);
      simulation.Rerun();
      const auto clock = SolveFleetClock(simulation.input, {});
      ASSERT_TRUE(clock.ok()) << clock.status();
      ASSERT_TRUE(FindingOf(*clock, ClockFinding::Kind::kClockStep));
      // Against the other one, which of the two it was makes no difference.
      EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0) << seed;
    }
  }
}

TEST(FleetClockBreaksTest, SuspendIsFoundBySnapshotsAndPlacedByCollectives) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FleetSimulation simulation(FiveHosts(seed));
    // Boot 3 sleeps for 20 s: the others' clocks go on.
    for (uint32_t boot = 0; boot < 5; ++boot) {
      if (boot != 3) simulation.JumpAt(boot, 15.3e9, 20e9);
    }
    simulation.Rerun();
    AddSnapshots(simulation, 3, 15.3e9, 20e9, 0);
    for (const bool is_numbered : {true, false}) {
      for (FleetRank& rank : simulation.input.ranks) {
        for (CollectiveCall& call : rank.calls) {
          if (!is_numbered) call.sequence.reset();
        }
      }
      const auto clock = SolveFleetClock(simulation.input, {});
      ASSERT_TRUE(clock.ok()) << clock.status();
      const ClockFinding* found = FindingOf(*clock, ClockFinding::Kind::kSuspend);
      ASSERT_TRUE(found) << seed;
      EXPECT_EQ(found->boot, 3u);
      EXPECT_EQ(found->amount_ns, 20'000'000'000);
      EXPECT_THAT(found->text, HasSubstr("host0003 was suspended for +20.000000 s"));
      EXPECT_LE(found->after_ns, simulation.LocalAt(3, 15.3e9));
      EXPECT_GE(found->before_ns, simulation.LocalAt(3, 15.3e9));
      if (is_numbered) {
        EXPECT_LT(found->before_ns - found->after_ns, 1'500'000'000);
      }
      EXPECT_EQ(clock->timelines().size(), 1u);
      // Between which calls the clock stood still is not known before they are matched.
      for (const std::string& refused : clock->moments().refused_groups) {
        EXPECT_FALSE(is_numbered);
        EXPECT_THAT(refused, HasSubstr("a suspend lies between"));
      }
      const SimulationError error = CompareWithTruth(simulation, *clock);
      EXPECT_EQ(error.outside, 0) << seed;
      EXPECT_LE(error.unmapped, is_numbered ? 1 : 4) << seed;
      EXPECT_LT(error.worst_ns, 100'000) << seed;
    }
  }
}

TEST(FleetClockBreaksTest, SetWallClockIsNamedAndTouchesNothing) {
  FleetSimulation simulation(FiveHosts(1));
  AddSnapshots(simulation, 1, 15e9, 0, -3'600'000'000'000);
  const auto clock = SolveFleetClock(simulation.input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  const ClockFinding* found = FindingOf(*clock, ClockFinding::Kind::kRealtimeStep);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->boot, 1u);
  EXPECT_EQ(found->amount_ns, -3'600'000'000'000);
  EXPECT_THAT(found->text, HasSubstr("-3600.000000 s"));
  EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0);
  EXPECT_EQ(CompareWithTruth(simulation, *clock).unmapped, 0);
}

TEST(FleetClockBreaksTest, RestartsAreNamed) {
  FleetSimulation simulation(FiveHosts(1));
  FleetInput& input = simulation.input;
  input.boots[4].host = "host0003";
  FleetRank again = input.ranks[0];
  again.attempt = 1;
  for (CollectiveCall& call : again.calls) {
    call.entered_ns += 60'000'000'000;
    call.left_ns += 60'000'000'000;
  }
  input.ranks.push_back(again);
  const auto clock = SolveFleetClock(input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  ASSERT_TRUE(FindingOf(*clock, ClockFinding::Kind::kHostRestart));
  ASSERT_TRUE(FindingOf(*clock, ClockFinding::Kind::kRankRestart));
  EXPECT_THAT(FindingOf(*clock, ClockFinding::Kind::kRankRestart)->text, HasSubstr("Rank 0"));
  EXPECT_EQ(CompareWithTruth(simulation, *clock).outside, 0);
}

TEST(FleetClockBreaksTest, NtpPlacesWhatNothingElseDoesAndIsNamedWhereItIsWrong) {
  FleetSimulation simulation(FiveHosts(1));
  FleetInput& input = simulation.input;
  input.boots.push_back({"bootx", "hostx"});
  for (uint32_t boot = 0; boot < 6; ++boot) {
    ClockSnapshot snapshot;
    snapshot.monotonic_ns = boot == 5 ? 77'000'000'000 : simulation.LocalAt(boot, 10e9);
    // Boot 2's NTP states 1 ms, and is 500 ms off.
    snapshot.realtime_ns = 1'700'000'010'000'000'000 + (boot == 2 ? 500'000'000 : 0);
    snapshot.ntp = NtpState{true, 1'000'000};
    input.boots[boot].snapshots.push_back(snapshot);
  }
  const auto clock = SolveFleetClock(input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  const ClockFinding* wrong = FindingOf(*clock, ClockFinding::Kind::kNtpWrong);
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->boot, 2u);
  EXPECT_NEAR(static_cast<double>(wrong->amount_ns), 498e6, 1e6);
  ASSERT_EQ(clock->timelines().size(), 2u);
  const auto& by_ntp = clock->timelines()[1].by_ntp;
  ASSERT_TRUE(by_ntp);
  const int64_t same_time_ns = clock->Map(0, simulation.LocalAt(0, 10e9))->common_ns;
  const int64_t own_ns = clock->Map(5, 77'000'000'000)->common_ns;
  EXPECT_LE(own_ns + by_ntp->low_ns, same_time_ns);
  EXPECT_GE(own_ns + by_ntp->high_ns, same_time_ns);
  EXPECT_LT(by_ntp->high_ns - by_ntp->low_ns, 5'000'000);
  EXPECT_THAT(FindingOf(*clock, ClockFinding::Kind::kNotAligned)->text,
              HasSubstr("NTP alone places"));
}

TEST(FleetClockBreaksTest, BootWithoutCollectivesIsSaidNotToBeAligned) {
  FleetSimulation simulation(FiveHosts(1));
  simulation.input.boots.push_back({"bootx", "hostx"});
  const auto clock = SolveFleetClock(simulation.input, {});
  ASSERT_TRUE(clock.ok()) << clock.status();
  const ClockFinding* found = FindingOf(*clock, ClockFinding::Kind::kNotAligned);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, HasSubstr("hostx is not aligned"));
}

}  // namespace
}  // namespace proftrace
