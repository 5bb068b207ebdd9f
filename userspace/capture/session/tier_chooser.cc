#include "userspace/capture/session/tier_chooser.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "symbols/plan/python_reading.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/tsc_clock.h"

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

bool TierChooser::NeedsCount(const BpfPrograms& programs) const {
  return programs.is_loaded() && programs.api() != UprobeApi::kPerf &&
         !programs.are_links_for_all() && options_.awaited.empty();
}

absl::StatusOr<TierChooser::Counted> TierChooser::Count(
    const PlansByProcess& plans, const BpfPrograms& programs, ProcessSet* processes,
    const std::function<absl::Status(int timeout_ms)>& drain) {
  Counted counted;
  LinkSet links;
  for (const auto& [pid, plan] : plans) {
    LinkSet added = processes->AttachCounter(pid, *plan);
    if (added.empty()) continue;
    counted.pids.push_back(pid);
    std::move(added.begin(), added.end(), std::back_inserter(links));
  }
  if (counted.pids.empty()) return counted;
  rates_.Begin(counted.pids);
  const int64_t begin_ns = MonotonicNs();
  absl::Status status;
  int64_t passed_ns = 0;
  while (status.ok() && !stop_.load(std::memory_order_relaxed) &&
         (passed_ns < kCountNs || (rates_.operators() == 0 && passed_ns < kLongestCountNs))) {
    status = drain(kCountPollMs);
    passed_ns = MonotonicNs() - begin_ns;
  }
  // The counter itself has slowed the threads, which End() takes into account.
  counted.threads = rates_.End(programs.ns_per_hit());
  if (!status.ok()) return status;
  return counted;
}

// Fails for a process whose Python stacks only probes can read, so that it gets no jumps: stacks
// that the user asked for are worth more than the time that jumps save.
absl::Status TierChooser::CheckStacksByJumps(Pid pid, const BpfPrograms& programs) const {
  if (!options_.bpf.with_stack || !programs.reads_stacks()) return absl::OkStatus();
  const absl::StatusOr<PythonReading> python = ReadPython(pid);
  // Where there is no Python that can be read, probes read no stacks either.
  if (!python.ok() || python->state_place.ok()) return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit,
              absl::StrFormat("rows of PID %u would have no Python stacks: %s", Raw(pid),
                              python->state_place.status().message()));
}

// Chooses jumps for the processes that probes would slow by more than the limit. The others keep
// probes.
void TierChooser::ChooseByRates(const Counted& counted, const BpfPrograms& programs,
                                Chosen* chosen) const {
  TierChoice* const choice = &chosen->told;
  const std::vector<OperatorRates::Thread>& threads = counted.threads;
  const auto percent_of = [&](const OperatorRates::Thread& thread) {
    return 1e-7 * thread.operators_per_s() * choice->ns_per_operator;
  };
  std::map<Pid, double> percents;
  for (const Pid pid : counted.pids) percents[pid] = 0;
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
    return;
  }
  choice->probes_percent = percent_of(*busiest);
  choice->operators_per_s = busiest->operators_per_s();
  choice->tid = busiest->tid;
  choice->reason = DescribeRate(*busiest, *choice);
  if (*choice->probes_percent <= choice->limit_percent) {
    choice->reason += absl::StrFormat(", not more than --auto-limit %g%%", choice->limit_percent);
    return;
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
      if (one.ok()) one = CheckStacksByJumps(pid, programs);
      ++(one.ok() ? with_jumps : without);
    }
    if (percent <= choice->limit_percent || !one.ok()) chosen->stay_on_probes.push_back(pid);
    if (!one.ok()) refused = std::move(one);
  }
  if (with_jumps > 0 && without > 0) {
    choice->reason += absl::StrFormat(
        "; %u of the %u busy processes %s probes, because jumps "
        "cannot be used there: %s",
        without, with_jumps + without, without == 1 ? "keeps" : "keep", refused.message());
  }
  chosen->puts_jumps = with_jumps > 0;
  if (chosen->puts_jumps) return;
  choice->reason = WithoutJumps(choice->reason, refused);
  choice->are_jumps_refused = true;
}

TierChooser::Chosen TierChooser::ChooseByCount(const Counted& counted, const BpfPrograms& programs,
                                               double ns_per_operator) const {
  Chosen chosen;
  chosen.told.limit_percent = options_.auto_limit_percent;
  if (counted.pids.empty()) {
    chosen.told.reason = "there was no process whose operators could be counted";
  } else {
    chosen.told.ns_per_operator = ns_per_operator;
    ChooseByRates(counted, programs, &chosen);
  }
  // Processes that start later cannot be counted beforehand.
  if (options_.all && !chosen.puts_jumps && !chosen.told.are_jumps_refused &&
      CheckTimeStampCounter().ok()) {
    chosen.puts_jumps = true;
    chosen.stay_on_probes = counted.pids;
    chosen.told.reason += "; processes that start later get jumps";
  }
  return chosen;
}

TierChooser::Chosen TierChooser::ChooseWithoutCount(const BpfPrograms& programs) const {
  Chosen chosen;
  TierChoice& told = chosen.told;
  told.limit_percent = options_.auto_limit_percent;
  if (!programs.is_loaded()) {
    chosen.puts_jumps = true;
    told.reason = "there is no eBPF here, as `unsupported` says";
  } else if (programs.api() == UprobeApi::kPerf || programs.are_links_for_all()) {
    const absl::Status clock = CheckTimeStampCounter();
    chosen.puts_jumps = clock.ok();
    told.are_jumps_refused = !clock.ok();
    told.reason = "this kernel's probes take long to go out, or slow other processes as well";
    if (!clock.ok()) told.reason = WithoutJumps(told.reason, clock);
  } else {
    chosen.puts_jumps = CheckTimeStampCounter().ok();
    told.reason = "what probes would cost a job that is yet to start is not known";
  }
  return chosen;
}

}  // namespace proftrace
