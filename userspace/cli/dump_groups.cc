#include "userspace/cli/dump_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "userspace/base/text.h"

namespace proftrace {
namespace {

// Files of torch that calls of collectives go through: the functions themselves, their wrappers,
// and the functions that traced code calls.
constexpr std::string_view kCollectiveFiles[] = {
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/c10d_logger.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/nn/functional.py",
};
// Names of wrapper functions, which say nothing about the collective (c10d_logger.py).
constexpr std::string_view kWrappers[] = {"wrapper", "inner", "<lambda>"};
constexpr int kMostMissingRanks = 1 << 16;

bool IsOfCollectives(const std::string& file) {
  return std::any_of(std::begin(kCollectiveFiles), std::end(kCollectiveFiles),
                     [&](std::string_view known) { return file.ends_with(known); });
}

bool IsWrapper(const std::string& name) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), name) != std::end(kWrappers);
}

// Returns a text that is equal for two processes whose main threads have the same stack.
std::string PlaceOf(const ProcessDump& dump) {
  std::string place;
  const DumpedStack* stack = MainStack(dump);
  if (stack == nullptr) return place;
  for (const DumpedFrame& frame : stack->frames) {
    place += frame.file + "\n" + frame.qualified_name + "\n" +
             (frame.line ? std::to_string(*frame.line) : "") + "\n";
  }
  return place;
}

// Tells whether a process is a rank of a job itself, and not a DataLoader worker that inherits its
// parent's rank.
class Ranks {
 public:
  explicit Ranks(const std::vector<RankDump>& dumps) {
    for (const RankDump& one : dumps) {
      by_pid_[{one.host, Raw(one.dump.pid)}] = &one;
      any_rank_ |= one.rank.has_value();
    }
  }
  bool IsRank(const RankDump& one) const {
    const auto parent = by_pid_.find({one.host, Raw(one.parent)});
    const RankDump* const above = parent == by_pid_.end() ? nullptr : parent->second;
    if (above != nullptr && above->rank == one.rank) return false;
    // A launcher has no rank. Where no process has a rank, each process counts as one.
    return one.rank.has_value() || !any_rank_;
  }

 private:
  std::map<std::pair<uint32_t, uint32_t>, const RankDump*> by_pid_;  // by host and PID
  bool any_rank_ = false;
};

// Returns whether all ranks of a job should have a process on the hosts that its dumps are of.
// `ranks`: the dumps of the job's ranks, each with a rank.
bool AreAllHostsHere(const std::vector<const RankDump*>& ranks, int world, DumpScope scope) {
  if (scope == DumpScope::kChosen) return false;
  std::map<uint32_t, int> of_host;
  for (const RankDump* one : ranks) {
    if (!one->world_size) return false;
    // A launcher that does not say how many ranks its host has started all ranks there; for several
    // hosts that cannot be concluded.
    if (!one->local_world_size && scope == DumpScope::kSeveralHosts) return false;
    int& local = of_host[one->host];
    local = std::max(local, one->local_world_size.value_or(world));
  }
  int64_t here = 0;
  for (const auto& [host, local] : of_host) here += local;
  return here >= world;
}

}  // namespace

std::vector<int> RanksIn(const std::vector<RankDump>& dumps, const DumpGroup& group) {
  std::vector<int> ranks;
  for (const size_t member : group.members) {
    if (dumps[member].rank) ranks.push_back(*dumps[member].rank);
  }
  return ranks;
}

const DumpedThread* MainThread(const ProcessDump& dump) {
  for (const DumpedThread& thread : dump.threads) {
    if (thread.tid == Raw(dump.pid) && !thread.stacks.empty()) return &thread;
  }
  for (const DumpedThread& thread : dump.threads) {
    if (!thread.stacks.empty()) return &thread;
  }
  return nullptr;
}

const DumpedStack* MainStack(const ProcessDump& dump) {
  const DumpedThread* const thread = MainThread(dump);
  return thread == nullptr ? nullptr : &thread->stacks.front();
}

std::optional<EnteredCollective> CollectiveOfStack(const DumpedStack& stack) {
  const std::vector<DumpedFrame>& frames = stack.frames;
  const auto first = std::find_if(frames.begin(), frames.end(), [](const DumpedFrame& frame) {
    return IsOfCollectives(frame.file);
  });
  if (first == frames.end()) return std::nullopt;
  // The outermost function of torch that is not a wrapper is the one that the job has called: a
  // barrier stays a barrier although it runs an all_reduce.
  EnteredCollective entered;
  auto frame = first;
  for (; frame != frames.end() && IsOfCollectives(frame->file); ++frame) {
    if (!IsWrapper(frame->name) || entered.name.empty()) entered.name = frame->name;
  }
  if (frame != frames.end()) {
    entered.file = frame->file;
    entered.line = frame->line;
  }
  return entered;
}

void TellJobsApart(std::vector<RankDump>* dumps) {
  const Ranks ranks(*dumps);
  std::set<std::pair<std::string, int>> seen;
  std::set<std::string> several;
  for (const RankDump& one : *dumps) {
    if (!one.rank || !ranks.IsRank(one)) continue;
    if (!seen.emplace(one.job, *one.rank).second) several.insert(one.job);
  }
  std::vector<RankDump*> renamed;
  for (RankDump& one : *dumps) {
    if (one.rank && ranks.IsRank(one) && several.contains(one.job)) renamed.push_back(&one);
  }
  for (RankDump* one : renamed) {
    one->job += (one->job.empty() ? "" : " ") + ("of PID " + std::to_string(Raw(one->parent)));
  }
}

