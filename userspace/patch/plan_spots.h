// Which points of a probe plan can be jumps in a process, and where.
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

// PatchSpot::group of boxed operators: an annotation's begin is told of at the begin of one, and
// its handle at the end.
inline constexpr uint32_t kBoxedGroup = 0x8000'0000;

// A point that stays a probe of the kernel.
struct UnpatchedPoint {
  size_t module = 0;  // index into ProbePlan::modules
  size_t point = 0;   // into ModulePlan::points
  std::string reason;
};

struct PlanSpots {
  std::vector<PatchSpot> spots;
  std::vector<UnpatchedPoint> unpatched;
};

// Returns what an operator does to annotations (enum pt_annotation_step), 0 = nothing.
uint32_t AnnotationStep(const ProbePlan& plan, const OperatorInfo& info);

// Adds those of `operators` that are none of `facts` yet, as far as there is room; whether there
// were any.
bool AddAnnotations(const ProbePlan& plan, const std::vector<OperatorInfo>& operators,
                    JobFacts* facts);

// Returns what the recorder has to know of a process with that plan.
JobFacts FactsOf(const ProbePlan& plan);

// Returns the plan's places as the recorder in a job is to read them where there is no eBPF: the
// names of Python types, which custom autograd Functions' rows have, are left to the loader.
std::vector<abi::pt_place> PlacesWithoutBpf(const ProbePlan& plan);

// Makes of them spots whose records say of Python's stacks, too.
void AddStacks(const ProbePlan& plan, PlanSpots* spots);

// Whether, with jumps at these of the spots, all that AddStacks() took for granted holds.
bool AreEndsSeen(const ProbePlan& plan, const std::vector<PatchSpot>& spots,
                 const std::vector<size_t>& written);

// `places`: the plan's, or PlacesWithoutBpf(). Reads the process's map and the plan's files. Fails
// with kNoTarget or kNotPermitted. What takes long is kept in `cache_directory` (PlanOptions).
absl::StatusOr<PlanSpots> FindPlanSpots(Pid pid, const ProbePlan& plan,
                                        const std::vector<abi::pt_place>& places,
                                        const std::string& cache_directory);

}  // namespace proftrace
