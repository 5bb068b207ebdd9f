#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/process/held_file.h"
#include "symbols/process/overlay_layers.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/probe_memory.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/plans/unreached_code.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/patch/free_points.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/target_lock.h"

// How a ProcessSet puts the kernel's probes in, and takes single ones out while it records.

namespace proftrace {
namespace {

bool MapsOneOf(const std::vector<Mapping>& mappings, const std::vector<ModulePlan>& modules) {
  return std::any_of(mappings.begin(), mappings.end(), [&modules](const Mapping& mapping) {
    return mapping.inode != 0 &&
           std::any_of(modules.begin(), modules.end(), [&mapping](const ModulePlan& module) {
             return module.file.device == mapping.device && module.file.inode == mapping.inode;
           });
  });
}

// Takes the locks of all other processes that map the modules, for links that are for all
// processes, so that nobody puts jumps into these processes meanwhile. A tracer that does so later
// finds the probes. Removes points at which we have put jumps into another process from `modules`,
// because probes would go there as well. Fails where another tracer has jumps in such a process.
absl::StatusOr<std::vector<TargetLock>> LockOthers(Pid pid, std::vector<ModulePlan>* modules) {
  std::vector<TargetLock> locks;
  for (const uint32_t number : ReadNumberedEntries("/proc")) {
    const Pid other{number};
    if (other == pid) continue;
    const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(other);
    if (!mappings.ok() || !MapsOneOf(*mappings, *modules)) continue;
    if (absl::Status status = CheckProbeMemory(other, *modules); !status.ok()) return status;
    absl::StatusOr<TargetLock> lock = TargetLock::TakeForProbes(other);
    if (ExitCodeOf(lock.status()) == ExitCode::kNoTarget) continue;
    if (!lock.ok()) return lock.status();
    if (HasOwnPatches(other)) {
      absl::StatusOr<std::vector<ModulePlan>> free = PointsBesideJumps(other, std::move(*modules));
      if (!free.ok()) return free.status();
      *modules = *std::move(free);
    } else if (HasPatches(other)) {
      return Fail(ExitCode::kHostUnfit,
                  "PID " + std::to_string(number) +
                      " has jumps (--tier patch) in the same libraries, and on this kernel probes "
                      "for another process would go into it as well; use --tier patch here too");
    }
    locks.push_back(*std::move(lock));
  }
  return locks;
}

// Whether a probe of this role records a call of an operator.
bool IsCall(uint8_t role) {
  return role == abi::PT_ROLE_BEGIN || role == abi::PT_ROLE_OPERATOR_BEGIN ||
         role == abi::PT_ROLE_OPERATOR_CALL || role == abi::PT_ROLE_INPUTS_BEGIN ||
         role == abi::PT_ROLE_PLACED_BEGIN;
}

}  // namespace

absl::Status ProcessSet::AttachModules(Pid pid, const ProbePlan& plan,
                                       std::vector<ModulePlan> modules, ProcessLinks* links,
                                       AttachReport* report) {
  AddUnprobed(modules, plan);
  TargetLock code;
  if (programs_->is_loaded()) {
    absl::StatusOr<TargetLock> lock = TargetLock::TakeForProbes(pid);
    if (!lock.ok()) return lock.status();
    code = *std::move(lock);
    if (HasPatches(pid) && !HasOwnPatches(pid)) {
      absl::StatusOr<std::vector<ModulePlan>> free = PointsBesideJumps(pid, std::move(modules));
      if (!free.ok()) return free.status();
      modules = *std::move(free);
    }
  }
  std::vector<TargetLock> others;
  if (programs_->are_links_for_all()) {
    absl::StatusOr<std::vector<TargetLock>> locks = LockOthers(pid, &modules);
    if (!locks.ok()) return locks.status();
    others = *std::move(locks);
  }
  if (programs_->is_loaded()) {
    if (absl::Status status = CheckProbeMemory(pid, modules); !status.ok()) return status;
  }
  for (const ModulePlan& module : modules) {
    absl::Status status = AttachOne(pid, plan, module, links, report);
    if (!status.ok()) return status;
  }
  if (programs_->is_loaded()) {
    report->unreached =
        DescribeUnreachedCode(FindUnreachedCode(pid, modules, *report)).value_or("");
  }
  return absl::OkStatus();
}

absl::Status ProcessSet::AttachOne(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                                   ProcessLinks* links, AttachReport* report) {
  // Without eBPF no probe is put in; the points are only counted.
  if (!programs_->is_loaded()) return AttachFile(pid, plan, module, links, report);
  if (module.points.empty()) return absl::OkStatus();
  if (absl::Status status = CheckUnchanged(module, pid); !status.ok()) return status;
  ProcessLinks made;
  AttachReport one;
  const bool has_layers = !module.held->is_remote() && IsOnOverlay(module.held->fd());
  absl::Status status = has_layers ? AttachLayer(pid, plan, module, &made, &one)
                                   : AttachFile(pid, plan, module, &made, &one);
  // Where the file was changed, the probes are removed with `made`.
  if (status.ok()) status = CheckUnchanged(module, pid);
  if (!status.ok()) return status;
  links->Add(std::move(made));
  report->points += one.points;
  report->refused.insert(report->refused.end(), one.refused.begin(), one.refused.end());
  return absl::OkStatus();
}

absl::Status ProcessSet::AttachLayer(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                                     ProcessLinks* links, AttachReport* report) {
  std::vector<std::shared_ptr<const HeldFile>> files;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = layers_.find(module.held); known != layers_.end()) {
      files.push_back(known->second);
    }
  }
  files.push_back(module.held);
  bool has_looked = false;
  for (size_t i = 0; i < files.size(); ++i) {
    ModulePlan there = module;
    there.held = files[i];
    *links = {};  // drops the links for the file before, which gave the process no probes
    *report = {};
    absl::Status status = AttachFile(pid, plan, there, links, report);
    if (!status.ok()) return status;
    if (HasAnyProbe(pid, module, *report)) {
      if (files[i] == module.held) return absl::OkStatus();
      const std::lock_guard lock(mutex_);
      layers_[module.held] = files[i];
      return absl::OkStatus();
    }
    if (i + 1 < files.size() || std::exchange(has_looked, true)) continue;
    for (UniqueFd& file : SameFilesBelow(pid, module.held->fd())) {
      if (auto held = HeldFile::Hold(std::move(file))) files.push_back(std::move(held));
    }
  }
  *links = {};
  *report = {};
  const std::string what = "probes of " + module.name + " do not reach PID " +
                           std::to_string(Raw(pid)) +
                           ": the file lies on overlayfs, and the process runs neither what is at "
                           "its path nor a file of "
                           "the same content in a lower layer (it was copied up by chmod or chown, "
                           "and written to, after "
                           "the process had mapped it)";
  if (patch_ == nullptr) {
    return Fail(ExitCode::kHostUnfit, what + "; use --tier patch, or start the job again");
  }
  const std::lock_guard lock(mutex_);
  AddGap({"places that have no jump", what});
  return absl::OkStatus();
}

