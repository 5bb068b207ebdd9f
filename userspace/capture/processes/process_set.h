// The processes that are recorded: those that the user named, or all of the host, and the children
// that they fork or spawn. Each has its own links, filtered by its pid, so that other users of the
// same libraries pay nothing. The set gives each call to the class whose job it is.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/operator_links.h"
#include "userspace/capture/processes/attacher.h"
#include "userspace/capture/processes/awaited_processes.h"
#include "userspace/capture/processes/child_attacher.h"
#include "userspace/capture/processes/follower.h"
#include "userspace/capture/processes/jump_attacher.h"
#include "userspace/capture/processes/late_arrivals.h"
#include "userspace/capture/processes/process_parts.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/capture/targets/target_words.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Has no lock of its own. Functions of one process may be called while the follower's thread, which
// the set has, attaches to others.
class ProcessSet {
 public:
  // The parts and the recorder of `jumps` must outlive the set.
  ProcessSet(const ProcessParts& parts, const JumpOptions& jumps, PlanOptions plan_options,
             ProcessCallbacks callbacks);
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // Puts the probes of `plan` into a running process.
  absl::Status Attach(Pid pid, ProbePlan plan);
  // Begins the window, when the first processes are attached to, and then the reading of schemas.
  void OnReady(int64_t window_start_ns);
  // Takes a PT_PYTHON_MODULE.
  void OnModule(std::span<const std::byte> record) { attacher_.OnModule(record); }
  // Takes a PT_SCRIPT_STACK.
  void OnScript(std::span<const std::byte> record) { attacher_.OnScript(record); }
  // Returns how many places in TorchScript have no names. To be called when the reader has answered
  // all questions.
  uint64_t unread_scripts() const { return attacher_.unread_scripts(); }
  using Plans = PlansByPid;
  // Attaches to the descendants that `pids` have already (ChildAttacher::AttachDescendants()). May
  // be called on another thread than the rest.
  void AttachDescendants(const std::vector<Pid>& pids, Plans plans, const std::atomic<bool>& stop) {
    children_.AttachDescendants(pids, std::move(plans), stop);
  }
  // Attaches to the descendants that were forked by `pid`.
  void FollowForks(Pid pid) { children_.FollowForks(pid); }
  // Awaits a process that we started ourselves: it and its descendants are stopped for the moment
  // in which their probes go in, so that no operator is missed.
  absl::Status AwaitOwn(Pid pid) { return awaited_.AwaitOwn(pid); }

  // Awaits a process that maps PyTorch, or is about to. The process is attached to as soon as it
  // has loaded PyTorch.
  void OnTorchMapped(Pid pid) { awaited_.OnTorchMapped(pid); }
  // Awaits processes that were found to map PyTorch. With `again`, the set searches the host for
  // more such processes once a second, because the kernel does not report them.
  void LookForTorch(const TorchProcesses& found, bool again) {
    awaited_.LookForTorch(found, again);
  }
  // Names a process that is not recorded among the gaps, and why. A process that has no PyTorch, or
  // has ended, has nothing that could be lost; any other process is counted (follow_failed).
  void Refuse(Pid pid, const absl::Status& why) { shared_.known.Refuse(pid, why); }

