// A made-up job of many hosts whose clocks are known: what a right answer is can be told.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

struct SimulatedJob {
  uint64_t seed = 1;
  int hosts = 8;
  int ranks_per_host = 1;
  int steps = 60;
  double step_ns = 1e9;
  int large_in_step = 20;      // all-reduces of each group: a group has one rank of each host
  double large_ns = 2e6;       // their transfer
  double small_ns = 40e3;      // of the one all-reduce of the whole world in each step
  double lateness_ns = 500e3;  // of a rank's entering, mean
  double end_skew_ns = 20e3;   // of a rank's leaving, mean
  double offset_ns = 5e6;      // standard deviation
  double drift_ppm = 30;       // at most
  double wander_ppm = 0;       // at most, around the drift
  int late_host = -1;
  double late_host_ns = 20e6;
  double biased_ends_ns = 0;  // each host's ends are late by its own, at most
  bool is_numbered = true;
  double step_jitter_ns = 0;  // of a step's length, at most; 0: places in a step are random anyway
  bool is_periodic = false;   // all steps alike
};

// Five hosts that meet in eight large collectives in each of thirty steps.
inline SimulatedJob FiveHosts(uint64_t seed) {
  SimulatedJob job;
  job.seed = seed;
  job.hosts = 5;
  job.steps = 30;
  job.large_in_step = 8;
  return job;
}

class FleetSimulation {
 public:
  explicit FleetSimulation(const SimulatedJob& job) : job_(job), random_(job.seed) {
    for (int host = 0; host < job.hosts; ++host) MakeHost(host);
    for (int group = 0; group < job.ranks_per_host; ++group) {
      FleetGroup& members = input.groups.emplace_back();
      members.name = "dp" + std::to_string(group);
      for (int host = 0; host < job.hosts; ++host) {
        members.ranks.push_back(host * job.ranks_per_host + group);
      }
    }
    FleetGroup& world = input.groups.emplace_back();
    world.name = "world";
    for (int rank = 0; rank < job.hosts * job.ranks_per_host; ++rank) world.ranks.push_back(rank);
    Run();
  }

  // A boot's local time at the true time `true_ns`.
  int64_t LocalAt(uint32_t boot, double true_ns) const {
    const Clock& clock = clocks_[boot];
    double local_ns = true_ns + clock.offset_ns + clock.drift * true_ns +
                      clock.wander_ns * std::sin(true_ns / kWanderPeriodNs + clock.phase);
    if (true_ns >= clock.jump_at_ns) local_ns += clock.jump_ns * (1 + clock.drift);
    return static_cast<int64_t>(std::llround(local_ns));
  }
  double end_ns() const { return end_ns_; }

  // Before the calls are made anew by Rerun(): the clock of a boot jumps.
  void JumpAt(uint32_t boot, double true_ns, double by_ns) {
    clocks_[boot].jump_at_ns = true_ns;
    clocks_[boot].jump_ns = by_ns;
  }
  void SetDrift(uint32_t boot, double ppm) { clocks_[boot].drift = ppm * 1e-6; }
  void Rerun() {
    for (FleetRank& rank : input.ranks) rank.calls.clear();
    random_.seed(job_.seed);
    Run();
  }

  FleetInput input;

 private:
  struct Clock {
    double offset_ns = 0;
    double drift = 0;
    double wander_ns = 0;
    double phase = 0;
    double biased_ns = 0;
    double jump_at_ns = 1e300;
    double jump_ns = 0;
  };
  static constexpr double kWanderPeriodNs = 100e9 / (2 * std::numbers::pi);

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  double Exponential(double mean) {
    return mean <= 0 ? 0 : std::exponential_distribution<double>(1 / mean)(random_);
  }

  void MakeHost(int host) {
    std::string name = std::to_string(host);
    name.insert(0, name.size() < 4 ? 4 - name.size() : 0, '0');
    input.boots.push_back({"boot" + name, "host" + name});
    Clock& clock = clocks_.emplace_back();
    clock.offset_ns = 1e12 + std::normal_distribution<double>(0, job_.offset_ns)(random_);
    clock.drift = Uniform(-job_.drift_ppm, job_.drift_ppm) * 1e-6;
    clock.wander_ns = job_.wander_ppm * 1e-6 * kWanderPeriodNs;
    clock.phase = Uniform(0, 6.28);
    clock.biased_ns = Uniform(0, job_.biased_ends_ns);
    for (int local = 0; local < job_.ranks_per_host; ++local) {
      input.ranks.push_back({host * job_.ranks_per_host + local, 0, static_cast<uint32_t>(host)});
    }
  }

