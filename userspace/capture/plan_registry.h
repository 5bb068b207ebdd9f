// The probe plans of a recording, by the numbers that records and metadata know them by.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/model/label.h"

namespace proftrace {

// May be used by several threads.
class PlanRegistry {
 public:
  // Both must outlive the registry.
  PlanRegistry(BpfPrograms* programs, CaptureSink* sink) : programs_(programs), sink_(sink) {}

  // Gives the kernel the places that the plan's probes read from, and the probes their numbers.
  // Returns the plan's number: plans that have the same sites have the same one.
  absl::StatusOr<uint32_t> Add(ProbePlan* plan);

  // A process of plan `id` has loaded more libraries.
  struct Extended {
    std::shared_ptr<const ProbePlan> plan;  // with what they add
    std::vector<ModulePlan> added;
  };
  // `plan`: the process' own; `now`: made anew. Sites are added behind those of all processes with
  // the same number, so that no two share one. A null plan where nothing is added.
  Extended Extend(uint32_t id, const ProbePlan& plan, const ProbePlan& now);

 private:
  BpfPrograms* programs_;
  CaptureSink* sink_;
  std::mutex mutex_;
  absl::flat_hash_map<std::vector<Label>, uint32_t> ids_;
  std::map<uint32_t, std::vector<SiteInfo>> sites_;  // by id, of plans that were extended
};

}  // namespace proftrace
