#include "userspace/capture/processes/gap_list.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// How many refused processes are named; the others are counted.
constexpr size_t kMostNamed = 20;
// The most gaps that are kept. A job may make thousands of processes with a gap each.
constexpr size_t kMostGaps = 2000;

std::string Named(Pid pid) { return "PID " + std::to_string(Raw(pid)); }

void AppendAll(const std::vector<Unsupported>& more, std::vector<Unsupported>* gaps) {
  gaps->insert(gaps->end(), more.begin(), more.end());
}

// Appends what processes ran that never had probes, or whose names are not known.
void AppendUnprobed(const GapList::Facts& facts, std::vector<Unsupported>* gaps) {
  if (!facts.loaded.empty()) {
    gaps->push_back(Unsupported{
        "processes that loaded PyTorch at the end",
        OneOrMore(facts.loaded.size(), "process", "processes") + ", the first of them " +
            Named(facts.loaded.front()) +
            ": they had no probes yet when the recording ended, and nothing of them is recorded; "
            "record again, for longer"});
  }
  if (facts.waiting_forks > 0) {
    gaps->push_back(
        Unsupported{"children forked at the end",
                    OneOrMore(facts.waiting_forks, "forked process", "forked processes") +
                        " had no probes yet when the recording ended"});
  }
  if (facts.ended_forks > 0) {
    gaps->push_back(
        Unsupported{"short-lived children",
                    OneOrMore(facts.ended_forks, "forked process", "forked processes") +
                        " ended before all probes were live; what may have run there is "
                        "not recorded (follow_failed)"});
  }
  if (facts.replaced_operators > 0) {
    gaps->push_back(Unsupported{"names of deregistered operators",
                                "at " + std::to_string(facts.replaced_operators) +
                                    " addresses other operators were registered later; the rows of "
                                    "all of them are unnamed"});
  }
}

}  // namespace

std::vector<Unsupported> GapsOfKernel(const BpfPrograms& programs) {
  std::vector<Unsupported> gaps;
  if (programs.api() == UprobeApi::kPerf) {
    gaps.push_back(Unsupported{
        "fast detach",
        "this kernel has no uprobe.multi (6.6), and its tracefs cannot be written: probes record "
        "nothing after the end, but are removed while proftrace exits, which takes minutes"});
  }
  if (programs.are_links_for_all()) {
    gaps.push_back(Unsupported{
        "probes of the recorded processes alone",
        "for one process this kernel passes hits of its first thread only (6.10 and updates of 6.6 "
        "and 6.9 mend that): while this records, other processes that use the same libraries run "
        "into its probes as well, and are not recorded"});
  }
  if (const int64_t unwatched_ns = programs.longest_unwatched_ns(); unwatched_ns > 0) {
    gaps.push_back(Unsupported{
        "forks, execs and ends of processes",
        "without eBPF they are found by looking, at intervals of up to " +
            std::to_string(unwatched_ns / 1'000'000 + 1) +
            " ms: a child that was gone by then is missing, and what was open at an end is longer "
            "by as much"});
  }
  return gaps;
}

void GapList::BeginWindow(int64_t start_ns) {
  const std::lock_guard lock(mutex_);
  late_forks_.BeginWindow(start_ns);
  late_loads_.BeginWindow(start_ns);
}

void GapList::Add(Unsupported gap) {
  const std::lock_guard lock(mutex_);
  AddLocked(std::move(gap));
}

void GapList::AddAll(std::vector<Unsupported> gaps) {
  const std::lock_guard lock(mutex_);
  for (Unsupported& gap : gaps) AddLocked(std::move(gap));
}

void GapList::AddLocked(Unsupported gap) {
  const bool known = std::any_of(gaps_.begin(), gaps_.end(), [&gap](const Unsupported& other) {
    return other.feature == gap.feature && other.reason == gap.reason;
  });
  if (!known && gaps_.size() < kMostGaps) gaps_.push_back(std::move(gap));
}

void GapList::AddGapsOf(const ProbePlan& plan) {
  const std::lock_guard lock(mutex_);
  for (const PlanGap& gap : plan.gaps) {
    AddLocked(Unsupported{gap.feature, gap.reason, gap.is_of_code, gap.row});
  }
}

void GapList::AddSearch(const TorchProcesses& found, bool again) {
  const std::lock_guard lock(mutex_);
  if (again) {
    gaps_.push_back(Unsupported{"start of processes",
                                "this kernel does not tell of processes that load PyTorch: they "
                                "are looked for once a second"});
  }
  if (found.closed > 0) {
    gaps_.push_back(Unsupported{"processes", WhyClosed(found.closed, geteuid() == 0)});
  }
}

void GapList::AddRefusal(Pid pid, const absl::Status& why, size_t living) {
  const std::lock_guard lock(mutex_);
  const ExitCode code = ExitCodeOf(why);
  if (refusal_.ok()) refusal_ = Fail(code, Named(pid) + ": " + std::string(why.message()));
  if (code != ExitCode::kNoTorch && code != ExitCode::kNoTarget) ++follow_failed_;
  if (living > kMostNamed) return;
  gaps_.push_back(Unsupported{"process " + std::to_string(Raw(pid)), std::string(why.message())});
}

