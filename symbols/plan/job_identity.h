// What the environment of a process tells of the distributed job that it is of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/plan/process_environment.h"
#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/model/job_identity.h"

namespace proftrace {

struct JobFacts {
  std::optional<int> rank;        // RANK
  std::optional<int> world_size;  // WORLD_SIZE
  JobIdentity identity;
};

// Where Kubernetes has a process, beside its environment.
struct PodPlace {
  std::string control_groups;  // /proc/PID/cgroup
  bool has_own_host_name = false;
  std::string account_namespace;  // of the service account's folder
};

// Values that are no numbers where numbers are asked for are left out. A process is a pod's where
// its control group or Kubernetes' own variable says so, whatever else is named after pods.
JobFacts JobOf(const Environment& environment, const PodPlace& place);

// The uid in "…/kubepods-burstable-podUID.slice/…" or "/kubepods/burstable/podUID/…"; else empty.
std::string PodUidOf(std::string_view control_groups);

JobFacts ReadJobFacts(Pid pid, const std::vector<MappedFile>& files);

}  // namespace proftrace
