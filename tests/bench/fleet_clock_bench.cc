// What it takes to put a simulated fleet on one clock, and how right the answer is:
// fleet_clock_bench [HOSTS RANKS_PER_HOST STEPS LARGE_IN_STEP SEEDS]. Exit code 1: a true time lies
// outside of its bounds, or more than one in twenty farther off than the likely error.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "tests/support/fleet_simulation.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {
namespace {

double Microseconds(std::vector<int64_t> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  return static_cast<double>(values[static_cast<size_t>(place)]) / 1000;
}

// Times that were looked at with all seeds, and those that the likely error did not cover.
struct Coverage {
  int64_t places = 0;
  int64_t beyond_likely = 0;
  bool is_right = true;
};

void Measure(const char* name, const SimulatedJob& job, Coverage& coverage) {
  const FleetSimulation simulation(job);
  size_t rows = 0;
  for (const FleetRank& rank : simulation.input.ranks) rows += rank.calls.size();
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  const auto clock = SolveFleetClock(simulation.input, {});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double cpu_s = static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  if (!clock.ok()) {
    std::printf("%s, seed %d: %s\n", name, static_cast<int>(job.seed),
                std::string(clock.status().message()).c_str());
    coverage.is_right = false;
    return;
  }
  const SimulationError error = CompareWithTruth(simulation, *clock);
  std::printf(
      "%s, seed %d: %zu rows, %.2f s (CPU %.2f s), %ld MB | bound %.1f, worst %.1f us | error "
      "%.2f, worst %.2f "
      "us | of %d times outside %d, beyond likely %d, unmapped %d\n",
      name, static_cast<int>(job.seed), rows, took.count(), cpu_s, usage.ru_maxrss / 1024,
      Microseconds(error.bounds_ns, 0.5), Microseconds(error.bounds_ns, 1),
      Microseconds(error.errors_ns, 0.5), Microseconds(error.errors_ns, 1), error.places,
      error.outside, error.beyond_likely, error.unmapped);
  std::fflush(stdout);
  coverage.places += error.places;
  coverage.beyond_likely += error.beyond_likely;
  coverage.is_right = coverage.is_right && error.outside == 0 && error.unmapped == 0;
}

int Run(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  SimulatedJob job;
  job.hosts = argument(1, 125);
  job.ranks_per_host = argument(2, 8);
  job.steps = argument(3, 60);
  job.large_in_step = argument(4, 20);
  const int seeds = argument(5, 1);
  std::array<Coverage, 4> coverages;
  for (int seed = 1; seed <= seeds; ++seed) {
    job.seed = static_cast<uint64_t>(seed);
    Measure("balanced", job, coverages[0]);
    SimulatedJob late = job;
    late.late_host = job.hosts / 2;
    Measure("one host always last by 20 ms", late, coverages[1]);
    SimulatedJob far = job;
    far.offset_ns = 2e9;
    far.drift_ppm = 100;
    far.wander_ppm = 0.4;
    Measure("offsets of 2 s, 100 ppm, wander 0.4 ppm", far, coverages[2]);
    SimulatedJob gloo = job;
    gloo.large_in_step = 2;
    gloo.large_ns = 1e6;
    gloo.small_ns = gloo.end_skew_ns = 300e3;
    Measure("gloo-like", gloo, coverages[3]);
  }
  bool is_right = true;
  for (const Coverage& of : coverages) {
    is_right = is_right && of.is_right && of.beyond_likely * 20 <= of.places;
    std::printf("beyond likely: %.2f %%\n",
                100.0 * static_cast<double>(of.beyond_likely) /
                    static_cast<double>(std::max<int64_t>(1, of.places)));
  }
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) { return proftrace::Run(argc, argv); }
