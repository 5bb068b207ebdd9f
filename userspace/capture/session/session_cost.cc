#include "userspace/capture/session/session_cost.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "userspace/capture/cost/recording_cost.h"

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

}  // namespace

bool SessionCost::CanCompare() const {
  // Links for all processes are hit by other processes, too.
  return parts_.programs->is_loaded() && parts_.programs->api() != UprobeApi::kPerf &&
         !parts_.options.all && !parts_.programs->are_links_for_all() &&
         parts_.options.info.system.operators;
}

bool SessionCost::ComparesEarly() const {
  // Beside jumps no probe may go in.
  return parts_.patch == nullptr &&
         (parts_.options.max_overhead_percent.has_value() || parts_.options.flight.has_value());
}

absl::Status SessionCost::MeasureStretch(int64_t most_cpu_ns) {
  stretch_.Begin();
  const int64_t begin_ns = MonotonicNs();
  absl::Status status;
  int64_t passed_ns = 0;
  while (status.ok() && passed_ns < kLongestPerCpu * most_cpu_ns &&
         stretch_.UsedNs() < most_cpu_ns &&
         (passed_ns < kIdleNs || stretch_.UsedNs() > passed_ns / 50)) {
    status = session_.drain(kCostPollMs);
    passed_ns = MonotonicNs() - begin_ns;
  }
  stretch_.Cut();
  return status.ok() ? session_.drain(0) : status;
}

absl::Status SessionCost::MeasureBefore(
    const std::vector<std::pair<Pid, absl::StatusOr<ProbePlan>>>& plans) {
  if (!CanCompare() || !ComparesEarly()) return absl::OkStatus();
  LinkSet links;
  for (const auto& [pid, plan] : plans) {
    if (!plan.ok()) continue;
    LinkSet added = parts_.processes->AttachCounter(pid, *plan);
    if (added.empty()) continue;
    stretch_.Add(pid);
    std::move(added.begin(), added.end(), std::back_inserter(links));
  }
  if (stretch_.empty()) return absl::OkStatus();
  absl::Status status = MeasureStretch(kEarlyCpuNs);
  if (const auto stretch = stretch_.Take({})) comparison_.SetAlone(*stretch);
  return status;
}

absl::Status SessionCost::MeasureAfter() {
  // For a short window this measurement takes too long.
  const bool is_short = until_ns_ - from_ns_ < 2 * kStretchNs;
  if (!CanCompare() || ComparesEarly() || is_short || HasLost() ||
      !session_.is_any_target_alive()) {
    return absl::OkStatus();
  }
  const std::optional<uint16_t> site = comparison_.ChooseCounted();
  if (!site.has_value() || !stretch_.followed().has_value()) return absl::OkStatus();
  const LinkSet links = parts_.processes->AttachCounterAt(*stretch_.followed(), *site);
  if (links.empty()) return absl::OkStatus();
  absl::Status status = MeasureStretch(kAfterCpuNs);
  if (const auto stretch = stretch_.Take({})) comparison_.SetAloneAfter(*stretch, *site);
  return status;
}

absl::Status SessionCost::MeasureInJob() {
  // Perf events by the thousand take the kernel minutes to remove. Beside jumps no probe may go in.
  if (parts_.programs->api() == UprobeApi::kPerf || parts_.patch != nullptr) {
    return absl::OkStatus();
  }
  const LinkSet links = parts_.processes->AttachCostPoints();
  if (links.empty()) return absl::OkStatus();
  prices_.BeginInJob();
  stretch_.Begin();
  const int64_t until_ns = MonotonicNs() + kLongestCostNs;
  absl::Status status;
  while (status.ok() && MonotonicNs() < until_ns && !prices_.has_enough_pairs()) {
    status = session_.drain(kCostPollMs);
  }
  stretch_.Cut();
  if (status.ok()) status = session_.drain(0);
  KeepStretch();
  prices_.EndInJob(parts_.programs->ns_per_hit());
  return status;
}

void SessionCost::KeepStretch() {
  auto stretch = stretch_.Take(CostOfSystem().value_or(SystemCost()));
  if (stretch.has_value()) comparison_.AddRecorded(*std::move(stretch));
}

void SessionCost::FollowBusiest() {
  const std::optional<Pid> followed = stretch_.followed();
  Pid busiest = followed.value_or(Pid{});
  int64_t most_ns = followed.has_value() ? cpu_times_.Of(*followed).value_or(0) * 3 / 2 : kBusyNs;
  for (const Pid pid : parts_.processes->pids()) {
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

bool SessionCost::HasLost() {
  uint64_t lost = parts_.programs->ReadCounters().ring_lost;
  if (parts_.patch != nullptr) lost += parts_.patch->lost();
  return std::exchange(lost_compared_, lost) != lost;
}

void SessionCost::CompareStretch(int64_t now_ns) {
  if (!CanCompare()) return;
  // All records of the stretch before have come by now.
  KeepStretch();
  if (!ComparesEarly()) FollowBusiest();
  const bool is_changed = parts_.budget != nullptr && parts_.budget->has_demoted();
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

std::optional<SystemCost> SessionCost::CostOfSystem() const {
  if (parts_.system == nullptr) return std::nullopt;
  return parts_.system->cost();
}

HitCost SessionCost::CostsOfHits() const {
  HitCost costs =
      prices_.Find(parts_.programs->ns_per_hit(), parts_.options.bpf.with_stack, comparison_);
  costs.system = CostOfSystem();
  if (parts_.budget != nullptr) costs.counted = parts_.budget->counted_ns();
  return costs;
}

double SessionCost::UsualProbeNsPerOperator() const {
  return HitPrices::UsualNsPerOperator(parts_.programs->ns_per_hit(),
                                       parts_.options.bpf.record_shapes,
                                       parts_.options.bpf.with_stack);
}

void SessionCost::BeginWindow(int64_t start_ns) {
  from_ns_ = start_ns;
  cpu_times_.Begin(session_.pids());
}

void SessionCost::EndWindow(int64_t end_ns) {
  until_ns_ = end_ns;
  last_cpu_look_ns_ = 0;
  ReadCpuTimes(end_ns);
}

void SessionCost::ReadCpuTimes(int64_t now_ns) {
  if (now_ns - last_cpu_look_ns_ < kCpuLookNs) return;
  last_cpu_look_ns_ = now_ns;
  cpu_times_.Read(session_.pids());
  CompareStretch(now_ns);
}

Cost SessionCost::Measure(int64_t window_ns, uint64_t lost) const {
  Cost cost =
      EstimateCost(meter(), jump_meter(), {window_ns, cpu_times_.all()}, lost, CostsOfHits());
  cost.tracer_cpu_s = ToSeconds(ProcessCpuNs() - cpu_at_start_ns_);
  return cost;
}

}  // namespace proftrace
