#include "userspace/capture/processes/probe_attacher.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "symbols/process/overlay_layers.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/probe_memory.h"
#include "userspace/capture/plans/unreached_code.h"
#include "userspace/capture/processes/unprobed_points.h"
#include "userspace/patch/free_points.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/target_lock.h"

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

}  // namespace

absl::Status ProbeAttacher::Attach(Pid pid, const ProbePlan& plan, std::vector<ModulePlan> modules,
                                   ProcessLinks* links, AttachReport* report) {
  if (!programs_->is_loaded()) gaps_->AddAll(DescribeUnprobed(modules, plan.sites));
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

absl::Status ProbeAttacher::AttachOne(Pid pid, const ProbePlan& plan, const ModulePlan& module,
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

std::vector<std::shared_ptr<const HeldFile>> ProbeAttacher::FilesOf(const ModulePlan& module) {
  std::vector<std::shared_ptr<const HeldFile>> files;
  const std::lock_guard lock(mutex_);
  if (const auto known = layers_.find(module.held); known != layers_.end()) {
    files.push_back(known->second);
  }
  files.push_back(module.held);
  return files;
}

absl::Status ProbeAttacher::AttachLayer(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                                        ProcessLinks* links, AttachReport* report) {
  std::vector<std::shared_ptr<const HeldFile>> files = FilesOf(module);
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
  return RefuseLayer(pid, module);
}

absl::Status ProbeAttacher::RefuseLayer(Pid pid, const ModulePlan& module) {
  const std::string what =
      "probes of " + module.name + " do not reach PID " + std::to_string(Raw(pid)) +
      ": the file lies on overlayfs, and the process runs neither what is at its path nor a file "
      "of the same content in a lower layer (it was copied up by chmod or chown, and written to, "
      "after the process had mapped it)";
  if (!beside_jumps_) {
    return Fail(ExitCode::kHostUnfit, what + "; use --tier patch, or start the job again");
  }
  gaps_->Add({"places that have no jump", what});
  return absl::OkStatus();
}

absl::Status ProbeAttacher::AttachFile(Pid pid, const ProbePlan& plan, ModulePlan module,
                                       ProcessLinks* links, AttachReport* report) {
  std::optional<OperatorLinks> operators;
  // Beside jumps links are never exchanged.
  if (!beside_jumps_ && programs_->can_exchange_links()) {
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

}  // namespace proftrace
