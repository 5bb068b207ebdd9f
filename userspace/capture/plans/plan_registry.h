// Keeps the probe plans of a recording by the numbers that records and metadata have for them.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/model/label.h"

namespace proftrace {

// May be used by several threads.
class PlanRegistry {
 public:
  // Both must outlive the registry.
  PlanRegistry(BpfPrograms* programs, CaptureSink* sink) : programs_(programs), sink_(sink) {}

  // Gives the kernel the places that the plan's probes read from, and the probes their numbers.
  // Returns the plan's number. Plans with the same sites have the same number.
  absl::StatusOr<uint32_t> Add(ProbePlan* plan);

  // The plan of a process that has loaded more libraries.
  struct Extended {
    // The plan with the modules and sites that the libraries add.
    std::shared_ptr<const ProbePlan> plan;
    std::vector<ModulePlan> added;
  };
  // Adds the libraries that a process of plan `id` has loaded. `plan` is the process's own plan,
  // and `now` is a plan that was just made. New sites get numbers behind those of all processes
  // with the same plan number, so that no two sites share one. The returned plan is null where
  // nothing is added.
  Extended Extend(uint32_t id, const ProbePlan& plan, const ProbePlan& now);

 private:
  BpfPrograms* programs_;
  CaptureSink* sink_;
  std::mutex mutex_;
  absl::flat_hash_map<std::vector<Label>, uint32_t> ids_;
  std::map<uint32_t, std::vector<SiteInfo>> sites_;  // the sites of plans that were extended, by id
};

}  // namespace proftrace
