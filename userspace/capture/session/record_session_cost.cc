#include <algorithm>
#include <iterator>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/session/record_session.h"

// What a recording costs the job: the measurements before and after the window, and the estimate
// from them.

namespace proftrace {
namespace {

constexpr int kCostPollMs = 20;
// The CPU time of the stretch with one probe, before and after the window, and the limits of its
// length. An idle job gives no figure. On a busy host it takes longer until a job has used that CPU
// time. The early stretch is short, because the user waits for it.
constexpr int64_t kEarlyCpuNs = 70'000'000;
constexpr int64_t kAfterCpuNs = 150'000'000;
constexpr int64_t kLongestPerCpu = 4;
constexpr int64_t kIdleNs = 150'000'000;
constexpr int64_t kLongestCostNs = 100'000'000;
constexpr int64_t kCpuLookNs = 250'000'000;
// The length of a stretch. In shorter stretches the CPU time that the kernel has not yet counted
// matters too much.
constexpr int64_t kStretchNs = 450'000'000;
// The CPU time that a process must have used before it can be taken for the one that works.
constexpr int64_t kBusyNs = 50'000'000;

// The factor by which a hit costs the job more than was measured, as found with jobs of several
// kinds (tests/bench/RESULTS.md).
constexpr double kWarmFactor = 1.15;
constexpr double kColdFactor = 1.8;
// The standard deviation of that factor between jobs. For cold hits it is greater.
constexpr double kWarmSpread = 0.2;
constexpr double kColdSpread = 0.7;
// A further factor where only a loop in proftrace was measured, which is warmer than two probes in
// a job.
constexpr double kFactorOfLoop = 1.1;
// The deviation where probes read Python's stacks. A pair of probes reads none, so its price says
// little, and the deviation is so great that only a comparison with the job's CPU time counts.
constexpr double kSpreadWithStacks = 5;
// The coldness that is assumed where too few hits were seen.
constexpr double kUsualColdness = 0.7;
// The factor, its deviation and its least value for jumps, whose measured cost is further from what
// jobs pay.
constexpr double kJumpFactor = 1.3;
constexpr double kJumpSpread = 0.6;
constexpr double kLeastJumpFactor = 0.3;

// The usual cost of the probes at an operator, which is needed before anything is recorded. Found
// with the jobs of tests/bench/told_cost.py (RESULTS.md).
constexpr double kHitsOfOperator = 2.3;
constexpr double kInputsNsOfOperator = 500;
constexpr double kStackNsOfOperator = 2000;

}  // namespace

double RecordSession::UsualProbeNsPerOperator() const {
  const double factor =
      kFactorOfLoop * (kWarmFactor + kUsualColdness * (kColdFactor - kWarmFactor));
  double ns = kHitsOfOperator * factor * programs_->ns_per_hit();
  if (options_.bpf.record_shapes) ns += kInputsNsOfOperator;
  if (options_.bpf.with_stack) ns += kStackNsOfOperator;
  return ns;
}

LinkSet RecordSession::AttachCounters() {
  LinkSet links;
  for (const auto& [pid, plan] : plans_) {
    if (!plan.ok()) continue;
    LinkSet added = processes_->AttachCounter(pid, *plan);
    if (added.empty()) continue;
    stretch_.Add(pid);
    std::move(added.begin(), added.end(), std::back_inserter(links));
  }
  return links;
}

bool RecordSession::CanCompare() const {
  // Links for all processes are hit by other processes, too.
  return programs_->is_loaded() && programs_->api() != UprobeApi::kPerf && !options_.all &&
         !programs_->are_links_for_all() && options_.info.system.operators;
}

bool RecordSession::ComparesEarly() const {
  // Beside jumps no probe may go in.
  return patch_ == nullptr &&
         (options_.max_overhead_percent.has_value() || options_.flight.has_value());
}

absl::Status RecordSession::MeasureStretch(int64_t most_cpu_ns) {
  stretch_.Begin();
  const int64_t begin_ns = MonotonicNs();
  absl::Status status;
  int64_t passed_ns = 0;
  while (status.ok() && passed_ns < kLongestPerCpu * most_cpu_ns &&
         stretch_.UsedNs() < most_cpu_ns &&
         (passed_ns < kIdleNs || stretch_.UsedNs() > passed_ns / 50)) {
    status = Drain(kCostPollMs);
    passed_ns = MonotonicNs() - begin_ns;
  }
  stretch_.Cut();
  return status.ok() ? Drain(0) : status;
}

absl::Status RecordSession::MeasureAlone() {
  if (!CanCompare() || !ComparesEarly()) return absl::OkStatus();
  const LinkSet links = AttachCounters();
  if (stretch_.empty()) return absl::OkStatus();
  absl::Status status = MeasureStretch(kEarlyCpuNs);
  if (const auto stretch = stretch_.Take(0)) comparison_.SetAlone(*stretch);
  return status;
}

absl::Status RecordSession::MeasureAloneAfter() {
  // For a short window this measurement takes too long.
  const bool is_short = metered_until_ns_ - metered_from_ns_ < 2 * kStretchNs;
  if (!CanCompare() || ComparesEarly() || is_short || HasLost() || !AnyTargetAlive()) {
    return absl::OkStatus();
  }
  const std::optional<uint16_t> site = comparison_.ChooseCounted();
  if (!site.has_value() || !stretch_.followed().has_value()) return absl::OkStatus();
  const LinkSet links = processes_->AttachCounterAt(*stretch_.followed(), *site);
  if (links.empty()) return absl::OkStatus();
  absl::Status status = MeasureStretch(kAfterCpuNs);
  if (const auto stretch = stretch_.Take(0)) comparison_.SetAloneAfter(*stretch, *site);
  return status;
}

absl::Status RecordSession::MeasureHitInJob() {
  // Perf events by the thousand take the kernel minutes to remove. Beside jumps no probe may go in.
  if (programs_->api() == UprobeApi::kPerf || patch_ != nullptr) return absl::OkStatus();
  const LinkSet links = processes_->AttachCostPoints();
  if (links.empty()) return absl::OkStatus();
  measures_hit_ = true;
  stretch_.Begin();
  const int64_t until_ns = MonotonicNs() + kLongestCostNs;
  absl::Status status;
  while (status.ok() && MonotonicNs() < until_ns &&
         job_hit_cost_.pairs() < JobHitCost::kEnoughPairs) {
    status = Drain(kCostPollMs);
  }
  stretch_.Cut();
  if (status.ok()) status = Drain(0);
  KeepStretch();
  measures_hit_ = false;
  job_ns_per_hit_ = job_hit_cost_.median_ns();
  job_ns_per_call_ = job_hit_cost_.median_call_ns();
  probe_reuse_.SetCost(kWarmFactor * job_ns_per_hit_.value_or(programs_->ns_per_hit()));
  return status;
}

void RecordSession::KeepStretch() {
  const double ns_per_system_record = system_ == nullptr ? 0 : system_->ns_per_call().value_or(0);
  auto stretch = stretch_.Take(ns_per_system_record);
  if (stretch.has_value()) comparison_.AddRecorded(*std::move(stretch));
}

void RecordSession::FollowBusiest() {
  const std::optional<Pid> followed = stretch_.followed();
  Pid busiest = followed.value_or(Pid{});
  int64_t most_ns = followed.has_value() ? cpu_times_.Of(*followed).value_or(0) * 3 / 2 : kBusyNs;
  for (const Pid pid : processes_->pids()) {
    const int64_t used_ns = cpu_times_.Of(pid).value_or(0);
    if (used_ns <= most_ns) continue;
    busiest = pid;
    most_ns = used_ns;
  }
  if (busiest == followed.value_or(Pid{})) return;
  stretch_.Follow(busiest);
  comparison_.Forget();
  compares_ = false;
}

bool RecordSession::HasLost() {
  uint64_t lost = programs_->ReadCounters().ring_lost;
  if (patch_ != nullptr) lost += patch_->lost();
  return std::exchange(lost_compared_, lost) != lost;
}

void RecordSession::CompareStretch(int64_t now_ns) {
  if (!CanCompare()) return;
  // All records of the stretch before have come by now.
  KeepStretch();
  if (!ComparesEarly()) FollowBusiest();
  const bool is_changed = budget_ != nullptr && budget_->has_demoted();
  const bool has_lost = HasLost();
  if (has_lost && !ComparesEarly()) comparison_.Forget();
  if (is_changed || has_lost || !comparison_.wants_more()) {
    compares_ = false;
  } else if (!std::exchange(compares_, true)) {
    stretch_.Begin();
    last_cut_ns_ = now_ns;
  } else if (now_ns - last_cut_ns_ >= kStretchNs) {
    stretch_.Cut();
    last_cut_ns_ = now_ns;
  }
}

HitCost RecordSession::CostsOfHits() const {
  HitCost costs;
  const double probe_coldness = probe_reuse_.coldness().value_or(kUsualColdness);
  PredictedPrice price;
  price.usual_factor = (kWarmFactor + probe_coldness * (kColdFactor - kWarmFactor)) *
                       (job_ns_per_hit_ ? 1 : kFactorOfLoop);
  price.spread = kWarmSpread + probe_coldness * (kColdSpread - kWarmSpread);
  price.hit_ns = job_ns_per_hit_.value_or(programs_->ns_per_hit());
  price.reading_ns = std::max(0.0, job_ns_per_call_.value_or(price.hit_ns) - price.hit_ns);
  if (options_.bpf.with_stack) price.spread = kSpreadWithStacks;
  costs.stack = stack_cost_.median_ns();
  if (jump_cost_) {
    const double jump_coldness = jump_reuse_.coldness().value_or(kUsualColdness);
    costs.jump = jump_cost_->record.At(jump_coldness);
    costs.count_jump = jump_cost_->count.At(jump_coldness);
    price.usual_factor = kJumpFactor;
    price.spread = kJumpSpread;
    price.least_factor = kLeastJumpFactor;
    price.jump_ns = *costs.jump;
    price.stack_ns = costs.stack.value_or(0);
  }
  const PriceComparison::Factor factor = comparison_.Find(price);
  for (std::optional<double>* ns : {&costs.jump, &costs.count_jump, &costs.stack}) {
    if (ns->has_value()) **ns *= factor.value;
  }
  costs.in_tracer = factor.value * programs_->ns_per_hit();
  if (job_ns_per_hit_) costs.in_job = factor.value * *job_ns_per_hit_;
  if (job_ns_per_call_) costs.call_in_job = factor.value * *job_ns_per_call_;
  costs.is_compared = factor.is_compared;
  costs.error = factor.error;
  if (system_ != nullptr) costs.system = system_->ns_per_call();
  if (budget_ != nullptr) costs.counted = budget_->counted_ns();
  return costs;
}

void RecordSession::ReadCpuTimes(int64_t now_ns) {
  if (now_ns - last_cpu_look_ns_ < kCpuLookNs) return;
  last_cpu_look_ns_ = now_ns;
  cpu_times_.Read(WithProcesses([](auto& processes) { return processes.pids(); }));
  CompareStretch(now_ns);
}

Cost RecordSession::MeasureCost(int64_t window_ns, uint64_t lost) const {
  Cost cost = EstimateCost(meter_, jump_meter_, {window_ns, cpu_times_.all()}, lost, CostsOfHits());
  cost.tracer_cpu_s = ToSeconds(ProcessCpuNs() - cpu_at_start_ns_);
  return cost;
}

}  // namespace proftrace
