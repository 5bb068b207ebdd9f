#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/python_reading.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/session/record_session.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/tsc_clock.h"

// `--tier auto`: whether operators are recorded by the kernel's probes or by jumps.

namespace proftrace {
namespace {

constexpr int64_t kCountNs = 200'000'000;
// The longest time to wait for a first operator: a job that waits for its GPU or for data calls
// none for a while.
constexpr int64_t kLongestCountNs = 600'000'000;
constexpr int kCountPollMs = 20;

// Returns the reason `why` for jumps with the reason why they cannot be used.
std::string WithoutJumps(const std::string& why, const absl::Status& refused) {
  return why + ", and jumps cannot be used: " + std::string(refused.message());
}

std::string DescribeRate(const OperatorRates::Thread& thread, const TierChoice& choice) {
  return absl::StrFormat(
      "probes of the kernel would slow thread %u by about %.1f %% (%.0f operators a second, %.1f "
      "us "
      "each)",
      Raw(thread.tid), *choice.probes_percent, choice.operators_per_s,
      choice.ns_per_operator * 1e-3);
}

}  // namespace

std::vector<std::pair<Pid, const ProbePlan*>> RecordSession::PlansToCount() const {
  std::vector<std::pair<Pid, const ProbePlan*>> found;
  for (const auto& [pid, plan] : plans_) {
    if (plan.ok()) found.emplace_back(pid, &*plan);
  }
  const size_t named = found.size();
  for (const auto& [pid, plan] : child_plans_) {
    if (plan.ok()) found.emplace_back(Pid{pid}, &*plan);
  }
  // Forked children get their parents' plans.
  for (const Pid child : FindChildrenWithTorch()) {
    if (child_plans_.contains(Raw(child))) continue;
    Pid ancestor = child;
    for (int i = 0; i < kMostGenerations && Raw(ancestor) != 0; ++i) {
      ancestor = ReadParent(ancestor);
      const auto end = found.begin() + static_cast<std::ptrdiff_t>(named);
      const auto of = std::find_if(found.begin(), end,
                                   [&](const auto& known) { return known.first == ancestor; });
      if (of == end) continue;
      found.emplace_back(child, of->second);
      break;
    }
  }
  return found;
}

absl::StatusOr<std::vector<OperatorRates::Thread>> RecordSession::CountOperators(
    std::vector<Pid>* counted) {
  LinkSet links;
  for (const auto& [pid, plan] : PlansToCount()) {
    LinkSet added = processes_->AttachCounter(pid, *plan);
    if (added.empty()) continue;
    counted->push_back(pid);
    std::move(added.begin(), added.end(), std::back_inserter(links));
  }
  if (counted->empty()) return std::vector<OperatorRates::Thread>();
  rates_.Begin(*counted);
  const int64_t begin_ns = MonotonicNs();
  absl::Status status;
  int64_t passed_ns = 0;
  while (status.ok() && !stop_.load(std::memory_order_relaxed) &&
         (passed_ns < kCountNs || (rates_.operators() == 0 && passed_ns < kLongestCountNs))) {
    status = Drain(kCountPollMs);
    passed_ns = MonotonicNs() - begin_ns;
  }
  // The counter itself has slowed the threads, which End() takes into account.
  std::vector<OperatorRates::Thread> threads = rates_.End(programs_->ns_per_hit());
  if (!status.ok()) return status;
  return threads;
}

// Fails for a process whose Python stacks only probes can read, so that it gets no jumps: stacks
// that the user asked for are worth more than the time that jumps save.
absl::Status RecordSession::CheckStacksByJumps(Pid pid) const {
  if (!options_.bpf.with_stack || !programs_->reads_stacks()) return absl::OkStatus();
  const absl::StatusOr<PythonReading> python = ReadPython(pid);
  // Where there is no Python that can be read, probes read no stacks either.
  if (!python.ok() || python->state_place.ok()) return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit,
              absl::StrFormat("rows of PID %u would have no Python stacks: %s", Raw(pid),
                              python->state_place.status().message()));
}

// Chooses jumps for the processes that probes would slow by more than the limit. The others keep
// probes.
bool RecordSession::ChooseByRates(const std::vector<Pid>& counted,
                                  const std::vector<OperatorRates::Thread>& threads,
                                  TierChoice* choice) {
  choice->ns_per_operator = UsualProbeNsPerOperator();
  const auto percent_of = [&](const OperatorRates::Thread& thread) {
    return 1e-7 * thread.operators_per_s() * choice->ns_per_operator;
  };
  std::map<Pid, double> percents;
  for (const Pid pid : counted) percents[pid] = 0;
  for (const OperatorRates::Thread& thread : threads) {
    double& percent = percents[thread.pid];
    percent = std::max(percent, percent_of(thread));
  }
  const auto busiest = std::max_element(
      threads.begin(), threads.end(),
      [&](const auto& one, const auto& other) { return percent_of(one) < percent_of(other); });
  if (busiest == threads.end()) {
    choice->probes_percent = 0;
    choice->reason = "no operator was called for a moment, so that probes cost nothing";
    return false;
  }
  choice->probes_percent = percent_of(*busiest);
  choice->operators_per_s = busiest->operators_per_s();
  choice->tid = busiest->tid;
  choice->reason = DescribeRate(*busiest, *choice);
  if (*choice->probes_percent <= choice->limit_percent) {
    choice->reason += absl::StrFormat(", not more than --auto-limit %g%%", choice->limit_percent);
    return false;
  }
  choice->reason += absl::StrFormat(", more than --auto-limit %g%%", choice->limit_percent);
  const absl::Status clock = CheckTimeStampCounter();
  absl::Status refused;
  size_t with_jumps = 0;
  size_t without = 0;
  for (const auto& [pid, percent] : percents) {
    absl::Status one;
    if (percent > choice->limit_percent) {
      one = clock.ok() ? CheckPatchable(pid) : clock;
      if (one.ok()) one = CheckStacksByJumps(pid);
      ++(one.ok() ? with_jumps : without);
    }
    if (percent <= choice->limit_percent || !one.ok()) stay_on_probes_.push_back(pid);
    if (!one.ok()) refused = std::move(one);
  }
  if (with_jumps > 0 && without > 0) {
    choice->reason += absl::StrFormat(
        "; %u of the %u busy processes %s probes, because jumps "
        "cannot be used there: %s",
        without, with_jumps + without, without == 1 ? "keeps" : "keep", refused.message());
  }
  if (with_jumps > 0) return true;
  choice->reason = WithoutJumps(choice->reason, refused);
  choice->are_jumps_refused = true;
  return false;
}