absl::Status ProcessSet::AttachFile(Pid pid, const ProbePlan& plan, ModulePlan module,
                                    ProcessLinks* links, AttachReport* report) {
  std::optional<OperatorLinks> operators;
  // Beside jumps links are never exchanged.
  if (patch_ == nullptr && programs_->can_exchange_links()) {
    absl::StatusOr<OperatorLinks> made =
        OperatorLinks::Attach(*programs_, plan, pid, &module, report);
    if (!made.ok()) return made.status();
    operators = *std::move(made);
  }
  absl::StatusOr<LinkSet> added = programs_->Attach(module, pid, report);
  if (!added.ok()) return added.status();
  if (operators) links->operators.push_back(*std::move(operators));
  links->Add({*std::move(added), {}});
  return absl::OkStatus();
}

LinkSet ProcessSet::AttachCostPoints() {
  std::vector<std::pair<Pid, std::shared_ptr<const ProbePlan>>> plans;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pid, process] : processes_) plans.emplace_back(Pid{pid}, process.plan);
  }
  ProcessLinks links;
  for (const auto& [pid, plan] : plans) {
    std::vector<ModulePlan> second;
    for (const ModulePlan& module : plan->modules) {
      if (module.cost_points.empty()) continue;
      second.push_back(module);
      second.back().points = module.cost_points;
    }
    AttachReport report;
    // This fails, for example, in a process that has ended, whose cost is not needed any more.
    (void)AttachModules(pid, *plan, second, &links, &report);
  }
  return links.TakeAll();
}