  // These three functions take the kernel's reports on traced processes. With `shares_memory`, the
  // child runs in its parent's memory (vfork).
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory) {
    follower_.OnFork(parent, child, time_ns, shares_memory);
  }
  void OnExec(Pid pid) { follower_.OnExec(pid); }
  // The process's last thread has ended.
  void OnExit(Pid pid, int64_t time_ns) { follower_.OnExit(pid, time_ns); }
  // Ends the window: events after `end_ns` are not part of the recording.
  void OnWindowEnd(int64_t end_ns) { shared_.known.EndWindow(end_ns); }

  // Returns the address space of a process (CaptureMetadata::images); nullopt when it is not
  // recorded.
  std::optional<uint32_t> ImageOf(Pid pid) const;

  // Attaches the second probes behind operators' begins (ModulePlan::cost_points), in every process
  // that is recorded now. The probes are removed with the returned links.
  LinkSet AttachCostPoints();
  // Attaches one probe at the function that every operator calls, in a process that is to be
  // recorded. Empty where the process has no such function, or cannot be probed. The probe is
  // removed with the returned links.
  LinkSet AttachCounter(Pid pid, const ProbePlan& plan);
  // Attaches one probe at the begin of an operator, in a process that was recorded and has no
  // probes any more. Returns links as AttachCounter() does.
  LinkSet AttachCounterAt(Pid pid, uint16_t site);

  // Returns the label of a site of a recorded process's plan.
  std::optional<Label> SiteLabel(Pid pid, uint16_t site) const;
  // Returns where a recorded process keeps torch's list of symbols; nullopt when the process is not
  // recorded.
  std::optional<SymbolList> SymbolListOf(Pid pid) const;
  // Whether calls at the site may be only counted.
  bool IsDemotable(Pid pid, uint16_t site) const;

  // Takes probes of demoted operators out of a process, on the follower's thread. Must not be
  // called while IsRemovingProbes() is true for that process.
  void RemoveProbes(Pid pid, RemovedProbes removed) {
    follower_.RemoveProbes(pid, std::move(removed));
  }
  // Whether a RemoveProbes() of the process is waiting or under way.
  bool IsRemovingProbes(Pid pid) const { return shared_.known.IsRemoving(pid); }

  // Takes every probe out. No child is attached to afterwards.
  void Detach();
  // Collects operators that were registered meanwhile, and thread names. After Detach(), while the
  // processes may still live.
  void CollectLastNames();

  size_t process_count() const { return shared_.known.size(); }  // processes recorded now
  std::vector<Pid> pids() const { return shared_.known.pids(); }
  // Returns a sentence about the first process that was found to have another tracer's jumps; empty
  // where no process has any.
  std::string anothers_jumps() const { return shared_.gaps.anothers_jumps(); }
  // Returns why the first process that was refused is not recorded; OK where none was refused.
  absl::Status refusal() const { return shared_.gaps.refusal(); }
  // Returns how many processes ended after they had begun to load PyTorch and before their probes
  // were live.
  uint64_t ended_early() const { return shared_.gaps.ended_early(); }
  // Returns why the first process that was refused jumps has none; empty where none was refused.
  std::string jumps_refused() const { return shared_.gaps.jumps_refused(); }
  // Returns the sentences that are new since the last call. Each names a process with code that no
  // probe reaches.
  std::vector<std::string> TakeWarnings() { return shared_.gaps.TakeWarnings(); }
  // Returns the pids of all processes with code that no probe reaches, and of those with another
  // tracer's jumps.
  std::set<uint32_t> unreached() const { return shared_.gaps.unreached(); }
  // Adds warnings and gaps for code that processes have moved away from the kernel's probes since
  // these were placed.
  void NoteMovedCode();
  // Returns the number of operators in the first process, which the ready line shows.
  uint32_t operator_count() const { return shared_.known.operator_count(); }
  uint64_t follow_failed() const {
    return shared_.gaps.follow_failed() + shared_.known.ended_forks();
  }
  // Returns what could not be recorded, and why: the gaps of the plans, of the kernel, and of
  // children before their probes were live.
  std::vector<Unsupported> gaps() const;
  // Whether calls of the CUDA Runtime or Driver have probes in any process.
  bool has_cuda_calls() const { return shared_.known.has_cuda_calls(); }

 private:
  const ProcessCallbacks callbacks_;
  SharedParts shared_;
  LateArrivals late_;
  Attacher attacher_;
  ChildAttacher children_;
  AwaitedProcesses awaited_;
  Follower follower_;  // the last, because its thread uses the others
};

}  // namespace proftrace
