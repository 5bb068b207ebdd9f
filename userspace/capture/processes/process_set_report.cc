#include <utility>

#include "symbols/process/interned_strings.h"
#include "symbols/process/process_memory.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/capture/plans/unreached_code.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/processes/unprobed_points.h"
#include "userspace/patch/free_points.h"

// The reports of a ProcessSet: how much it records, and what it could not record.

namespace proftrace {
namespace {

// How many refused processes are named; the others are counted.
constexpr size_t kMostNamed = 20;
// The most gaps that are kept. A job may make thousands of processes with a gap each.
constexpr size_t kMostGaps = 2000;

}  // namespace

void ProcessSet::Refuse(Pid pid, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(Raw(pid));
  unprobed_forks_.OnRefused(pid);
  if (!refused_.insert(Raw(pid)).second) return;
  if (refusal_.ok()) {
    refusal_ = Fail(ExitCodeOf(why),
                    "PID " + std::to_string(Raw(pid)) + ": " + std::string(why.message()));
  }
  const ExitCode code = ExitCodeOf(why);
  if (code != ExitCode::kNoTorch && code != ExitCode::kNoTarget) ++follow_failed_;
  if (refused_.size() > kMostNamed) return;
  gaps_.push_back(Unsupported{"process " + std::to_string(Raw(pid)), std::string(why.message())});
}

void ProcessSet::AddGap(Unsupported gap) {
  const bool known = std::any_of(gaps_.begin(), gaps_.end(), [&gap](const Unsupported& other) {
    return other.feature == gap.feature && other.reason == gap.reason;
  });
  if (!known && gaps_.size() < kMostGaps) gaps_.push_back(std::move(gap));
}

void ProcessSet::AddGaps(const ProbePlan& plan) {
  if (plan.has_cuda_calls) has_cuda_calls_ = true;
  for (const PlanGap& gap : plan.gaps) {
    AddGap(Unsupported{gap.feature, gap.reason, gap.is_of_code, gap.row});
  }
}

void ProcessSet::NoteAnothersJumps(Pid pid, const ProbePlan& plan) {
  size_t all = 0;
  size_t free = 0;
  for (const ModulePlan& module : plan.modules) all += module.points.size();
  if (const auto left = PointsBesideJumps(pid, plan.modules); left.ok()) {
    for (const ModulePlan& module : *left) free += module.points.size();
  }
  const std::string who = "PID " + std::to_string(Raw(pid));
  const std::string why = "another proftrace has its jumps in it, where no probe may go: " +
                          std::to_string(all - free) + " of " + std::to_string(all) +
                          " places are not recorded here";
  const std::lock_guard lock(mutex_);
  unreached_.insert(Raw(pid));  // so that FindSilent() does not name it again
  if (anothers_jumps_.empty()) anothers_jumps_ = who + ": " + why;
  AddGap({"jumps in the job's code", who + " is recorded without them: " + why});
}

absl::Status ProcessSet::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::string ProcessSet::jumps_refused() const {
  const std::lock_guard lock(mutex_);
  return jumps_refused_;
}

std::string ProcessSet::anothers_jumps() const {
  const std::lock_guard lock(mutex_);
  return anothers_jumps_;
}

void ProcessSet::AddMissing(Pid pid, const AttachReport& report) {
  if (!programs_->is_loaded()) return;
  if (!report.refused.empty()) {
    const RefusedPoint& first = report.refused.front();
    AddGap(Unsupported{"probes", std::to_string(report.refused.size()) +
                                     " places were refused by the kernel (" + first.module + ": " +
                                     ErrnoText(first.error) + ")"});
  }
  if (!report.unreached.empty()) AddUnreached(pid, report.unreached);
}

void ProcessSet::AddUnreached(Pid pid, const std::string& why) {
  const std::string sentence = "PID " + std::to_string(Raw(pid)) + ": " + why;
  const bool is_new = unreached_.insert(Raw(pid)).second;
  if (is_new && unreached_.size() <= kMostNamed) warnings_.push_back(sentence);
  AddGap(Unsupported{"code that no probe reaches", sentence});
}

void ProcessSet::NoteMovedCode() {
  // Jumps lie in the code itself and move with it.
  if (!programs_->is_loaded() || patch_ != nullptr) return;
  std::vector<std::pair<Pid, std::shared_ptr<const ProbePlan>>> plans;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pid, process] : processes_) {
      if (!unreached_.contains(pid)) plans.emplace_back(Pid{pid}, process.plan);
    }
  }
  for (const auto& [pid, plan] : plans) {
    const auto moved = DescribeUnreachedCode(FindMovedCode(pid, plan->modules));
    if (!moved.has_value()) continue;
    const std::lock_guard lock(mutex_);
    AddUnreached(pid, *moved + " (since some moment of the recording)");
  }
}

std::vector<std::string> ProcessSet::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

std::set<uint32_t> ProcessSet::unreached() const {
  const std::lock_guard lock(mutex_);
  return unreached_;
}

void ProcessSet::AddUnprobed(const std::vector<ModulePlan>& modules, const ProbePlan& plan) {
  if (programs_->is_loaded()) return;
  const std::lock_guard lock(mutex_);
  for (Unsupported& gap : DescribeUnprobed(modules, plan.sites)) AddGap(std::move(gap));
}

