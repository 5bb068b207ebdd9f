#include "userspace/cli/job_dump.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "symbols/plan/process.h"
#include "symbols/plan/process_groups.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/dump_groups.h"
#include "userspace/cli/dump_text.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

using nlohmann::json;

struct NotDumped {
  Pid pid{};
  std::string comm;
  absl::Status why;
};

struct JobDumps {
  std::vector<RankDump> dumps;
  std::vector<NotDumped> failed;
};

// What tells one job from another on the same host.
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

// Reads the process groups: how many collectives each has begun, and the rank where no launcher has
// told it.
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

void DumpOne(const ProcessInfo& info, JobDumps* result) {
  auto dump = TakeDump(info.pid);
  if (!dump.ok()) {
    result->failed.push_back({info.pid, info.comm, dump.status()});
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

absl::StatusOr<JobDumps> TakeDumps(const std::vector<uint32_t>& pids) {
  JobDumps result;
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
      result.failed.push_back({Pid{pid}, "", info.status()});
    }
  }
  // All stacks first, close together in time; what takes longer comes later.
  for (const ProcessInfo& info : processes) DumpOne(info, &result);
  if (result.dumps.empty()) return result.failed.front().why;
  for (RankDump& one : result.dumps) {
    const auto info = std::find_if(processes.begin(), processes.end(), [&](const auto& process) {
      return process.pid == one.dump.pid;
    });
    ReadGroupsOf(*info, &one);
  }
  TellJobsApart(&result.dumps);
  return result;
}

std::string PlaceText(const EnteredCollective& collective) {
  std::string text = ShownText(collective.name);
  if (collective.file.empty()) return text;
  text += ", called from " + ShownText(collective.file);
  if (collective.line) text += ":" + std::to_string(*collective.line);
  return text;
}

std::vector<int> RanksIn(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  std::vector<int> ranks;
  for (const size_t member : group.members) {
    if (dumps[member].rank) ranks.push_back(*dumps[member].rank);
  }
  return ranks;
}

std::string Pids(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  constexpr size_t kMostShown = 16;
  std::string text = group.members.size() == 1 ? "PID " : "PIDs ";
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (i == kMostShown) {
      return text + " and " + std::to_string(group.members.size() - i) + " more";
    }
    text += (i == 0 ? "" : ", ") + std::to_string(Raw(dumps[group.members[i]].dump.pid));
  }
  return text;
}

std::string RankWord(size_t count) { return count == 1 ? "Rank " : "Ranks "; }

// "Rank 3 (PID 4714)", "Ranks 0-2, 4 (PIDs …)", "PIDs … (no rank)".
std::string GroupName(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  const std::vector<int> ranks = RanksIn(dumps, group);
  if (!group.is_of_ranks && !ranks.empty()) {
    return RankWord(ranks.size()) + RankRanges(ranks) + ", helpers (" + Pids(dumps, group) + ")";
  }
  if (ranks.empty()) return Pids(dumps, group);
  return RankWord(ranks.size()) + RankRanges(ranks) + " (" + Pids(dumps, group) + ")";
}

// Why a rank is not where the others are.
std::string WhereText(const std::vector<RankDump>& dumps, const std::vector<DumpGroup>& groups,
                      const MissingRanks& missing, int rank) {
  for (const DumpGroup& group : groups) {
    if (group.job != missing.job || !group.is_of_ranks) continue;
    for (const size_t member : group.members) {
      if (dumps[member].rank != rank) continue;
      if (group.collective) return "is in " + PlaceText(*group.collective);
      const ProcessDump& dump = dumps[member].dump;
      const DumpedStack* const stack = MainStack(dump);
      if (stack == nullptr || stack->frames.empty()) return "runs no Python";
      const DumpedFrame& frame = stack->frames.front();
      return "is in no call of torch.distributed: " + WaitText(*MainThread(dump)) + ", in " +
             ShownText(frame.qualified_name) + " (" + ShownText(frame.file) +
             (frame.line ? ":" + std::to_string(*frame.line) : "") + ")";
    }
  }
  return "is elsewhere";
}

void PrintMissing(const std::vector<RankDump>& dumps, const std::vector<DumpGroup>& groups,
                  const MissingRanks& missing) {
  Print("%s%s %s in %s.\n", RankWord(missing.waiting.size()).c_str(),
        RankRanges(missing.waiting).c_str(), missing.waiting.size() == 1 ? "waits" : "wait",
        PlaceText(missing.collective).c_str());
  for (const int rank : missing.missing) {
    Print("  Missing: rank %d %s.\n", rank, WhereText(dumps, groups, missing, rank).c_str());
  }
  if (!missing.absent.empty()) {
    Print("  Missing: rank%s %s: no such process on this host.\n",
          missing.absent.size() == 1 ? "" : "s", RankRanges(missing.absent).c_str());
  }
}

// "0 (default_pg, gloo)"
std::string GroupText(const ProcessGroup& group) {
  std::string text =
      group.name.empty() ? "of " + std::to_string(group.size) + " ranks" : group.name;
  std::string more = group.description;
  if (!group.backend.empty()) more += (more.empty() ? "" : ", ") + group.backend;
  return ShownText(more.empty() ? text : text + " (" + more + ")");
}

void PrintUneven(const UnevenGroup& uneven) {
  std::string text;
  for (const auto& [count, ranks] : uneven.ranks) {
    text += text.empty() ? RankWord(ranks.size()) : ranks.size() == 1 ? "; rank " : "; ranks ";
    absl::StrAppend(&text, RankRanges(ranks), ranks.size() == 1 ? " has" : " have", " begun ",
                    count);
  }
  Print("Collectives of process group %s: %s.\n", GroupText(uneven.group).c_str(), text.c_str());
}

