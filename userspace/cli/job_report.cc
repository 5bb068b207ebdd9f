#include "userspace/cli/job_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/base/shown_text.h"
#include "userspace/cli/dump_text.h"
#include "userspace/cli/say.h"

namespace proftrace {
namespace {

std::string PlaceText(const EnteredCollective& collective) {
  std::string text = ShownText(collective.name);
  if (collective.file.empty()) return text;
  text += ", called from " + ShownText(collective.file);
  if (collective.line) text += ":" + std::to_string(*collective.line);
  return text;
}

// Returns "PIDs 4, 7" or, for several hosts, "PIDs 4, 7 on node1, 5 on node2".
std::string Pids(const JobDumps& all, const DumpGroup& group) {
  constexpr size_t kMostShown = 16;
  std::string text = group.members.size() == 1 ? "PID " : "PIDs ";
  const std::string* host = nullptr;
  const auto end_host = [&] {
    if (host != nullptr && all.hosts.size() > 1) text += " on " + *host;
  };
  for (size_t i = 0; i < group.members.size(); ++i) {
    if (i == kMostShown) {
      end_host();
      return text + " and " + std::to_string(group.members.size() - i) + " more";
    }
    const RankDump& one = all.dumps[group.members[i]];
    const std::string* const its_host = &all.hosts[one.host].name;
    if (host != its_host) end_host();
    host = its_host;
    text += (i == 0 ? "" : ", ") + std::to_string(Raw(one.dump.pid));
  }
  end_host();
  return text;
}

std::string RankWord(size_t count) { return count == 1 ? "Rank " : "Ranks "; }

// Returns "Rank 3 (PID 4714)", "Ranks 0-2, 4 (PIDs …)" or, where no rank is known, "PIDs …".
std::string GroupName(const JobDumps& all, const DumpGroup& group) {
  const std::vector<int> ranks = RanksIn(all.dumps, group);
  if (!group.is_of_ranks && !ranks.empty()) {
    return RankWord(ranks.size()) + RankRanges(ranks) + ", helpers (" + Pids(all, group) + ")";
  }
  if (ranks.empty()) return Pids(all, group);
  return RankWord(ranks.size()) + RankRanges(ranks) + " (" + Pids(all, group) + ")";
}

// Returns where a rank is instead of in the call of the others, or why that is not known.
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

void PrintMissing(const JobDumps& all, const std::vector<DumpGroup>& groups,
                  const MissingRanks& missing) {
  Print("%s%s %s in %s.\n", RankWord(missing.waiting.size()).c_str(),
        RankRanges(missing.waiting).c_str(), missing.waiting.size() == 1 ? "waits" : "wait",
        PlaceText(missing.collective).c_str());
  for (const int rank : missing.missing) {
    Print("  Missing: rank %d %s.\n", rank, WhereText(all.dumps, groups, missing, rank).c_str());
  }
  if (!missing.absent.empty()) {
    Print("  Missing: rank%s %s: no such process on %s.\n", missing.absent.size() == 1 ? "" : "s",
          RankRanges(missing.absent).c_str(), all.hosts.size() > 1 ? "these hosts" : "this host");
  }
  if (!missing.not_dumped.empty()) {
    Print("  Missing: rank%s %s: not among these dumps; not looked at, or without a process.\n",
          missing.not_dumped.size() == 1 ? "" : "s", RankRanges(missing.not_dumped).c_str());
  }
}

// Returns a group's name with its description and backend: "0 (default_pg, gloo)".
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
  if (!uneven.unseen.empty()) {
    absl::StrAppend(&text, "; of rank", uneven.unseen.size() == 1 ? " " : "s ",
                    RankRanges(uneven.unseen), " none is known");
  }
  Print("Collectives of process group %s: %s.\n", GroupText(uneven.group).c_str(), text.c_str());
}

void PrintGroup(const JobDumps& all, const DumpGroup& group) {
  const ProcessDump& first = all.dumps[group.members.front()].dump;
  const DumpedThread* const thread = MainThread(first);
  Print("\n%s: ", ShownText(GroupName(all, group)).c_str());
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

// Returns "8 processes, one after the other", or "8 processes of 2 hosts, by their clocks within
// 3.1 s" for several hosts.
std::string HowMany(const JobDumps& all) {
  if (all.hosts.size() == 1) {
    return std::to_string(all.dumps.size()) + " processes, one after the other";
  }
  int64_t begin_ns = INT64_MAX;
  int64_t end_ns = INT64_MIN;
  for (const DumpHost& host : all.hosts) {
    begin_ns = std::min(begin_ns, host.begin_unix_ns);
    end_ns = std::max(end_ns, host.end_unix_ns);
  }
  // The times are subtracted as doubles, because a document may hold any numbers, and integers
  // could overflow.
  const double seconds = (static_cast<double>(end_ns) - static_cast<double>(begin_ns)) / 1e9;
  return absl::StrFormat("%d processes of %d hosts, by their clocks within %.1f s",
                         all.dumps.size(), all.hosts.size(), seconds);
}

}  // namespace

void PrintJob(const JobDumps& all) {
  const std::vector<DumpGroup> groups = FoldDumps(all.dumps);
  int64_t longest_ns = 0;
  for (const RankDump& one : all.dumps) {
    longest_ns = std::max(longest_ns, one.dump.stopped_ns.value_or(0));
  }
  Print("%s, each stopped for up to %.1f ms; %zu different stacks of main threads\n",
        HowMany(all).c_str(), static_cast<double>(longest_ns) / 1e6, groups.size());
  for (const MissingRanks& one : FindMissingRanks(all.dumps, groups, all.scope())) {
    PrintMissing(all, groups, one);
  }
  for (const UnevenGroup& one : FindUnevenGroups(all.dumps, all.scope())) PrintUneven(one);
  const auto on_host = [&](uint32_t host) {
    return all.hosts.size() == 1 ? std::string() : " on " + ShownText(all.hosts[host].name);
  };
  for (const RankDump& one : all.dumps) {
    if (one.dump.stopped_ns) continue;
    Print("PID %u%s went on while it was read: %s\n", Raw(one.dump.pid), on_host(one.host).c_str(),
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
    PrintGroup(all, group);
    last = &group;
  }
  for (const NotDumped& one : all.failed) {
    Print("\nNot shown: PID %u%s%s: %s\n", Raw(one.pid), on_host(one.host).c_str(),
          one.comm.empty() ? "" : (" (" + ShownText(one.comm) + ")").c_str(),
          ShownText(one.why).c_str());
  }
  Print("\n'sudo proftrace dump -p PID' shows all threads of one.\n");
}

}  // namespace proftrace
