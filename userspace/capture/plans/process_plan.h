// Finds the probe plan of a running process, and tells whether a forked process has its parent's
// plan.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Makes the probe plan of a running process. Fails with the exit code that
// docs/reference/exit-codes.md has for the reason. The analysis of a new library takes much memory
// for a second, so it is to be called before the ring is made.
absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const PlanOptions& options);

// Returns `status`. For a process without PyTorch it adds the process's descendants that have
// PyTorch, except those in `recorded`, and the command that records them: `pid` may be a wrapper's
// (timeout, sh -c, sudo, a launcher).
absl::Status NameTorchDescendants(Pid pid, const absl::Status& status,
                                  const std::vector<Pid>& recorded);

// Whether `child` has the plan's files at its parent's addresses, as after a fork, and nothing was
// done to them since they were analysed. False for a child that runs another program by now, or has
// mapped other files there.
bool HasFiles(Pid child, const ProbePlan& plan);

// How many ancestors of a process are looked at. There is a limit because the chain may change
// meanwhile.
inline constexpr int kMostGenerations = 64;

// Whether `child` was forked by `parent`, directly or not, and has its files. False for a child
// that has started the same program anew, even where it lies at the same addresses
// (personality(2)).
bool IsForkOf(Pid child, Pid parent, const ProbePlan& plan);

// Fills the programs' maps with the facts of a process that the programs need before the process's
// first probe.
absl::Status PrepareMaps(BpfPrograms* programs, Pid pid, const ProbePlan& plan);
// Tells the programs which of `operators` begin or end annotations.
absl::Status AddAnnotationOperators(BpfPrograms* programs, Pid pid, const ProbePlan& plan,
                                    const std::vector<OperatorInfo>& operators);

// Whether a memory probe of `plan` was refused, so that none of these probes is live.
bool RefusesMemory(const ProbePlan& plan, const AttachReport& report);

}  // namespace proftrace
