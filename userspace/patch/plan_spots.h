// Finds which points of a probe plan can be jumps in a process, and the places of the jumps.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// PatchSpot::group of boxed operators: an annotation's begin is recorded at an operator's begin,
// and its handle at the end.
inline constexpr uint32_t kBoxedGroup = 0x8000'0000;

// A point that remains a probe of the kernel.
struct UnpatchedPoint {
  size_t module = 0;  // index into ProbePlan::modules
  size_t point = 0;   // index into ModulePlan::points
  std::string reason;
};

struct PlanSpots {
  std::vector<PatchSpot> spots;
  std::vector<UnpatchedPoint> unpatched;
};

// Returns the step of an annotation (enum pt_annotation_step) that an operator is; 0 = it is none.
uint32_t AnnotationStep(const ProbePlan& plan, const OperatorInfo& info);

// Adds to `facts` those annotation operators of `operators` that it does not have yet, as far as
// there is room. Returns whether any was added.
bool AddAnnotations(const ProbePlan& plan, const std::vector<OperatorInfo>& operators,
                    JobFacts* facts);

// Returns the facts that the recorder needs for a process with this plan.
JobFacts FactsOf(const ProbePlan& plan);

// Returns the plan's places for a recorder in a job without eBPF. A place that leads to the name of
// a Python type, as rows of custom autograd Functions have, becomes the place of the type itself,
// which lives longer; the recorder reads the name by the type.
std::vector<abi::pt_place> PlacesWithoutBpf(const ProbePlan& plan);

// Makes all spots record Python stacks as well, and marks those whose ends are seen.
void AddStacks(const ProbePlan& plan, PlanSpots* spots);

// Whether the jumps at the spots `written` see every catch, and all ends of the operators that
// AddStacks() has marked with ends_are_seen.
bool AreEndsSeen(const ProbePlan& plan, const std::vector<PatchSpot>& spots,
                 const std::vector<size_t>& written);

// Finds the spots of the plan's points. `places`: the plan's, or PlacesWithoutBpf(). Reads the
// process's map and the plan's files, and keeps in `cache_directory` (PlanOptions) what takes long
// to find. Fails with kNoTarget or kNotPermitted.
absl::StatusOr<PlanSpots> FindPlanSpots(Pid pid, const ProbePlan& plan,
                                        const std::vector<abi::pt_place>& places,
                                        const std::string& cache_directory);

}  // namespace proftrace
