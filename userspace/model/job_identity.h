// Which part of which distributed job a process is, as its launcher told it in the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace proftrace {

struct JobIdentity {
  std::optional<uint32_t> local_rank;
  std::optional<uint32_t> local_world_size;
  std::optional<uint32_t> group_rank;
  std::string master_addr;
  std::optional<uint32_t> master_port;
  std::string elastic_run_id;
  std::optional<uint32_t> elastic_restart_count;
  std::string slurm_cluster;
  std::optional<uint32_t> slurm_job_id;
  std::optional<uint32_t> slurm_step_id;
  std::optional<uint32_t> slurm_proc_id;
  std::optional<uint32_t> slurm_node_id;
  std::optional<uint32_t> slurm_restart_count;
  std::string kubernetes_pod;
  std::string kubernetes_namespace;
  std::string kubernetes_pod_uid;
  std::string kubernetes_node;

  bool operator==(const JobIdentity&) const = default;
};

// The longest text that a field may have. Longer values of the environment are taken for no name
// and ignored.
inline constexpr size_t kMostJobTextBytes = 256;

struct JobField {
  const char* key;        // its name in captures and in summary.json
  const char* variables;  // environment variables, separated by blanks; the first one set counts
};

// Calls `visit(field, value)` for each field of `job`. A value is an optional number or a text;
// both are empty where the value is not known.
template <typename Job, typename Visit>
void ForEachJobField(Job& job, Visit visit) {
  visit(JobField{"local_rank", "LOCAL_RANK"}, job.local_rank);
  visit(JobField{"local_world_size", "LOCAL_WORLD_SIZE"}, job.local_world_size);
  visit(JobField{"group_rank", "GROUP_RANK"}, job.group_rank);
  visit(JobField{"master_addr", "MASTER_ADDR"}, job.master_addr);
  visit(JobField{"master_port", "MASTER_PORT"}, job.master_port);
  visit(JobField{"elastic_run_id", "TORCHELASTIC_RUN_ID"}, job.elastic_run_id);
  visit(JobField{"elastic_restart_count", "TORCHELASTIC_RESTART_COUNT"}, job.elastic_restart_count);
  visit(JobField{"slurm_cluster", "SLURM_CLUSTER_NAME"}, job.slurm_cluster);
  visit(JobField{"slurm_job_id", "SLURM_JOB_ID"}, job.slurm_job_id);
  visit(JobField{"slurm_step_id", "SLURM_STEP_ID"}, job.slurm_step_id);
  visit(JobField{"slurm_proc_id", "SLURM_PROCID"}, job.slurm_proc_id);
  visit(JobField{"slurm_node_id", "SLURM_NODEID"}, job.slurm_node_id);
  visit(JobField{"slurm_restart_count", "SLURM_RESTART_COUNT"}, job.slurm_restart_count);
  // No variable's name is prescribed for pods. These are the names in Kubernetes' documentation,
  // those in OpenTelemetry's, and the plain ones.
  visit(JobField{"kubernetes_pod", "POD_NAME MY_POD_NAME K8S_POD_NAME"}, job.kubernetes_pod);
  visit(JobField{"kubernetes_namespace", "POD_NAMESPACE MY_POD_NAMESPACE K8S_NAMESPACE_NAME"},
        job.kubernetes_namespace);
  visit(JobField{"kubernetes_pod_uid", "POD_UID MY_POD_UID K8S_POD_UID"}, job.kubernetes_pod_uid);
  visit(JobField{"kubernetes_node", "NODE_NAME MY_NODE_NAME K8S_NODE_NAME"}, job.kubernetes_node);
}

// Returns what a job is called: torchrun's run id, else Slurm's number of the job; empty where none
// is known. torchrun gives a run without a name the id "none".
inline std::string JobNameOf(const JobIdentity& job) {
  if (!job.elastic_run_id.empty() && job.elastic_run_id != "none") return job.elastic_run_id;
  return job.slurm_job_id ? std::to_string(*job.slurm_job_id) : "";
}

// Returns the number of this attempt of the job: 0 for the first attempt, and where no launcher
// tells it.
inline int32_t AttemptOf(const JobIdentity& job) {
  return static_cast<int32_t>(
      job.elastic_restart_count.value_or(job.slurm_restart_count.value_or(0)));
}

}  // namespace proftrace