void GapList::AddMissing(Pid pid, const AttachReport& report) {
  const std::lock_guard lock(mutex_);
  if (!report.refused.empty()) {
    const RefusedPoint& first = report.refused.front();
    AddLocked(Unsupported{"probes", std::to_string(report.refused.size()) +
                                        " places were refused by the kernel (" + first.module +
                                        ": " + ErrnoText(first.error) + ")"});
  }
  if (!report.unreached.empty()) AddUnreachedLocked(pid, report.unreached);
}

void GapList::AddUnreached(Pid pid, const std::string& why) {
  const std::lock_guard lock(mutex_);
  AddUnreachedLocked(pid, why);
}

void GapList::AddUnreachedLocked(Pid pid, const std::string& why) {
  const std::string sentence = Named(pid) + ": " + why;
  const bool is_new = unreached_.insert(Raw(pid)).second;
  if (is_new && unreached_.size() <= kMostNamed) warnings_.push_back(sentence);
  AddLocked(Unsupported{"code that no probe reaches", sentence});
}

void GapList::AddAnothersJumps(Pid pid, size_t left, size_t all) {
  const std::string why = "another proftrace has its jumps in it, where no probe may go: " +
                          std::to_string(all - left) + " of " + std::to_string(all) +
                          " places are not recorded here";
  const std::lock_guard lock(mutex_);
  unreached_.insert(Raw(pid));  // so that FindSilent() does not name it again
  if (anothers_jumps_.empty()) anothers_jumps_ = Named(pid) + ": " + why;
  AddLocked({"jumps in the job's code", Named(pid) + " is recorded without them: " + why});
}

void GapList::AddRefusedJumps(Pid pid, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  if (jumps_refused_.empty()) jumps_refused_ = std::string(why.message());
  AddLocked({"jumps in the job's code",
             Named(pid) + " is recorded by the kernel's probes: " + std::string(why.message())});
}

void GapList::AddFailedLibrary(Pid pid, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  gaps_.push_back(Unsupported{"libraries that were loaded while recording",
                              Named(pid) + ": " + std::string(why.message())});
}

void GapList::AddLateFork(Pid pid, int64_t forked_ns, int64_t live_ns) {
  const std::lock_guard lock(mutex_);
  late_forks_.Add(pid, forked_ns, live_ns);
}

void GapList::AddLateLoad(Pid pid, int64_t could_run_ns, int64_t live_ns) {
  const std::lock_guard lock(mutex_);
  late_loads_.Add(pid, could_run_ns, live_ns);
}

void GapList::AddLateLibrary() {
  const std::lock_guard lock(mutex_);
  ++late_libraries_;
}

void GapList::AddEndedEarly() {
  const std::lock_guard lock(mutex_);
  ++ended_early_;
}

void GapList::AppendLateStarts(std::vector<Unsupported>* gaps) const {
  if (late_libraries_ > 0) {
    gaps->push_back(
        Unsupported{"start of libraries that were loaded while recording",
                    "rows that " + std::to_string(late_libraries_) +
                        " of them made themselves before their probes were live are not recorded"});
  }
  if (const auto late = late_forks_.Describe("forked process", "forked processes");
      late.has_value()) {
    gaps->push_back(Unsupported{"start of children",
                                *late + ": so long after their forks their probes were live, and "
                                        "what they ran before is not recorded"});
  }
  if (const auto late = late_loads_.Describe("process", "processes"); late.has_value()) {
    gaps->push_back(Unsupported{
        "start of processes that loaded PyTorch while recording",
        *late + ": so long after PyTorch had registered its operators in them their probes were "
                "live, and what they ran before is not recorded"});
  }
}

std::vector<Unsupported> GapList::Describe(const Facts& facts) const {
  const std::lock_guard lock(mutex_);
  std::vector<Unsupported> gaps = gaps_;
  AppendAll(facts.of_schemas, &gaps);
  AppendAll(facts.of_kernel, &gaps);
  AppendLateStarts(&gaps);
  AppendUnprobed(facts, &gaps);
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

std::vector<std::string> GapList::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

std::set<uint32_t> GapList::unreached() const {
  const std::lock_guard lock(mutex_);
  return unreached_;
}

absl::Status GapList::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

uint64_t GapList::follow_failed() const {
  const std::lock_guard lock(mutex_);
  return follow_failed_;
}

uint64_t GapList::ended_early() const {
  const std::lock_guard lock(mutex_);
  return ended_early_;
}

std::string GapList::jumps_refused() const {
  const std::lock_guard lock(mutex_);
  return jumps_refused_;
}

std::string GapList::anothers_jumps() const {
  const std::lock_guard lock(mutex_);
  return anothers_jumps_;
}

}  // namespace proftrace
