#include <utility>

#include "symbols/process/interned_strings.h"
#include "userspace/capture/process_set.h"
#include "userspace/capture/unreached_code.h"

// The reports of a ProcessSet: how much it records, and what it could not record.

namespace proftrace {

void ProcessSet::Refuse(Pid pid, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(Raw(pid));
  unprobed_forks_.OnRefused(pid);
  if (!refused_.insert(Raw(pid)).second) return;
  gaps_.AddRefusal(pid, why, refused_.size());
}

void ProcessSet::AddGaps(const ProbePlan& plan) {
  if (plan.has_cuda_calls) has_cuda_calls_ = true;
  gaps_.AddGapsOf(plan);
}

void ProcessSet::AddMissing(Pid pid, const AttachReport& report) {
  if (programs_->is_loaded()) gaps_.AddMissing(pid, report);
}

void ProcessSet::NoteMovedCode() {
  // Jumps lie in the code itself and move with it.
  if (!programs_->is_loaded() || patch_ != nullptr) return;
  const std::set<uint32_t> unreached = gaps_.unreached();
  for (const auto& [pid, plan] : Planned()) {
    if (unreached.contains(Raw(pid))) continue;
    const auto moved = DescribeUnreachedCode(FindMovedCode(pid, plan->modules));
    if (!moved.has_value()) continue;
    gaps_.AddUnreached(pid, *moved + " (since some moment of the recording)");
  }
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

PlannedProcesses ProcessSet::Planned() const {
  const std::lock_guard lock(mutex_);
  PlannedProcesses planned;
  for (const auto& [pid, process] : processes_) planned.emplace_back(Pid{pid}, process.plan);
  return planned;
}

LinkSet ProcessSet::AttachCounterAt(Pid pid, uint16_t site) {
  std::shared_ptr<const ProbePlan> plan;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it != processes_.end()) plan = it->second.plan;
  }
  if (plan == nullptr) return {};
  return proftrace::AttachCounterAt(&probes_, pid, *plan, site);
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
  return gaps_.follow_failed() + unprobed_forks_.ended();
}

std::vector<Unsupported> ProcessSet::gaps() const {
  GapList::Facts facts;
  facts.of_schemas = schemas_.gaps();
  facts.of_kernel = GapsOfKernel(*programs_);
  facts.replaced_operators = operator_watch_.replaced();
  {
    const std::lock_guard lock(mutex_);
    facts.loaded = LoadedWithoutProbes();
    facts.waiting_forks = unprobed_forks_.waiting();
    facts.ended_forks = unprobed_forks_.ended();
  }
  return gaps_.Describe(facts);
}

}  // namespace proftrace
