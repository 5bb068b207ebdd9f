// The common clock of made-up jobs, whose true clocks are known.
#include "userspace/fleet_clock/fleet_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fleet_simulation.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

FleetClock Solved(const FleetInput& input, const FleetOptions& options = {}) {
  auto clock = SolveFleetClock(input, options);
  EXPECT_TRUE(clock.ok()) << clock.status();
  return clock.ok() ? *std::move(clock) : FleetClock();
}

TEST(FleetClockTest, TruthIsWithinTheBoundsOfFiveHundredRandomJobs) {
  std::mt19937_64 random(5);
  int places = 0;
  int beyond_likely = 0;
  for (int round = 0; round < 500; ++round) {
    SimulatedJob job;
    job.seed = random();
    job.hosts = 2 + static_cast<int>(random() % 6);
    job.ranks_per_host = 1 + static_cast<int>(random() % 2);
    job.steps = 5 + static_cast<int>(random() % 30);
    job.large_in_step = static_cast<int>(random() % 6);
    job.drift_ppm = static_cast<double>(random() % 120);
    job.offset_ns = random() % 2 == 0 ? 3.6e12 : 5e6;
    job.wander_ppm = random() % 2 == 0 ? 0.4 : 0;
    job.end_skew_ns = random() % 3 == 0 ? 300e3 : 20e3;
    job.late_host = random() % 4 == 0 ? 1 : -1;
    const FleetSimulation simulation(job);
    const SimulationError error = CompareWithTruth(simulation, Solved(simulation.input));
    ASSERT_EQ(error.outside, 0) << round;
    ASSERT_EQ(error.unmapped, 0) << round;
    places += error.places;
    beyond_likely += error.beyond_likely;
  }
  EXPECT_LE(beyond_likely * 20, places);
}

