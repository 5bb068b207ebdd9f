#include "userspace/cli/job_dump.h"

#include <sys/utsname.h>

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "symbols/plan/host_identity.h"
#include "symbols/plan/process.h"
#include "symbols/plan/process_groups.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/dump_document.h"
#include "userspace/cli/dump_groups.h"
#include "userspace/cli/job_dumps.h"
#include "userspace/cli/job_report.h"
#include "userspace/cli/process_dump.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

// Returns a name that tells jobs on the same host apart.
std::string JobName(const ProcessInfo& info) {
  const JobIdentity& job = info.job;
  std::string name;
  if (job.slurm_job_id) absl::StrAppend(&name, " SLURM job ", *job.slurm_job_id);
  const bool has_run = !job.elastic_run_id.empty() && job.elastic_run_id != "none";
  if (has_run) absl::StrAppend(&name, " run ", job.elastic_run_id);
  if (!job.master_addr.empty()) absl::StrAppend(&name, " ", job.master_addr);
  if (job.master_port) absl::StrAppend(&name, ":", *job.master_port);
  return name.empty() ? name : name.substr(1);
}

DumpHost ThisHost() {
  utsname names{};
  uname(&names);
  DumpHost host;
  host.name = names.nodename;
  host.boot_id = ReadHostIdentity().boot_id;
  host.pid_namespace = ReadEntryLink("/proc/self/ns/pid");
  host.begin_unix_ns = ClockNs(CLOCK_REALTIME);
  return host;
}

// Reads the process groups: how many collectives the process has begun in each, and its rank where
// no launcher has told it.
void ReadGroupsOf(const ProcessInfo& info, RankDump* one) {
  ProbePlan plan;
  plan.torch_version = info.torch_version;
  ProcessGroupReading reading;
  for (const bool old_strings : {false, true}) {
    plan.old_string_abi = old_strings;
    reading = ReadProcessGroups(info.pid, plan);
    if (!reading.groups.empty()) break;
  }
  for (size_t i = 0; i < reading.groups.size() && i < reading.entered.size(); ++i) {
    if (reading.entered[i]) one->begun.push_back({reading.groups[i], *reading.entered[i]});
  }
  const ProcessGroup* const group = DefaultGroup(reading.groups);
  if (group == nullptr || one->rank) return;
  one->rank = group->rank;
  one->world_size = group->size;
}

void DumpOne(const ProcessInfo& info, JobDumps* result, absl::Status* first_failure) {
  auto dump = TakeDump(info.pid);
  if (!dump.ok()) {
    result->failed.push_back({0, info.pid, info.comm, std::string(dump.status().message())});
    if (first_failure->ok()) *first_failure = dump.status();
    return;
  }
  RankDump one;
  one.dump = *std::move(dump);
  one.parent = info.parent;
  one.rank = info.rank;
  one.world_size = info.world_size;
  if (info.job.local_world_size)
    one.local_world_size = static_cast<int>(*info.job.local_world_size);
  one.job = JobName(info);
  result->dumps.push_back(std::move(one));
}

// Takes the dumps. `is_quick`: the heap of a process is not searched where its launcher has told no
// rank.
absl::StatusOr<JobDumps> TakeDumps(const std::vector<uint32_t>& pids, bool is_quick) {
  JobDumps result;
  DumpHost host = ThisHost();
  host.is_whole = pids.empty();
  absl::Status first_failure;
  std::vector<ProcessInfo> processes;
  if (pids.empty()) {
    processes = ListTorchProcesses();
    if (processes.empty()) {
      return Fail(ExitCode::kNoTarget,
                  "no running process with PyTorch is visible to this user; 'sudo proftrace list' "
                  "shows those of all users");
    }
  }
  for (const uint32_t pid : std::set<uint32_t>(pids.begin(), pids.end())) {
    auto info = ReadProcessInfo(Pid{pid});
    if (info.ok()) {
      processes.push_back(*std::move(info));
    } else {
      result.failed.push_back({0, Pid{pid}, "", std::string(info.status().message())});
      if (first_failure.ok()) first_failure = info.status();
    }
  }
  // All stacks are read first, close together in time. Slower readings come later.
  for (const ProcessInfo& info : processes) DumpOne(info, &result, &first_failure);
  if (result.dumps.empty()) return first_failure;
  for (RankDump& one : result.dumps) {
    const auto info = std::find_if(processes.begin(), processes.end(), [&](const auto& process) {
      return process.pid == one.dump.pid;
    });
    if (!is_quick || one.rank) ReadGroupsOf(*info, &one);
  }
  TellJobsApart(&result.dumps);
  host.end_unix_ns = ClockNs(CLOCK_REALTIME);
  result.hosts.push_back(std::move(host));
  return result;
}

}  // namespace

absl::Status DumpJob(const std::vector<uint32_t>& pids, bool as_json) {
  const absl::StatusOr<JobDumps> all = TakeDumps(pids, /*is_quick=*/false);
  if (!all.ok()) return all.status();
  if (as_json) {
    PrintDocument(JobJson(*all));
  } else {
    PrintJob(*all);
  }
  return absl::OkStatus();
}

absl::Status DumpOneAsJson(Pid pid) {
  const absl::StatusOr<JobDumps> all = TakeDumps({Raw(pid)}, /*is_quick=*/true);
  if (!all.ok()) return all.status();
  PrintDocument(ProcessJson(*all));
  return absl::OkStatus();
}

}  // namespace proftrace
