// Keeps the kernel's probes at the operators of one module of a process in one link, which is
// exchanged for a link with fewer probes while the job runs (--max-overhead). No hit is recorded
// twice meanwhile, and none is missed (bpf/kernel/demotions.bpf.h).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <set>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/bpf_programs.h"

namespace proftrace {

// Sites that lose their probes at ends, or all probes.
struct RemovedProbes {
  std::set<uint16_t> ends;
  std::set<uint16_t> all;

  bool empty() const { return ends.empty() && all.empty(); }
};

// Whether calls at `site` may be only counted: the site is an operator's, the operator has a name,
// and torch makes rows for it.
bool IsDemotable(const ProbePlan& plan, uint16_t site);

class OperatorLinks {
 public:
  // Takes the points of operators that may be demoted out of `module`, and attaches them as
  // AttachModule() does.
  static absl::StatusOr<OperatorLinks> Attach(const BpfPrograms& programs, const ProbePlan& plan,
                                              Pid pid, ModulePlan* module, AttachReport* report);
  OperatorLinks(OperatorLinks&&) = default;
  OperatorLinks& operator=(OperatorLinks&&) = default;

  // Takes the probes of these sites out. Where this fails, all probes stay as they are.
  absl::Status Remove(BpfPrograms* programs, Pid pid, const RemovedProbes& removed);
  LinkSet TakeLinks() { return std::move(links_); }

 private:
  explicit OperatorLinks(ModulePlan module) : module_(std::move(module)) {}

  ModulePlan module_;  // has only the points that have probes now
  LinkSet links_;
};

// All links of one process.
struct ProcessLinks {
  LinkSet rest;
  std::vector<OperatorLinks> operators;

  bool empty() const { return rest.empty() && operators.empty(); }
  void Add(ProcessLinks more);
  LinkSet TakeAll();
};

}  // namespace proftrace
