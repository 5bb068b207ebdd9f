// Small jobs made up at random, of which one clock may be in trouble. The truth is known.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {

enum class ClockTrouble : uint8_t {
  kNone,         // half of the hosts have snapshots of their clocks
  kNoneWatched,  // all of them have
  kStep,         // the clock jumps once, by 50 us to 50 ms; as below, it has no snapshots
  kStepAtEdge,   // it does so in or beside the first or the last collective
  kSlew,         // its rate changes by up to 500 ppm for a while
  kStretch,      // it gains 1 to 50 ms on the way from the first collective to the last
  kMoved,        // it jumps between snapshots that do not show that, as of a moved virtual machine
};
inline constexpr std::array kClockTroubles = {
    ClockTrouble::kNone, ClockTrouble::kNoneWatched, ClockTrouble::kStep, ClockTrouble::kStepAtEdge,
    ClockTrouble::kSlew, ClockTrouble::kStretch,     ClockTrouble::kMoved};

class TroubledFleet {
 public:
  TroubledFleet(uint64_t seed, ClockTrouble trouble) : random_(seed), trouble_(trouble) {
    const int hosts = Whole(2, 6);
    for (int host = 0; host < hosts; ++host) MakeHost(host);
    input.groups.push_back({"world", {}});
    for (const FleetRank& rank : input.ranks) input.groups[0].ranks.push_back(rank.rank);
    PlaceCollectives();
    MakeTrouble();
    MakeCalls();
    for (uint32_t boot = 0; boot < input.boots.size(); ++boot) MakeSnapshots(boot);
  }

  // Returns a boot's local time at the true time `true_ns`.
  int64_t LocalAt(uint32_t boot, double true_ns) const {
    const Clock& clock = clocks_[boot];
    double local_ns = clock.offset_ns + true_ns * (1 + clock.drift) +
                      clock.wander_ns * std::sin(true_ns / kWanderPeriodNs + clock.phase);
    if (boot == odd_) local_ns += TroubleAt(true_ns);
    return static_cast<int64_t>(std::llround(local_ns));
  }

  size_t collectives() const { return begins_ns_.size(); }
  double scatter_ns() const { return end_scatter_ns_; }

  FleetInput input;
  // Times at which ranks enter or leave, by boot
  std::vector<std::vector<double>> events_ns;

 private:
  struct Clock {
    double offset_ns = 0;
    double drift = 0;
    double wander_ns = 0;
    double phase = 0;
    bool has_snapshots = false;
  };
  static constexpr double kWanderPeriodNs = 16e9;

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int Whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  // Returns a number whose logarithm is even between those of the two.
  double Scale(double low, double high) { return std::exp(Uniform(std::log(low), std::log(high))); }
  double Exponential(double mean) {
    return std::exponential_distribution<double>(1 / mean)(random_);
  }

  void MakeHost(int host) {
    input.boots.push_back({"boot" + std::to_string(host), "host" + std::to_string(host), {}});
    Clock& clock = clocks_.emplace_back();
    clock.offset_ns = 1e13 + Uniform(-1, 1) * Scale(1e6, 4e12);
    clock.drift = Uniform(-100e-6, 100e-6);
    clock.wander_ns = Uniform(0, 0.4e-6) * kWanderPeriodNs;
    clock.phase = Uniform(0, 6.28);
    clock.has_snapshots = Uniform(0, 1) < 0.5 || trouble_ == ClockTrouble::kNoneWatched ||
                          trouble_ == ClockTrouble::kMoved;
    const int ranks = Whole(1, 2);
    for (int i = 0; i < ranks; ++i) {
      input.ranks.push_back(
          {static_cast<int32_t>(input.ranks.size()), 0, static_cast<uint32_t>(host), {}});
    }
  }