std::vector<bool> AreRanks(const std::vector<RankDump>& dumps) {
  const Ranks ranks(dumps);
  std::vector<bool> are(dumps.size());
  for (size_t i = 0; i < dumps.size(); ++i) are[i] = ranks.IsRank(dumps[i]);
  return are;
}

std::vector<DumpGroup> FoldDumps(const std::vector<RankDump>& dumps) {
  const Ranks ranks(dumps);
  std::map<std::tuple<std::string, bool, std::string>, DumpGroup> by_place;
  for (size_t i = 0; i < dumps.size(); ++i) {
    const RankDump& one = dumps[i];
    const bool is_rank = ranks.IsRank(one);
    DumpGroup& group = by_place[{one.job, !is_rank, PlaceOf(one.dump)}];
    group.job = one.job;
    group.is_of_ranks = is_rank;
    group.members.push_back(i);
    const DumpedStack* const stack = MainStack(one.dump);
    if (stack != nullptr) group.collective = CollectiveOfStack(*stack);
  }
  std::vector<DumpGroup> groups;
  for (auto& [place, group] : by_place) {
    std::sort(group.members.begin(), group.members.end(), [&](size_t a, size_t b) {
      return std::tuple(dumps[a].rank.value_or(-1), dumps[a].host, Raw(dumps[a].dump.pid)) <
             std::tuple(dumps[b].rank.value_or(-1), dumps[b].host, Raw(dumps[b].dump.pid));
    });
    groups.push_back(std::move(group));
  }
  const auto key = [&](const DumpGroup& group) {
    const RankDump& first = dumps[group.members.front()];
    return std::tuple(!group.is_of_ranks, group.job, group.members.size(),
                      group.collective.has_value(), first.rank.value_or(-1), first.host,
                      Raw(first.dump.pid));
  };
  std::sort(groups.begin(), groups.end(),
            [&](const DumpGroup& a, const DumpGroup& b) { return key(a) < key(b); });
  return groups;
}

std::vector<MissingRanks> FindMissingRanks(const std::vector<RankDump>& dumps,
                                           const std::vector<DumpGroup>& groups, DumpScope scope) {
  std::map<std::string, std::vector<const DumpGroup*>> jobs;
  for (const DumpGroup& group : groups) {
    if (group.is_of_ranks) jobs[group.job].push_back(&group);
  }
  std::vector<MissingRanks> all;
  for (const auto& [job, of_job] : jobs) {
    const DumpGroup& most = *of_job.back();  // the largest one comes last
    size_t ranks = 0;
    for (const DumpGroup* group : of_job) ranks += group->members.size();
    if (!most.collective || 2 * most.members.size() <= ranks) continue;
    MissingRanks one{job, *most.collective, {}, {}, {}, {}};
    std::set<int> here;
    std::vector<const RankDump*> known;
    int world = 0;
    for (const DumpGroup* group : of_job) {
      for (const size_t member : group->members) {
        const RankDump& dump = dumps[member];
        if (!dump.rank) continue;
        known.push_back(&dump);
        here.insert(*dump.rank);
        world = std::max(world, dump.world_size.value_or(0));
        (group == &most ? one.waiting : one.missing).push_back(*dump.rank);
      }
    }
    if (known.empty()) continue;
    const bool is_whole_job_here = AreAllHostsHere(known, world, scope);
    std::vector<int>* const without = is_whole_job_here           ? &one.absent
                                      : scope != DumpScope::kHost ? &one.not_dumped
                                                                  : nullptr;
    for (int rank = 0; without != nullptr && rank < std::min(world, kMostMissingRanks); ++rank) {
      if (!here.contains(rank)) without->push_back(rank);
    }
    if (one.missing.empty() && one.absent.empty() && one.not_dumped.empty()) continue;
    std::sort(one.waiting.begin(), one.waiting.end());
    std::sort(one.missing.begin(), one.missing.end());
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<UnevenGroup> FindUnevenGroups(const std::vector<RankDump>& dumps, DumpScope scope) {
  // The key has the members, because groups of other members may have the same name.
  using Key = std::tuple<std::string, std::string, std::string, std::string, int, std::vector<int>>;
  struct Members {
    ProcessGroup group;
    std::map<uint64_t, std::vector<int>> ranks;
    std::set<int> seen;
  };
  std::map<Key, Members> all;
  for (const RankDump& one : dumps) {
    for (const BegunCollectives& begun : one.begun) {
      const ProcessGroup& group = begun.group;
      Members& members =
          all[Key(one.job, group.backend, group.name, group.description, group.size, group.ranks)];
      members.group = group;
      const int rank = one.rank.value_or(group.rank);
      members.ranks[begun.count].push_back(rank);
      members.seen.insert(rank);
    }
  }
  std::vector<UnevenGroup> uneven;
  for (auto& [key, members] : all) {
    std::vector<int> unseen;
    if (scope != DumpScope::kHost) {
      for (const int rank : members.group.ranks) {
        if (!members.seen.contains(rank)) unseen.push_back(rank);
      }
      std::sort(unseen.begin(), unseen.end());
    }
    if (members.ranks.size() < 2 && unseen.empty()) continue;
    UnevenGroup& one = uneven.emplace_back();
    one.job = std::get<0>(key);
    one.group = std::move(members.group);
    one.unseen = std::move(unseen);
    for (auto& [count, ranks] : members.ranks) {
      std::sort(ranks.begin(), ranks.end());
      one.ranks.emplace_back(count, std::move(ranks));
    }
  }
  return uneven;
}

std::string RankRanges(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace proftrace