LinkSet ProcessSet::AttachCounter(Pid pid, const ProbePlan& plan) {
  for (const ModulePlan& module : plan.modules) {
    const auto counter = std::find_if(
        module.cost_points.begin(), module.cost_points.end(), [](const ProbePoint& point) {
          return SiteOf(point) == 0 && RoleOf(point) == abi::PT_ROLE_COST;
        });
    if (counter == module.cost_points.end()) continue;
    ModulePlan alone = module;
    alone.points = {*counter};
    ProcessLinks links;
    AttachReport report;
    // An error is not reported here, because it is reported when all the other probes go in.
    const absl::Status status = AttachModules(pid, plan, {std::move(alone)}, &links, &report);
    if (status.ok() && report.points > 0) return links.TakeAll();
  }
  return {};
}

LinkSet ProcessSet::AttachCounterAt(Pid pid, uint16_t site) {
  std::shared_ptr<const ProbePlan> plan;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it != processes_.end()) plan = it->second.plan;
  }
  if (plan == nullptr) return {};
  std::vector<ModulePlan> counted;
  for (const ModulePlan& module : plan->modules) {
    ModulePlan alone = module;
    alone.points.clear();
    alone.cost_points.clear();
    for (const ProbePoint& point : module.points) {
      if (SiteOf(point) != site || !IsCall(RoleOf(point))) continue;
      alone.points.push_back({point.file_offset, PT_COOKIE(0, abi::PT_ROLE_COST, 0, 0)});
    }
    if (!alone.points.empty()) counted.push_back(std::move(alone));
  }
  ProcessLinks links;
  AttachReport report;
  if (counted.empty() || !AttachModules(pid, *plan, std::move(counted), &links, &report).ok()) {
    return {};
  }
  return links.TakeAll();
}

bool ProcessSet::IsDemotable(Pid pid, uint16_t site) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  return it != processes_.end() && it->second.plan != nullptr &&
         proftrace::IsDemotable(*it->second.plan, site);
}

void ProcessSet::RemoveProbes(Pid pid, RemovedProbes removed) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  it->second.removed = std::move(removed);
  ++it->second.removals;
  tasks_.push_back(Task{TaskKind::kRemoveProbes, pid, Pid{}, 0});
  changed_.notify_all();
}

bool ProcessSet::IsRemovingProbes(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  return it != processes_.end() && it->second.removals > 0;
}

void ProcessSet::FollowRemoval(Pid pid) {
  std::vector<OperatorLinks> operators;
  RemovedProbes removed;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return;
    operators = std::exchange(it->second.links.operators, {});
    removed = it->second.removed;
  }
  closer_.Postpone();
  absl::Status status;
  for (OperatorLinks& links : operators) {
    if (absl::Status one = links.Remove(programs_, pid, removed); !one.ok()) status = one;
  }
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  it->second.links.Add({{}, std::move(operators)});
  --it->second.removals;
  if (status.ok()) return;
  AddGap({"fewer probes", "PID " + std::to_string(Raw(pid)) + " keeps the probes of operators " +
                              "that are only counted: " + std::string(status.message())});
}

}  // namespace proftrace
