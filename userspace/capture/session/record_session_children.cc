#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/turns.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/session/record_session.h"
#include "userspace/capture/targets/process_watch.h"
#include "userspace/capture/targets/target_info.h"

// How a recording begins for many processes: for children of the targets that have a PyTorch of
// their own (spawned pools, ranks of a launcher, engines), and for all processes of the host.

namespace proftrace {
namespace {

constexpr int kDrainMs = 20;

// Returns the files of PyTorch that a process runs.
std::set<FileId> TorchFiles(Pid pid) {
  std::set<FileId> files;
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return files;
  for (const Mapping& mapping : *mappings) {
    const bool is_torch = mapping.executable && mapping.path.find("torch") != std::string::npos;
    if (is_torch) files.insert({mapping.device, mapping.inode});
  }
  return files;
}

}  // namespace

std::vector<Pid> RecordSession::FindChildrenWithTorch() const {
  std::vector<Pid> found;
  if (!options_.bpf.follow_children || options_.all) return found;
  const std::set<Pid> named(options_.pids.begin(), options_.pids.end());
  for (const Pid pid : options_.pids) {
    for (const Pid child : ReadDescendants(pid)) {
      const bool is_known =
          named.contains(child) || std::find(found.begin(), found.end(), child) != found.end();
      if (!is_known && CountTorchMappings(child) > 0) found.push_back(child);
    }
  }
  return found;
}

std::vector<Pid> RecordSession::WithoutForks(const std::vector<Pid>& pids,
                                             const std::vector<Pid>& parents) {
  std::map<Pid, std::string> marks;
  for (const std::vector<Pid>* each : {&pids, &parents}) {
    for (const Pid pid : *each) marks.try_emplace(pid, ReadImageMark(pid));
  }
  std::vector<Pid> others;
  for (const Pid pid : pids) {
    bool is_fork = false;
    Pid ancestor = pid;
    for (int i = 0; i < kMostGenerations && Raw(ancestor) != 0 && !is_fork; ++i) {
      ancestor = ReadParent(ancestor);
      const auto known = marks.find(ancestor);
      is_fork = known != marks.end() && !known->second.empty() && known->second == marks[pid];
    }
    if (!is_fork) others.push_back(pid);
  }
  return others;
}

ProcessSet::Plans RecordSession::PlanTogether(const std::vector<Pid>& pids) {
  ProcessSet::Plans plans;
  // The first process with the same files is planned alone, so that their analysis is in the cache
  // for the others, which are then planned in parallel.
  std::set<std::set<FileId>> known;
  std::vector<std::pair<Pid, bool>> rest;  // and whether the process has an agent
  for (const Pid pid : pids) {
    const bool has_agent = HasAgent(pid);
    if (known.insert(TorchFiles(pid)).second) {
      plans.emplace(Raw(pid), PlanRunning(pid, has_agent));
    } else {
      rest.emplace_back(pid, has_agent);
    }
  }
  std::vector<std::optional<absl::StatusOr<ProbePlan>>> made(rest.size());
  ShareTurns(rest.size(), [&]() -> TurnWorker {
    return [&](size_t turn) { made[turn] = PlanRunning(rest[turn].first, rest[turn].second); };
  });
  for (size_t i = 0; i < rest.size(); ++i) plans.emplace(Raw(rest[i].first), *std::move(made[i]));
  return plans;
}

absl::Status RecordSession::AttachDescendants(const std::vector<Pid>& pids) {
  if (!options_.bpf.follow_children || pids.empty()) return absl::OkStatus();
  // The first processes are recorded already, so the ring is emptied meanwhile.
  std::atomic<bool> is_done = false;
  std::thread attaching([this, &pids, &is_done] {
    processes_->AttachDescendants(pids, std::move(child_plans_), stop_);
    is_done = true;
  });
  absl::Status status;
  while (!is_done && status.ok()) status = Drain(kDrainMs);
  attaching.join();
  child_plans_.clear();
  return status;
}

}  // namespace proftrace
