// Which processes a recording has: those that are recorded, those that are awaited because they
// have no PyTorch yet, and those that were refused. A process moves from one to the other, and one
// lock sees to it that no two threads take the same process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/operator_links.h"
#include "userspace/capture/plans/plan_registry.h"
#include "userspace/capture/processes/cost_probes.h"
#include "userspace/capture/processes/gap_list.h"
#include "userspace/capture/processes/loading_process.h"
#include "userspace/capture/processes/unprobed_forks.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// By what a process is recorded.
struct PlannedImage {
  uint32_t image = 0;  // as in CaptureMetadata::images
  uint32_t plan_id = 0;
  std::shared_ptr<const ProbePlan> plan;
};

// May be used by several threads. Its lock is held by its own methods alone, and never while a
// process is attached to; they take the locks of a GapList, and of a PlanRegistry and its sink,
// meanwhile, and no others.
class KnownProcesses {
 public:
  struct Awaited {
    std::shared_ptr<LoadingProcess> loading;  // for the follower's thread alone
    bool has_torch = false;
    bool could_run = false;  // operators were registered in it, so that it could call them
  };
  // What is left to be undone for a process that was forgotten.
  struct Forgotten {
    LinkSet links;
    bool has_maps = false;  // the BPF programs' maps have entries for the process
  };
  // The probes of demoted operators of a process, and which of them are to go.
  struct Removal {
    std::vector<OperatorLinks> operators;
    RemovedProbes removed;
  };

  // `reader` (of a worker that runs ReadTargetWords()) and `gaps` must outlive this object.
  KnownProcesses(TargetReader* reader, GapList* gaps) : reader_(reader), gaps_(gaps) {}
  KnownProcesses(const KnownProcesses&) = delete;
  KnownProcesses& operator=(const KnownProcesses&) = delete;

  // Begins and ends the window, outside of which a child that ends is no loss.
  void BeginWindow(int64_t start_ns);
  void EndWindow(int64_t end_ns);

  // Take the kernel's reports, as ProcessSet does.
  void OnFork(Pid parent, Pid child, int64_t time_ns);
  void OnExec(Pid pid);
  void OnExit(Pid pid, int64_t time_ns);
  // Notes that a process is not recorded by its old program's plan any more.
  void OnExecFollowed(Pid pid);
  // Notes that a recorded process was found to have ended.
  void OnFoundEnded(Pid pid, int64_t time_ns);
  // Notes a child that was found, or whose fork the kernel has reported.
  void OnFoundChild(Pid child);

  // Returns a number for a new address space, whose plan this is.
  uint32_t NewImage(const ProbePlan& plan);
  // Enters a process, whose maps are there, before its first record comes, so that names can be
  // resolved.
  void Enter(Pid pid, PlannedImage image);
  // Enters a child that `parent` has forked, by its parent's plan, and returns that plan. The child
  // is entered whether it lives or not, because it may have children of its own. Returns nullopt
  // for a child that was found before its fork was reported. So it does for a parent that is not
  // recorded; its child is then awaited, where it lives, because it may load PyTorch.
  std::optional<PlannedImage> EnterFork(Pid parent, Pid child, bool is_over);
  // Gives a process its links. Its probes are live since `live_ns`, and its plan has so many
  // operators.
  void OnLive(Pid pid, int64_t live_ns, uint32_t operators, ProcessLinks links);
  void AddLinks(Pid pid, ProcessLinks links);
  // Adds libraries to a process's plan (PlanRegistry::Extend()). `now` is a plan that was just
  // made. The plan is set before the first record comes, and for children that are forked from here
  // on. The returned plan is null where nothing is added, or the process is not recorded any more.
  PlanRegistry::Extended Extend(Pid pid, const ProbePlan& now, PlanRegistry* plans);
  // Forgets a recorded process; nullopt: it is not recorded.
  std::optional<Forgotten> Forget(Pid pid);
  // Takes the links of all processes.
  std::vector<LinkSet> TakeLinks();

  std::optional<PlannedImage> Find(Pid pid) const;
  bool IsRecorded(Pid pid) const { return Find(pid).has_value(); }
  // Whether a process is recorded, awaited or refused.
  bool IsKnown(Pid pid) const;
  std::vector<Pid> pids() const;  // the recorded ones
  size_t size() const;            // how many are recorded
  PlannedProcesses Planned() const;

  // Asks for probes of demoted operators to be taken out. Returns false where the process is not
  // recorded.
  bool AskRemoval(Pid pid, RemovedProbes removed);
  // Whether a removal that was asked for has not ended yet.
  bool IsRemoving(Pid pid) const;
  // Takes the links of which some are to go; nullopt: the process is not recorded.
  std::optional<Removal> TakeRemoval(Pid pid);
  // Gives the links back, and ends the removal. Returns whether the process is still recorded.
  bool EndRemoval(Pid pid, std::vector<OperatorLinks> operators);

  // Awaits a process, from its first look on.
  void Await(Pid pid);
  // Awaits a process that maps PyTorch, unless it is known already. Returns whether it was not.
  bool AwaitNew(Pid pid);
  void StopAwaiting(Pid pid);
  std::map<uint32_t, Awaited> awaited() const;
  bool has_awaited() const;
  // Notes what a look at an awaited process has shown. `is_done`: it is not awaited any more.
  void OnLook(Pid pid, const std::shared_ptr<LoadingProcess>& loading, bool is_done);
  // Returns awaited processes that could have run operators by now.
  std::vector<Pid> LoadedWithoutProbes() const;
  // Notes that a process is not recorded, and names it among the gaps, once.
  void Refuse(Pid pid, const absl::Status& why);

  // Returns how many forked children live and have no probes yet, and how many ended without.
  size_t waiting_forks() const;
  uint64_t ended_forks() const;
  // Returns the number of operators in the first process.
  uint32_t operator_count() const;
  // Whether calls of the CUDA Runtime or Driver have probes in any process.
  bool has_cuda_calls() const;

 private:
  struct Process {
    PlannedImage image;
    ProcessLinks links;
    bool has_maps = false;
    RemovedProbes removed;
    uint32_t removals = 0;  // calls of AskRemoval() that are still to be carried out
  };
  // The callers of these two hold the lock.
  Awaited NewAwaited(bool has_torch) const;
  void EndAwaiting(Pid pid);

  TargetReader* reader_;
  GapList* gaps_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Process> recorded_;  // by pid
  std::map<uint32_t, Awaited> awaited_;   // by pid
  std::set<uint32_t> refused_;            // pids of refused processes that live
  UnprobedForks unprobed_forks_;
  uint32_t next_image_ = 1;
  uint32_t operator_count_ = 0;
  bool has_cuda_calls_ = false;
};

}  // namespace proftrace