std::optional<SymbolList> ProcessSet::SymbolListOf(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return std::nullopt;
  const ProbePlan& plan = *it->second.plan;
  return SymbolList{plan.torch_data, 0, plan.old_string_abi};
}

std::vector<Pid> ProcessSet::LoadedWithoutProbes() const {
  std::vector<Pid> pids;
  for (const auto& [pid, awaited] : awaited_) {
    if (awaited.could_run) pids.push_back(Pid{pid});
  }
  return pids;
}

size_t ProcessSet::process_count() const {
  const std::lock_guard lock(mutex_);
  return processes_.size();
}

std::vector<Pid> ProcessSet::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<Pid> pids;
  for (const auto& [pid, process] : processes_) pids.push_back(Pid{pid});
  return pids;
}

bool ProcessSet::HasAgent(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  return it != processes_.end() && it->second.plan != nullptr && it->second.plan->has_agent;
}

uint32_t ProcessSet::operator_count() const {
  const std::lock_guard lock(mutex_);
  return operator_count_;
}

uint64_t ProcessSet::follow_failed() const {
  const std::lock_guard lock(mutex_);
  return follow_failed_ + unprobed_forks_.ended();
}

std::vector<Unsupported> ProcessSet::gaps() const {
  const std::lock_guard lock(mutex_);
  std::vector<Unsupported> gaps = gaps_;
  for (Unsupported& gap : schemas_.gaps()) gaps.push_back(std::move(gap));
  if (programs_->api() == UprobeApi::kPerf) {
    gaps.push_back(Unsupported{
        "fast detach",
        "this kernel has no uprobe.multi (6.6), and its tracefs cannot be written: probes record "
        "nothing after the end, but are removed while proftrace exits, which takes minutes"});
  }
  if (programs_->are_links_for_all()) {
    gaps.push_back(Unsupported{
        "probes of the recorded processes alone",
        "for one process this kernel passes hits of its first thread only (6.10 and updates of 6.6 "
        "and 6.9 mend that): while this records, other processes that use the same libraries run "
        "into its probes as well, and are not recorded"});
  }
  if (const int64_t unwatched_ns = programs_->longest_unwatched_ns(); unwatched_ns > 0) {
    gaps.push_back(Unsupported{
        "forks, execs and ends of processes",
        "without eBPF they are found by looking, at intervals of up to " +
            std::to_string(unwatched_ns / 1'000'000 + 1) +
            " ms: a child that was gone by then is missing, and what was open at an end is longer "
            "by as much"});
  }
  if (late_libraries_ > 0) {
    gaps.push_back(
        Unsupported{"start of libraries that were loaded while recording",
                    "rows that " + std::to_string(late_libraries_) +
                        " of them made themselves before their probes were live are not recorded"});
  }
  if (const auto late = late_forks_.Describe("forked process", "forked processes");
      late.has_value()) {
    gaps.push_back(Unsupported{"start of children",
                               *late + ": so long after their forks their probes were live, and "
                                       "what they ran before is not recorded"});
  }
  if (const auto late = late_loads_.Describe("process", "processes"); late.has_value()) {
    gaps.push_back(Unsupported{
        "start of processes that loaded PyTorch while recording",
        *late + ": so long after PyTorch had registered its operators in them their probes were "
                "live, and what they ran before is not recorded"});
  }
  if (const std::vector<Pid> loaded = LoadedWithoutProbes(); !loaded.empty()) {
    gaps.push_back(Unsupported{
        "processes that loaded PyTorch at the end",
        OneOrMore(loaded.size(), "process", "processes") + ", the first of them PID " +
            std::to_string(Raw(loaded.front())) +
            ": they had no probes yet when the recording ended, and nothing of them is recorded; "
            "record again, for longer"});
  }
  if (const size_t waiting = unprobed_forks_.waiting(); waiting > 0) {
    gaps.push_back(Unsupported{"children forked at the end",
                               OneOrMore(waiting, "forked process", "forked processes") +
                                   " had no probes yet when the recording ended"});
  }
  if (const uint64_t ended = unprobed_forks_.ended(); ended > 0) {
    gaps.push_back(Unsupported{"short-lived children",
                               OneOrMore(ended, "forked process", "forked processes") +
                                   " ended before all probes were live; what may have run there is "
                                   "not recorded (follow_failed)"});
  }
  if (const uint64_t replaced = operator_watch_.replaced(); replaced > 0) {
    gaps.push_back(Unsupported{"names of deregistered operators",
                               "at " + std::to_string(replaced) +
                                   " addresses other operators were registered later; the rows of "
                                   "all of them are unnamed"});
  }
  if (ended_early_ > 0) {
    gaps.push_back(Unsupported{"short-lived processes",
                               OneOrMore(ended_early_, "process", "processes") +
                                   " that had begun to load PyTorch ended before all probes were "
                                   "live"});
  }
  if (follow_failed_ > kMostNamed) {
    gaps.push_back(
        Unsupported{"processes", std::to_string(follow_failed_) + " in all could not be recorded"});
  }
  return gaps;
}

}  // namespace proftrace