absl::Status RecordSession::ChooseTier() {
  if (options_.tier != Tier::kAuto || !options_.info.system.operators) return absl::OkStatus();
  TierChoice choice;
  choice.limit_percent = options_.auto_limit_percent;
  if (!programs_->is_loaded()) {
    puts_jumps_ = true;
    choice.reason = "there is no eBPF here, as `unsupported` says";
  } else if (programs_->api() == UprobeApi::kPerf || programs_->are_links_for_all()) {
    const absl::Status clock = CheckTimeStampCounter();
    puts_jumps_ = clock.ok();
    choice.are_jumps_refused = !clock.ok();
    choice.reason = "this kernel's probes take long to go out, or slow other processes as well";
    if (!clock.ok()) choice.reason = WithoutJumps(choice.reason, clock);
  } else if (!options_.awaited.empty()) {
    puts_jumps_ = CheckTimeStampCounter().ok();
    choice.reason = "what probes would cost a job that is yet to start is not known";
  } else {
    processes_ = MakeProcesses();
    std::vector<Pid> counted;
    const auto threads = CountOperators(&counted);
    processes_.reset();
    if (!threads.ok()) return threads.status();
    if (counted.empty()) {
      choice.reason = "there was no process whose operators could be counted";
    } else {
      puts_jumps_ = ChooseByRates(counted, *threads, &choice);
    }
    // Processes that start later cannot be counted beforehand.
    if (options_.all && !puts_jumps_ && !choice.are_jumps_refused && CheckTimeStampCounter().ok()) {
      puts_jumps_ = true;
      stay_on_probes_ = counted;
      choice.reason += "; processes that start later get jumps";
    }
  }
  info_.tier = puts_jumps_ ? "patch" : "bpf";
  info_.tier_choice = std::move(choice);
  return absl::OkStatus();
}

absl::Status RecordSession::PrepareJumps() {
  const absl::StatusOr<JumpCost> jump_cost = MeasureJumpCost();
  if (!jump_cost.ok()) return jump_cost.status();
  jump_cost_ = *jump_cost;
  // The BPF programs are loaded anew, because those that read stacks have to know of the jumps
  // beside them.
  if (options_.tier == Tier::kAuto && options_.bpf.with_stack && programs_->is_loaded()) {
    programs_.reset();
    if (absl::Status status = LoadPrograms(); !status.ok()) return status;
  }
  patch_ = std::make_unique<PatchRecorder>(
      /*alone=*/!programs_->is_loaded(), options_.bpf.with_stack, options_.plan.cache_directory,
      [this](std::span<const std::byte> record) {
        if (processes_ != nullptr) processes_->OnModule(record);
      });
  if (options_.bpf.with_stack) {
    stacks_ = std::make_unique<StackMerger>([this](Pid pid, uint64_t code, uint32_t copy) {
      return patch_->DistanceOfCopy(pid, code, copy);
    });
  }
  return absl::OkStatus();
}

absl::Status RecordSession::WithoutEitherTier(const absl::Status& attached) const {
  if (options_.tier != Tier::kAuto || without_bpf_.empty() || options_.without_bpf) return attached;
  return Fail(ExitCodeOf(attached), without_bpf_ +
                                        "; and jumps, which need no eBPF, cannot be used: " +
                                        std::string(attached.message()));
}

bool RecordSession::NoteTier() {
  if (!info_.tier_choice.has_value() || patch_ == nullptr) return false;
  const bool has_jumps = patch_->has_patched() || processes_->process_count() == 0;
  const std::string before = std::exchange(info_.tier, has_jumps ? "patch" : "bpf");
  return info_.tier != before;
}

void RecordSession::TellTier() {
  if (!info_.tier_choice.has_value()) return;
  TierChoice& choice = *info_.tier_choice;
  NoteTier();
  // Processes that turned out to be unfit for jumps have probes.
  const std::string why = processes_->jumps_refused();
  if (info_.tier == "bpf" && !why.empty()) {
    choice.are_jumps_refused = true;
    choice.reason += ", and jumps cannot be used: " + why;
  }
  sink_.AddMetadata([&](MetadataWriter& writer) { writer.AddTierChoice(choice); });
  // Where there is no eBPF, the user learns that by on_without_bpf instead.
  if (callbacks_.on_tier && without_bpf_.empty()) callbacks_.on_tier(info_.tier, choice);
}

}  // namespace proftrace