  void PlaceCollectives() {
    const int count = static_cast<int>(Scale(4, 150));
    const double apart_ns = Scale(5e6, 1e9);
    double at_ns = 1e9;
    for (int i = 0; i < count; ++i) {
      begins_ns_.push_back(at_ns);
      at_ns += apart_ns * Uniform(0.3, 1.7);
    }
    end_ns_ = at_ns;
    transfer_ns_ = Scale(20e3, 5e6);
    lateness_ns_ = Scale(10e3, 2e6);
    end_scatter_ns_ = Scale(1e3, 300e3);
    late_host_ = Uniform(0, 1) < 0.3 ? Whole(0, static_cast<int>(input.boots.size()) - 1) : -1;
    late_ns_ = Scale(1e6, 20e6);
  }

  void MakeTrouble() {
    odd_ = static_cast<uint32_t>(Whole(0, static_cast<int>(input.boots.size()) - 1));
    const double sign = Uniform(0, 1) < 0.5 ? -1 : 1;
    const double first_ns = begins_ns_.front();
    const double last_ns = begins_ns_.back();
    amount_ns_ = sign * Scale(50e3, 50e6);
    at_ns_ = Uniform(first_ns, last_ns);
    until_ns_ = at_ns_;
    if (trouble_ == ClockTrouble::kStepAtEdge) {
      const double room_ns = late_ns_ + transfer_ns_;
      at_ns_ = (Uniform(0, 1) < 0.5 ? first_ns : last_ns) + Uniform(-0.5, 1.5) * room_ns;
    } else if (trouble_ == ClockTrouble::kSlew) {
      until_ns_ = Uniform(at_ns_, end_ns_);
      amount_ns_ = sign * Scale(50e-6, 500e-6) * (until_ns_ - at_ns_);
    } else if (trouble_ == ClockTrouble::kStretch) {
      at_ns_ = first_ns - 10e6;
      until_ns_ = end_ns_;
      amount_ns_ = sign * Scale(1e6, 50e6);
      // A clock that runs backwards is no stretched one.
      amount_ns_ = std::max(amount_ns_, -0.5 * (until_ns_ - at_ns_));
    }
    if (trouble_ != ClockTrouble::kNone && trouble_ != ClockTrouble::kNoneWatched &&
        trouble_ != ClockTrouble::kMoved) {
      clocks_[odd_].has_snapshots = false;
    }
  }

  double TroubleAt(double true_ns) const {
    if (trouble_ == ClockTrouble::kNone || trouble_ == ClockTrouble::kNoneWatched) return 0;
    if (true_ns < at_ns_) return 0;
    if (until_ns_ <= at_ns_ || true_ns >= until_ns_) return amount_ns_;
    return amount_ns_ * (true_ns - at_ns_) / (until_ns_ - at_ns_);
  }

  void MakeCalls() {
    events_ns.resize(input.boots.size());
    int64_t number = 0;
    double free_ns = 0;  // when the ranks are free for the next collective
    for (const double at_ns : begins_ns_) {
      const bool is_broadcast = Uniform(0, 1) < 0.1;
      const auto root = static_cast<uint32_t>(Whole(0, static_cast<int>(input.ranks.size()) - 1));
      std::vector<double> entered_ns;
      double last_ns = 0;
      for (uint32_t rank = 0; rank < input.ranks.size(); ++rank) {
        const bool is_late = static_cast<int>(input.ranks[rank].boot) == late_host_;
        const double in_ns =
            std::max(at_ns, free_ns) + Exponential(lateness_ns_) + (is_late ? late_ns_ : 0);
        entered_ns.push_back(in_ns);
        if (!is_broadcast || rank == root) last_ns = std::max(last_ns, in_ns);
      }
      const double done_ns = last_ns + transfer_ns_ * Uniform(1, 1.3);
      for (uint32_t rank = 0; rank < input.ranks.size(); ++rank) {
        const double left_ns =
            std::max(entered_ns[rank], done_ns) + 1e3 + Exponential(end_scatter_ns_);
        AddCall(rank, number, is_broadcast ? static_cast<int32_t>(root) : -1, entered_ns[rank],
                left_ns);
        free_ns = std::max(free_ns, left_ns);
      }
      ++number;
    }
    end_ns_ = std::max(end_ns_, free_ns);
  }