void PrintGroup(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  const ProcessDump& first = dumps[group.members.front()].dump;
  const DumpedThread* const thread = MainThread(first);
  Print("\n%s: ", ShownText(GroupName(dumps, group)).c_str());
  if (group.collective) {
    Print("in %s", PlaceText(*group.collective).c_str());
  } else {
    Print("%s", group.is_of_ranks ? "in no call of torch.distributed" : "not a rank itself");
  }
  if (thread == nullptr) {
    Print(", no Python\n");
    return;
  }
  Print(", %s\n", WaitText(*thread).c_str());
  if (!first.standstill.empty()) Print("    %s\n", ShownText(first.standstill).c_str());
  PrintStack(thread->stacks.front());
}

void PrintJob(const JobDumps& all, const std::vector<DumpGroup>& groups,
              const std::vector<MissingRanks>& missing) {
  int64_t longest_ns = 0;
  for (const RankDump& one : all.dumps) {
    longest_ns = std::max(longest_ns, one.dump.stopped_ns.value_or(0));
  }
  Print(
      "%zu processes, one after the other, each stopped for up to %.1f ms; %zu different stacks of "
      "main threads\n",
      all.dumps.size(), static_cast<double>(longest_ns) / 1e6, groups.size());
  for (const MissingRanks& one : missing) PrintMissing(all.dumps, groups, one);
  for (const UnevenGroup& one : FindUnevenGroups(all.dumps)) PrintUneven(one);
  for (const RankDump& one : all.dumps) {
    if (one.dump.stopped_ns) continue;
    Print("PID %u went on while it was read: %s\n", Raw(one.dump.pid),
          ShownText(one.dump.not_stopped).c_str());
  }
  const auto is_of_another = [&](const DumpGroup& group) {
    return group.is_of_ranks && group.job != groups.front().job;
  };
  const bool has_jobs = std::any_of(groups.begin(), groups.end(), is_of_another);
  const DumpGroup* last = nullptr;
  for (const DumpGroup& group : groups) {
    const bool begins_job = has_jobs && group.is_of_ranks && !group.job.empty() &&
                            (last == nullptr || last->job != group.job);
    if (begins_job) Print("\nJob %s\n", ShownText(group.job).c_str());
    PrintGroup(all.dumps, group);
    last = &group;
  }
  for (const NotDumped& one : all.failed) {
    Print("\nNot shown: PID %u%s: %s\n", Raw(one.pid),
          one.comm.empty() ? "" : (" (" + ShownText(one.comm) + ")").c_str(),
          ShownText(std::string(one.why.message())).c_str());
  }
  Print("\n'sudo proftrace dump -p PID' shows all threads of one.\n");
}

template <typename T>
json OrNone(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json CollectiveJson(const std::optional<EnteredCollective>& collective) {
  if (!collective) return {};
  return {{"name", collective->name},
          {"file", collective->file.empty() ? json() : json(collective->file)},
          {"line", OrNone(collective->line)}};
}

json JobJson(const JobDumps& all, const std::vector<DumpGroup>& groups,
             const std::vector<MissingRanks>& missing) {
  json processes = json::array();
  for (const RankDump& one : all.dumps) {
    json process = DumpJson(one.dump);
    process["rank"] = OrNone(one.rank);
    process["world_size"] = OrNone(one.world_size);
    process["parent"] = Raw(one.parent);
    process["job"] = one.job;
    processes.push_back(std::move(process));
  }
  json folded = json::array();
  for (const DumpGroup& group : groups) {
    json pids = json::array();
    for (const size_t member : group.members) pids.push_back(Raw(all.dumps[member].dump.pid));
    const DumpedStack* const stack = MainStack(all.dumps[group.members.front()].dump);
    folded.push_back({{"job", group.job},
                      {"ranks", RanksIn(all.dumps, group)},
                      {"pids", pids},
                      {"helpers", !group.is_of_ranks},
                      {"collective", CollectiveJson(group.collective)},
                      {"stack", stack == nullptr ? json() : StackJson(*stack)}});
  }
  json absent = json::array();
  for (const MissingRanks& one : missing) {
    absent.push_back({{"job", one.job},
                      {"collective", CollectiveJson(one.collective)},
                      {"waiting", one.waiting},
                      {"missing", one.missing},
                      {"without_process", one.absent}});
  }
  json uneven = json::array();
  for (const UnevenGroup& one : FindUnevenGroups(all.dumps)) {
    json begun = json::array();
    for (const auto& [count, ranks] : one.ranks)
      begun.push_back({{"count", count}, {"ranks", ranks}});
    uneven.push_back({{"job", one.job},
                      {"group", one.group.name},
                      {"description", one.group.description},
                      {"backend", one.group.backend},
                      {"size", one.group.size},
                      {"begun", begun}});
  }
  json failed = json::array();
  for (const NotDumped& one : all.failed) {
    failed.push_back({{"pid", Raw(one.pid)}, {"why", std::string(one.why.message())}});
  }
  return {{"missing", absent},
          {"uneven_groups", uneven},
          {"groups", folded},
          {"processes", processes},
          {"failed", failed}};
}

}  // namespace

absl::Status DumpJob(const std::vector<uint32_t>& pids, bool as_json) {
  const absl::StatusOr<JobDumps> all = TakeDumps(pids);
  if (!all.ok()) return all.status();
  const std::vector<DumpGroup> groups = FoldDumps(all->dumps);
  const std::vector<MissingRanks> missing = FindMissingRanks(all->dumps, groups);
  if (as_json) {
    PrintDocument(JobJson(*all, groups, missing));
  } else {
    PrintJob(*all, groups, missing);
  }
  return absl::OkStatus();
}

}  // namespace proftrace
