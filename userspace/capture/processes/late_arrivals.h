// Notices what recorded processes load and register after their plans were made: libraries, which
// get probes or jumps of their own, and operators, which get names.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/processes/known_processes.h"
#include "userspace/capture/processes/library_watch.h"
#include "userspace/capture/processes/operator_watch.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/model/ids.h"

namespace proftrace {

// May be used by several threads; it has no lock but those of its parts. Look() is for the
// follower's thread alone.
class LateArrivals {
 public:
  // `shared` must outlive this object. `on_change` is as in ProcessCallbacks.
  LateArrivals(SharedParts* shared, std::function<void(Pid pid, Pid parent)> on_change);

  // Watches a process, whose probes are live.
  void Watch(Pid pid, const PlannedImage& planned);
  void Unwatch(Pid pid);
  // Looks at each process, and attaches to libraries that were loaded since.
  void Look();
  // Looks for operators alone, for the last time.
  void LookForOperators() { operators_.Look(); }
  // Returns how many addresses have had several operators, one after the other.
  uint64_t replaced_operators() const { return operators_.replaced(); }

  // Writes the names of operators into the capture.
  void WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators);

 private:
  void AddLibraries(Pid pid);
  // Puts jumps and probes into libraries that a plan was extended by.
  void AttachLibraries(Pid pid, PlanRegistry::Extended extended);
  void AddOperators(Pid pid, const ProbePlan& plan, uint32_t image,
                    const std::vector<OperatorInfo>& added);

  SharedParts* shared_;
  std::function<void(Pid pid, Pid parent)> on_change_;
  OperatorWatch operators_;
  LibraryWatch libraries_;
};

}  // namespace proftrace