  void AddCall(uint32_t rank, int64_t number, int32_t root, double entered_ns, double left_ns) {
    const uint32_t boot = input.ranks[rank].boot;
    CollectiveCall call;
    call.sequence = number;
    call.bytes = 4096;
    call.kind = root >= 0 ? CollectiveKind::kBroadcast : CollectiveKind::kAllToAll;
    call.root = root;
    call.entered_ns = LocalAt(boot, entered_ns) + Stamp();
    // What is set back during a call cannot be shorter than nothing.
    call.left_ns = std::max(LocalAt(boot, left_ns) + Stamp(), call.entered_ns);
    input.ranks[rank].calls.push_back(call);
    events_ns[boot].push_back(entered_ns);
    events_ns[boot].push_back(left_ns);
  }

  // The snapshots show the wall clock, which is half an hour ahead, and clocks without a slew.
  void MakeSnapshots(uint32_t boot) {
    if (!clocks_[boot].has_snapshots) return;
    for (double at_ns = 0.99e9; at_ns < end_ns_ + 10e9; at_ns += 10e9) {
      ClockSnapshot& snapshot = input.boots[boot].snapshots.emplace_back();
      snapshot.monotonic_ns = LocalAt(boot, std::min(at_ns, end_ns_ + 10e6));
      snapshot.monotonic_raw_ns = snapshot.monotonic_ns - 5'000'000;
      snapshot.boottime_ns = snapshot.monotonic_ns;
      snapshot.realtime_ns = snapshot.monotonic_ns + 1'800'000'000'000;
      snapshot.gap_ns = 100;
      if (at_ns > end_ns_) break;
    }
  }

  // The error of a time stamp.
  int64_t Stamp() { return static_cast<int64_t>(random_() % 1801) - 900; }

  std::mt19937_64 random_;
  ClockTrouble trouble_;
  std::vector<Clock> clocks_;
  std::vector<double> begins_ns_;
  double end_ns_ = 0;
  double transfer_ns_ = 0;
  double lateness_ns_ = 0;
  double end_scatter_ns_ = 0;
  int late_host_ = -1;
  double late_ns_ = 0;
  uint32_t odd_ = 0;
  double at_ns_ = 0;  // when the trouble begins
  double until_ns_ = 0;
  double amount_ns_ = 0;
};

// How a solved clock compares with the truth, over all times at which ranks enter or leave.
struct TroubledAnswer {
  bool is_solved = false;
  int64_t worst_outside_ns = 0;    // by how much the truth is outside of the told bounds; 0: never
  std::vector<int64_t> bounds_ns;  // of each aligned host but the reference, its worst
};

inline TroubledAnswer CompareWithTruth(const TroubledFleet& fleet) {
  TroubledAnswer answer;
  const auto clock = SolveFleetClock(fleet.input, {});
  if (!clock.ok()) return answer;
  const FleetTimeline& timeline = clock->timelines()[0];
  const uint32_t reference = timeline.reference_boot;
  const auto& firsts = clock->pieces().first_pieces;
  // The common clock is that of one piece, which the other pieces of the same clock do not show.
  if (firsts[reference + 1] - firsts[reference] > 1) return answer;
  answer.is_solved = true;
  const std::vector<ClockSnapshot>& snapshots = fleet.input.boots[reference].snapshots;
  const int64_t wall_ns =
      snapshots.empty() ? 0 : *snapshots[0].realtime_ns - snapshots[0].monotonic_ns;
  for (uint32_t boot = 0; boot < fleet.input.boots.size(); ++boot) {
    if (boot == reference) continue;
    std::optional<int64_t> worst_ns;
    for (const double true_ns : fleet.events_ns[boot]) {
      const auto time = clock->Map(boot, fleet.LocalAt(boot, true_ns));
      if (!time || time->timeline != 0) continue;
      const int64_t truth_ns = fleet.LocalAt(reference, true_ns) + wall_ns;
      worst_ns = std::max(worst_ns.value_or(0), time->bound_ns());
      answer.worst_outside_ns = std::max(
          {answer.worst_outside_ns, time->low_ns - 2 - truth_ns, truth_ns - time->high_ns - 2});
    }
    if (worst_ns) answer.bounds_ns.push_back(*worst_ns);
  }
  return answer;
}

}  // namespace proftrace
