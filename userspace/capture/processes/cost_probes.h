// Attaches probes that are only counted: by them a recording measures what it costs, and how often
// operators run.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/processes/probe_attacher.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Processes with their plans.
using PlannedProcesses = std::vector<std::pair<Pid, std::shared_ptr<const ProbePlan>>>;

// Attaches the second probes behind operators' begins (ModulePlan::cost_points) in each process.
// The probes are removed with the returned links.
LinkSet AttachCostPoints(ProbeAttacher* attacher, const PlannedProcesses& processes);
// Attaches one probe at the function that every operator calls. Empty where the process has no such
// function, or cannot be probed. The probe is removed with the returned links.
LinkSet AttachCounter(ProbeAttacher* attacher, Pid pid, const ProbePlan& plan);
// Attaches one probe at the begin of an operator. Returns links as AttachCounter() does.
LinkSet AttachCounterAt(ProbeAttacher* attacher, Pid pid, const ProbePlan& plan, uint16_t site);

}  // namespace proftrace
