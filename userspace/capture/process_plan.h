// The probe plan of a running process, and of those that it forks.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/attach.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Finds PyTorch in a running process. Fails as the interface's exit codes say. A new library's
// analysis takes memory for a second: to be called before the ring is there.
absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const PlanOptions& options);

// Returns the same status. For a process without PyTorch it names its descendants that have it, but
// for those of `recorded`, and what to type: `pid` may be a wrapper's (timeout, sh -c, sudo, a
// launcher).
absl::Status NameTorchDescendants(Pid pid, const absl::Status& status,
                                  const std::vector<Pid>& recorded);

// Whether `child` has the plan's files at its parent's addresses, as after a fork, and nothing was
// done to them since they were analysed. Not one that runs something else by now, or has mapped
// other files there.
bool HasFiles(Pid child, const ProbePlan& plan);

// So many parents are looked at: the chain of a process's ancestors may change meanwhile.
inline constexpr int kMostGenerations = 64;

// Whether `child` was forked by `parent`, directly or not, and has its files. Not one that runs the
// same program anew, also where that lies at the same addresses (personality(2)).
bool IsForkOf(Pid child, Pid parent, const ProbePlan& plan);

// Whether a process runs a program. Not from the moment that its memory goes, which is before it is
// a zombie.
bool HasProgram(Pid pid);

// Whether both run in the same memory (vfork, clone(CLONE_VM)). False where the kernel cannot tell.
bool SharesMemory(Pid a, Pid b);

// Tells the kernel's side what it must know of the process before its first probe.
absl::Status PrepareMaps(BpfPrograms* programs, Pid pid, const ProbePlan& plan);
// Tells the programs which of `operators` begin and end annotations.
absl::Status AddAnnotationOperators(BpfPrograms* programs, Pid pid, const ProbePlan& plan,
                                    const std::vector<OperatorInfo>& operators);

// Whether a memory probe of `plan` was refused: then none of them is live.
bool RefusesMemory(const ProbePlan& plan, const AttachReport& report);

}  // namespace proftrace
