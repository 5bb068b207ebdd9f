#include "userspace/capture/plans/process_plan.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/targets/process_watch.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/patch/plan_spots.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

absl::Status NotPermitted(const std::string& what) {
  if (geteuid() == 0) return Fail(ExitCode::kNotPermitted, "root may not " + what + NotEvenRoot());
  return Fail(ExitCode::kNotPermitted, "this user may not " + what + "; " + HowToGetRights());
}

// Returns the real cause of the planner's "no libtorch" where there is another: the process has
// ended meanwhile, or this user may not open its files. Returns `status` otherwise.
absl::Status WhyNoTorch(Pid pid, const absl::Status& status) {
  const std::string who = "PID " + std::to_string(Raw(pid));
  if (ExitCodeOf(status) == ExitCode::kNotPermitted) {
    return NotPermitted("read what " + who + " has mapped");
  }
  if (ExitCodeOf(status) != ExitCode::kNoTorch) return status;
  const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(pid);
  if (!maps.ok()) return maps.status();
  if (maps->empty()) {
    return Fail(ExitCode::kNoTarget, who + " ended before anything was recorded");
  }
  for (const MappedFile& file : GroupByFile(*maps)) {
    const absl::Status opened = OpenMappedFile(pid, file).status();
    if (absl::IsPermissionDenied(opened)) {
      return NotPermitted("open the files that " + who + " has mapped");
    }
  }
  return status;
}

// Returns the descendants of a wrapper (timeout, sh -c, sudo, a launcher) that have PyTorch.
std::vector<ProcessInfo> TorchDescendants(Pid pid) {
  std::vector<ProcessInfo> descendants = ListTorchProcesses();
  std::erase_if(descendants, [pid](const ProcessInfo& info) {
    constexpr int kMostGenerations = 64;
    Pid ancestor = info.parent;
    for (int i = 0; i < kMostGenerations && ancestor != pid && Raw(ancestor) > 1; ++i) {
      ancestor = ReadParent(ancestor);
    }
    return ancestor != pid || info.pid == pid;
  });
  return descendants;
}

}  // namespace

absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const PlanOptions& options) {
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) return WhyNoTorch(pid, plan.status());
  return plan;
}

absl::Status NameTorchDescendants(Pid pid, const absl::Status& status,
                                  const std::vector<Pid>& recorded) {
  constexpr size_t kMostNamed = 8;
  if (ExitCodeOf(status) != ExitCode::kNoTorch) return status;
  std::vector<ProcessInfo> descendants = TorchDescendants(pid);
  std::erase_if(descendants, [&recorded](const ProcessInfo& info) {
    return std::find(recorded.begin(), recorded.end(), info.pid) != recorded.end();
  });
  if (descendants.empty()) return status;
  std::string names;
  std::string options;
  for (size_t i = 0; i < std::min(descendants.size(), kMostNamed); ++i) {
    const std::string number = std::to_string(Raw(descendants[i].pid));
    names += (i > 0 ? ", " : "") + number + " (" + descendants[i].comm + ")";
    options += " -p " + number;
  }
  if (descendants.size() > kMostNamed) {
    names += " and " + std::to_string(descendants.size() - kMostNamed) + " more";
  }
  return Fail(ExitCode::kNoTorch, "process " + std::to_string(Raw(pid)) +
                                      " has no libtorch itself, but what it started has: " + names +
                                      "; record that: proftrace" + options);
}

namespace {

// Returns a path "/proc/PID/…" of a process with the PID of `child`.
std::string PathOfChild(const std::string& path, Pid child) {
  const std::string prefix = "/proc/";
  const size_t slash = path.find('/', prefix.size());
  if (!path.starts_with(prefix) || slash == std::string::npos) return path;
  return prefix + std::to_string(Raw(child)) + path.substr(slash);
}

}  // namespace

bool HasFiles(Pid child, const ProbePlan& plan) {
  return std::all_of(plan.modules.begin(), plan.modules.end(), [child](const ModulePlan& planned) {
    if (planned.held == nullptr) return false;
    const std::string path = PathOfChild(planned.mapped_path, child);
    if (!planned.held->is_remote() && StateOfFile(path) == planned.held->state()) return true;
    ModulePlan module = planned;
    return RenewPath(child, &module);
  });
}

bool IsForkOf(Pid child, Pid parent, const ProbePlan& plan) {
  Pid ancestor = child;
  for (int i = 0; i < kMostGenerations && ancestor != parent; ++i) ancestor = ReadParent(ancestor);
  return ancestor == parent && HasFiles(child, plan) &&
         ReadImageMark(child) == ReadImageMark(parent);
}

bool RefusesMemory(const ProbePlan& plan, const AttachReport& report) {
  for (const ModulePlan& module : plan.modules) {
    for (const ProbePoint& point : module.points) {
      const bool is_memory = static_cast<uint16_t>(point.cookie) == plan.memory_site;
      if (plan.memory_site == 0 || !is_memory) continue;
      for (const RefusedPoint& refused : report.refused) {
        if (refused.module == module.name && refused.file_offset == point.file_offset) return true;
      }
    }
  }
  return false;
}

absl::Status AddAnnotationOperators(BpfPrograms* programs, Pid pid, const ProbePlan& plan,
                                    const std::vector<OperatorInfo>& operators) {
  for (const OperatorInfo& info : operators) {
    const uint32_t step = AnnotationStep(plan, info);
    if (step == 0) continue;
    absl::Status status = programs->AddAnnotationOperator(pid, info.address, step);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PrepareMaps(BpfPrograms* programs, Pid pid, const ProbePlan& plan) {
  if (absl::Status status = AddAnnotationOperators(programs, pid, plan, plan.operators);
      !status.ok()) {
    return status;
  }
  if (plan.autograd.has_value()) {
    absl::Status status = programs->AddAutogradLayout(pid, *plan.autograd);
    if (!status.ok()) return status;
  }
  if (plan.node_signature_number != 0) {
    absl::Status status = programs->SetNodeSignature(pid, plan.node_signature_number);
    if (!status.ok()) return status;
  }
  for (const auto& [operator_def, signature] : plan.operator_signatures) {
    absl::Status status = programs->AddOperatorSignature(pid, operator_def, signature);
    if (!status.ok()) return status;
  }
  if (plan.python_node_vtable == 0) return absl::OkStatus();
  return programs->AddNodeVtable(pid, plan.python_node_vtable, true);
}

}  // namespace proftrace
