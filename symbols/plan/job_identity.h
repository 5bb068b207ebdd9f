// Finds the distributed job that a process belongs to, by its environment.
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

// Where a process runs in Kubernetes, as far as its environment does not say so.
struct PodPlace {
  std::string control_groups;  // /proc/PID/cgroup
  bool has_own_host_name = false;
  std::string account_namespace;  // the namespace file in the folder of the pod's service account
};

// Returns the facts in an environment. A value that should be a number and is none is left out. A
// process belongs to a pod only where its control group or Kubernetes' own variable says so; other
// variables with names of pods do not count.
JobFacts JobOf(const Environment& environment, const PodPlace& place);

// Returns the uid in "…/kubepods-burstable-podUID.slice/…" or "/kubepods/burstable/podUID/…"; empty
// for any other text.
std::string PodUidOf(std::string_view control_groups);

JobFacts ReadJobFacts(Pid pid, const std::vector<MappedFile>& files);

}  // namespace proftrace