  void Run() {
    const auto world = static_cast<uint32_t>(job_.ranks_per_host);
    int64_t number = 0;
    int64_t world_number = 0;
    double start_ns = 1e9;
    std::vector<double> places;
    for (int step = 0; step < job_.steps; ++step) {
      for (int group = 0; group < job_.ranks_per_host; ++group) {
        if (!job_.is_periodic || places.empty()) {
          places.clear();
          for (int i = 0; i < job_.large_in_step; ++i) places.push_back(Uniform(0.1, 0.9));
          std::sort(places.begin(), places.end());
        }
        for (int i = 0; i < job_.large_in_step; ++i) {
          std::vector<uint32_t> ranks;
          for (int host = 0; host < job_.hosts; ++host) {
            ranks.push_back(static_cast<uint32_t>(host * job_.ranks_per_host + group));
          }
          Collective(ranks, static_cast<uint32_t>(group), number + i,
                     start_ns + places[i] * job_.step_ns, job_.large_ns);
        }
      }
      number += job_.large_in_step;
      std::vector<uint32_t> all(input.ranks.size());
      for (uint32_t rank = 0; rank < all.size(); ++rank) all[rank] = rank;
      Collective(all, world, world_number++, start_ns + 0.95 * job_.step_ns, job_.small_ns);
      start_ns += job_.step_ns + Uniform(0, job_.step_jitter_ns);
    }
    end_ns_ = start_ns;
  }

  void Collective(const std::vector<uint32_t>& ranks, uint32_t group, int64_t number, double at_ns,
                  double transfer_ns) {
    std::vector<double> entered;
    double last_ns = 0;
    for (const uint32_t rank : ranks) {
      const int host = static_cast<int>(input.ranks[rank].boot);
      const double late_ns = host == job_.late_host ? job_.late_host_ns : 0;
      entered.push_back(at_ns + Exponential(job_.lateness_ns) + late_ns);
      last_ns = std::max(last_ns, entered.back());
    }
    const double done_ns = last_ns + transfer_ns * Uniform(1, 1.2);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const uint32_t boot = input.ranks[ranks[i]].boot;
      CollectiveCall call;
      call.group = group;
      if (job_.is_numbered) call.sequence = number;
      call.bytes = static_cast<int64_t>(transfer_ns);
      const double left_ns = done_ns + Exponential(job_.end_skew_ns) + clocks_[boot].biased_ns;
      call.entered_ns = LocalAt(boot, entered[i]) + Stamp();
      call.left_ns = std::max(LocalAt(boot, left_ns) + Stamp(), call.entered_ns);
      input.ranks[ranks[i]].calls.push_back(call);
    }
  }

  // The error of a time stamp.
  int64_t Stamp() { return static_cast<int64_t>(random_() % 1801) - 900; }

  SimulatedJob job_;
  std::mt19937_64 random_;
  std::vector<Clock> clocks_;
  double end_ns_ = 0;
};

// How a solved clock compares to the truth.
struct SimulationError {
  int places = 0;         // times looked at, on boots other than the reference
  int outside = 0;        // true time is not within the bounds
  int beyond_likely = 0;  // farther off than the likely error
  int unmapped = 0;
  int64_t worst_ns = 0;
  std::vector<int64_t> bounds_ns;
  std::vector<int64_t> errors_ns;
};

template <typename Clock>
SimulationError CompareWithTruth(const FleetSimulation& job, const Clock& clock) {
  SimulationError error;
  const uint32_t reference = clock.timelines()[0].reference_boot;
  for (uint32_t boot = 0; boot < job.input.boots.size(); ++boot) {
    if (boot == reference) continue;
    for (double at_ns = 1.5e9; at_ns < job.end_ns() - 0.5e9; at_ns += job.end_ns() / 11) {
      const int64_t truth_ns = job.LocalAt(reference, at_ns);
      const auto time = clock.Map(boot, job.LocalAt(boot, at_ns));
      if (!time || time->timeline != 0) {
        ++error.unmapped;
        continue;
      }
      ++error.places;
      const int64_t off_ns = std::abs(time->common_ns - truth_ns);
      error.outside += truth_ns < time->low_ns - 2 || truth_ns > time->high_ns + 2 ? 1 : 0;
      error.beyond_likely += off_ns > time->likely_error_ns ? 1 : 0;
      error.worst_ns = std::max(error.worst_ns, off_ns);
      error.errors_ns.push_back(off_ns);
      error.bounds_ns.push_back(time->bound_ns());
    }
  }
  return error;
}

}  // namespace proftrace