TEST(FleetClockTest, HoursAndHundredPpmAreRecovered) {
  SimulatedJob job;
  job.hosts = 4;
  job.steps = 20;
  job.offset_ns = 2 * 3.6e12;
  FleetSimulation simulation(job);
  simulation.SetDrift(1, 100);
  simulation.SetDrift(2, -100);
  simulation.Rerun();
  const FleetClock clock = Solved(simulation.input);
  const SimulationError error = CompareWithTruth(simulation, clock);
  EXPECT_EQ(error.outside, 0);
  EXPECT_LT(error.worst_ns, 20'000);
  const auto drift = [&](uint32_t boot) {
    return clock.DriftOf(clock.pieces().first_pieces[boot]);
  };
  const uint32_t reference = clock.timelines()[0].reference_boot;
  ASSERT_TRUE(reference == 0 || reference == 3) << reference;
  EXPECT_LT(drift(1).low_ppb, drift(1).ppb);
  EXPECT_GT(drift(1).high_ppb, drift(1).ppb);
  EXPECT_NEAR(static_cast<double>(drift(2).ppb - drift(1).ppb), 200'000, 1000);
}

TEST(FleetClockTest, BiasedEndsAreCoveredByTheBoundOnly) {
  SimulatedJob job;
  job.biased_ends_ns = 50e3;
  const FleetSimulation simulation(job);
  const SimulationError error = CompareWithTruth(simulation, Solved(simulation.input));
  EXPECT_EQ(error.outside, 0);
  EXPECT_GT(error.beyond_likely, 0);
}

TEST(FleetClockTest, OrderOfRanksAndBootsDoesNotMatter) {
  SimulatedJob job;
  job.hosts = 5;
  job.steps = 10;
  const FleetSimulation simulation(job);
  const FleetClock clock = Solved(simulation.input);
  FleetInput turned = simulation.input;
  std::reverse(turned.boots.begin(), turned.boots.end());
  std::reverse(turned.ranks.begin(), turned.ranks.end());
  for (FleetRank& rank : turned.ranks) rank.boot = 4 - rank.boot;
  const FleetClock other = Solved(turned);
  for (uint32_t boot = 0; boot < 5; ++boot) {
    const int64_t at_ns = simulation.LocalAt(boot, 5e9);
    EXPECT_EQ(clock.Map(boot, at_ns)->common_ns, other.Map(4 - boot, at_ns)->common_ns);
    EXPECT_EQ(clock.Map(boot, at_ns)->low_ns, other.Map(4 - boot, at_ns)->low_ns);
  }
}

TEST(FleetClockTest, TwoComponentsHaveTwoTimelines) {
  SimulatedJob job;
  job.hosts = 2;
  job.steps = 10;
  FleetInput input = FleetSimulation(job).input;
  job.seed = 2;
  const FleetInput other = FleetSimulation(job).input;
  for (FleetRank rank : other.ranks) {
    rank.boot += 2;
    rank.rank += 2;
    for (CollectiveCall& call : rank.calls) call.group += 2;
    input.ranks.push_back(rank);
  }
  for (FleetBoot boot : other.boots) {
    boot.boot_id += "b";
    input.boots.push_back(boot);
  }
  for (FleetGroup group : other.groups) {
    for (int32_t& rank : group.ranks) rank += 2;
    input.groups.push_back(group);
  }
  const FleetClock clock = Solved(input);
  ASSERT_EQ(clock.timelines().size(), 2u);
  const auto timeline = [&](uint32_t boot) {
    return clock.TimelineOf(clock.pieces().first_pieces[boot]);
  };
  EXPECT_EQ(timeline(0), timeline(1));
  EXPECT_EQ(timeline(2), timeline(3));
  EXPECT_NE(timeline(0), timeline(2));
}

TEST(FleetClockTest, OneWayMessagesAloneDoNotPlaceABoot) {
  FleetInput input;
  input.boots = {{"a", "hosta"}, {"b", "hostb"}};
  input.groups = {{"pp", {0, 1}}};
  input.ranks = {{0, 0, 0}, {1, 0, 1}};
  for (int i = 0; i < 20; ++i) {
    CollectiveCall call;
    call.sequence = i;
    call.source = 0;
    call.destination = 1;
    call.kind = CollectiveKind::kSend;
    call.entered_ns = i * 1'000'000;
    call.left_ns = call.entered_ns + 1000;
    input.ranks[0].calls.push_back(call);
    call.kind = CollectiveKind::kRecv;
    call.left_ns += 50'000;
    input.ranks[1].calls.push_back(call);
  }
  EXPECT_EQ(Solved(input).timelines().size(), 2u);
  // Answers bind the other side.
  for (int i = 0; i < 20; ++i) {
    CollectiveCall call = input.ranks[0].calls[i];
    call.source = 1;
    call.destination = 0;
    call.entered_ns += 500'000;
    call.left_ns += 500'000;
    input.ranks[1].calls.push_back(call);
    call.kind = CollectiveKind::kRecv;
    call.left_ns += 30'000;
    input.ranks[0].calls.push_back(call);
  }
  const FleetClock clock = Solved(input);
  ASSERT_EQ(clock.timelines().size(), 1u);
  const auto time = clock.Map(1 - clock.timelines()[0].reference_boot, 10'000'000);
  EXPECT_LE(time->low_ns, 10'000'000);
  EXPECT_GE(time->high_ns, 10'000'000);
  EXPECT_LT(time->bound_ns(), 80'000);
  EXPECT_GT(time->likely_error_ns, time->bound_ns() * 9 / 10);  // nothing better is known
}

TEST(FleetClockTest, CollectiveHasItsLastRankAndItsTimesAddUp) {
  SimulatedJob job;
  job.late_host = 2;
  const FleetSimulation simulation(job);
  const FleetClock clock = Solved(simulation.input);
  int by_late_host = 0;
  int proved = 0;
  const size_t count = clock.moments().moments.size();
  for (size_t moment = 0; moment < count; ++moment) {
    const auto times = clock.TimesOf(moment);
    ASSERT_TRUE(times);
    const CollectiveTimes::Rank& last = times->ranks[times->entered_last];
    EXPECT_EQ(last.wait_ns, 0);
    by_late_host += simulation.input.ranks[last.rank].boot == 2 ? 1 : 0;
    proved += times->is_last_proved ? 1 : 0;
    for (const CollectiveTimes::Rank& rank : times->ranks) {
      EXPECT_EQ(rank.left_ns - rank.entered_ns, rank.wait_ns + times->transfer_ns + rank.tail_ns);
    }
  }
  EXPECT_EQ(by_late_host, static_cast<int>(count));
  EXPECT_LT(proved, static_cast<int>(count));  // its clock may be 20 ms off as well
}

TEST(FleetClockTest, ContradictionNamesHostsAndCollectives) {
  SimulatedJob job;
  job.hosts = 2;
  job.steps = 1;
  job.large_in_step = 0;
  FleetInput input = FleetSimulation(job).input;
  CollectiveCall call = input.ranks[0].calls[0];
  CollectiveCall other = input.ranks[1].calls[0];
  ++*call.sequence;
  ++*other.sequence;
  call.entered_ns += 50'000'000;
  call.left_ns += 50'000'000;
  input.ranks[0].calls.push_back(call);
  input.ranks[1].calls.push_back(other);
  other.left_ns = other.entered_ns += 1;
  const auto clock = SolveFleetClock(input, {});
  ASSERT_FALSE(clock.ok());
  EXPECT_EQ(clock.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(clock.status().message(), HasSubstr("host0000"));
  EXPECT_THAT(clock.status().message(), HasSubstr("host0001"));
  EXPECT_THAT(clock.status().message(), HasSubstr("collective 0 of group \"world\""));
  EXPECT_THAT(clock.status().message(), HasSubstr("collective 1 of group \"world\""));
}

TEST(FleetClockTest, SlewOfFiveHundredPpmStaysWithinTheBounds) {
  SimulatedJob job;
  job.hosts = 4;
  FleetSimulation simulation(job);
  // Halfway boot 1 begins to gain 500 us each second.
  const auto slewed = [&](int64_t local_ns) {
    const int64_t since_ns = local_ns - simulation.LocalAt(1, 30e9);
    return since_ns <= 0 ? local_ns : local_ns + since_ns / 2000;
  };
  for (CollectiveCall& call : simulation.input.ranks[1].calls) {
    call.entered_ns = slewed(call.entered_ns);
    call.left_ns = slewed(call.left_ns);
  }
  FleetOptions options;
  options.reference_boot_id = "boot0000";
  const FleetClock clock = Solved(simulation.input, options);
  for (double at_ns = 2e9; at_ns < 60e9; at_ns += 1e9) {
    const auto time = clock.Map(1, slewed(simulation.LocalAt(1, at_ns)));
    EXPECT_LE(time->low_ns, simulation.LocalAt(0, at_ns) + 2);
    EXPECT_GE(time->high_ns, simulation.LocalAt(0, at_ns) - 2);
  }
}

TEST(FleetClockTest, MissingRanksAreCountedAndTheOthersAligned) {
  SimulatedJob job;
  job.hosts = 4;
  job.ranks_per_host = 2;
  job.steps = 10;
  FleetSimulation simulation(job);
  simulation.input.ranks.erase(simulation.input.ranks.begin() + 3);
  simulation.input.ranks[0].calls.resize(50);  // stopped early
  const FleetClock clock = Solved(simulation.input);
  const SimulationError error = CompareWithTruth(simulation, clock);
  EXPECT_EQ(error.outside, 0);
  EXPECT_EQ(error.unmapped, 0);
  // Host 1 has no rank in the group of rank 3: its collectives and the world's lack one.
  EXPECT_GE(clock.moments().incomplete, 210u);
}

TEST(FleetClockTest, ReferenceThatIsNotThereIsRefused) {
  FleetOptions options;
  options.reference_boot_id = "nowhere";
  const auto clock = SolveFleetClock({}, options);
  EXPECT_THAT(clock.status().message(), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace proftrace
