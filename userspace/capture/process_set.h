// The processes that are recorded: those that the user named, or all of the host, and the children
// that they fork or spawn. Each has its own links, filtered by its pid, so that other users of the
// same libraries pay nothing. A follower thread attaches to children while the caller goes on
// emptying the ring.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/attach.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/capture/late_starts.h"
#include "userspace/capture/library_watch.h"
#include "userspace/capture/link_closer.h"
#include "userspace/capture/loading_process.h"
#include "userspace/capture/module_collector.h"
#include "userspace/capture/operator_links.h"
#include "userspace/capture/operator_watch.h"
#include "userspace/capture/patch_recorder.h"
#include "userspace/capture/plan_registry.h"
#include "userspace/capture/sampler.h"
#include "userspace/capture/schema_collector.h"
#include "userspace/capture/script_collector.h"
#include "userspace/capture/system_programs.h"
#include "userspace/capture/target_info.h"
#include "userspace/capture/target_reader.h"
#include "userspace/capture/target_words.h"
#include "userspace/capture/unprobed_forks.h"
#include "userspace/model/recording.h"

namespace proftrace {

class ProcessSet {
 public:
  // Called on the follower's thread when a forked child's probes are live, so long after its fork.
  using OnFollow = std::function<void(Pid child, int64_t after_ns)>;

  // Called on the follower's thread when the probes of an awaited process are live.
  using OnAwaited = std::function<void(Pid pid, uint32_t operator_count)>;

  // A process that was not attached to by Attach() is recorded now, or one has loaded libraries
  // since; `parent`: who forked it, 0 = not known. From the follower's thread or the caller's.
  using OnChange = std::function<void(Pid pid, Pid parent)>;

  // How operators are recorded by jumps.
  struct Jumps {
    PatchRecorder* recorder = nullptr;  // null: by the kernel's probes alone
    // Processes that cannot have them are recorded by probes, also those that were named.
    bool are_optional = false;
    std::set<uint32_t> left_out;  // pids: these and their children are to have probes
  };

  // `programs`, `sampler`, `system` (these may be null), the recorder of `jumps`, `sink` and
  // `reader`, of a worker that runs ReadTargetWords(), must outlive the set.
  ProcessSet(BpfPrograms* programs, Sampler* sampler, SystemPrograms* system, Jumps jumps,
             CaptureSink* sink, TargetReader* reader, PlanOptions plan_options, OnFollow on_follow,
             OnAwaited on_awaited, OnChange on_change);
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // Puts the probes of `plan` into a running process.
  absl::Status Attach(Pid pid, ProbePlan plan);
  // Tells that the first processes are attached to: the window begins, and what may take its time.
  void OnReady(int64_t window_start_ns);
  // Takes a PT_PYTHON_MODULE.
  void OnModule(std::span<const std::byte> record) { modules_.Observe(record); }
  // Takes a PT_SCRIPT_STACK.
  void OnScript(std::span<const std::byte> record) { scripts_.Observe(record); }
  // Returns how many places in TorchScript have no names, when the reader has answered all.
  uint64_t unread_scripts() const { return scripts_.not_read(); }
  // Plans that were made of processes beforehand, by PID.
  using Plans = std::map<uint32_t, absl::StatusOr<ProbePlan>>;
  // Attaches to the descendants that `pids` have already. Forked ones, as DataLoader workers are,
  // get the plan of their parent; others that have PyTorch get the one in `plans`, or a new one. A
  // descendant that has no PyTorch, or is just loading it, is awaited. Ends early when `stop` is
  // set. May be called on another thread than the rest.
  void AttachDescendants(const std::vector<Pid>& pids, Plans plans, const std::atomic<bool>& stop);
  // Attaches to the descendants that were forked by `pid`.
  void FollowForks(Pid pid);
  // Awaits a process that has no PyTorch yet: it is attached to as soon as it has.
  void Await(Pid pid);
  // Awaits a process that we started ourselves: it and its descendants are stopped for the moment
  // in which their probes go in, so that no operator is missed.
  absl::Status AwaitOwn(Pid pid);

  // Awaits a process that maps PyTorch, or is about to: it is attached to as soon as it has loaded
  // it.
  void OnTorchMapped(Pid pid);
  // Awaits processes that were found to map PyTorch. `again`: more are looked for now and then, as
  // nobody tells of them.
  void LookForTorch(const TorchProcesses& found, bool again);
  // Names a process that is not recorded among the gaps, and why. One that has no PyTorch, or has
  // ended, has nothing that could be lost; any other is counted (follow_failed).
  void Refuse(Pid pid, const absl::Status& why);

  // These take what the kernel told of traced processes. `shares_memory`: the child runs in its
  // parent's memory (vfork).
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory);
  void OnExec(Pid pid);
  void OnExit(Pid pid, int64_t time_ns);  // its last thread
  // Ends the window: the recording is without what comes from here on.
  void OnWindowEnd(int64_t end_ns);

  // Returns the address space of a process (CaptureMetadata::images); nullopt when it is not
  // recorded.
  std::optional<uint32_t> ImageOf(Pid pid) const;

  // Attaches the second probes behind operators' begins (ModulePlan::cost_points), in every process
  // that is recorded now. They are gone with the links.
  LinkSet AttachCostPoints();
  // Attaches one probe at the function that every operator calls, in a process that is to be
  // recorded; empty: it has none, or may not have it. It is gone with the links.
  LinkSet AttachCounter(Pid pid, const ProbePlan& plan);
  // Attaches one at the begin of an operator, in a process that was recorded and has no probes any
  // more. As AttachCounter().
  LinkSet AttachCounterAt(Pid pid, uint16_t site);

  // Returns the label of a site of a recorded process's plan.
  std::optional<Label> SiteLabel(Pid pid, uint16_t site) const;
  // Returns the text of a c10::Symbol in a recorded process.
  std::optional<SymbolList> SymbolListOf(Pid pid) const;
  // Whether calls at the site may be only counted.
  bool IsDemotable(Pid pid, uint16_t site) const;

  // Takes probes of demoted operators out of a process, on the follower's thread. Not while others
  // are being taken out.
  void RemoveProbes(Pid pid, RemovedProbes removed);
  // Whether that is still to be done, or being done.
  bool IsRemovingProbes(Pid pid) const;

  // Takes every probe out. No child is attached to afterwards.
  void Detach();
  // Collects operators that were registered meanwhile, and thread names. After Detach(), while the
  // processes may still live.
  void CollectLastNames();

  size_t process_count() const;  // that are recorded now
  std::vector<Pid> pids() const;
  // Returns a sentence that names the processes with another tracer's jumps; empty: none has.
  std::string anothers_jumps() const;
  // Why the first process that was to be recorded is not; OK: there is none such.
  absl::Status refusal() const;
  // Why the first process that was to have jumps has none; empty: there is none such.
  std::string jumps_refused() const;
  // Sentences that came since the last call: of processes with code that no probe reaches.
  std::vector<std::string> TakeWarnings();
  // Processes of which such a sentence was said.
  std::set<uint32_t> unreached() const;
  // Tells of code that processes have moved away from the kernel's probes since these were placed.
  void NoteMovedCode();
  // Returns the number of operators in the first process, which the ready line shows.
  uint32_t operator_count() const;
  uint64_t follow_failed() const;
  // Returns what could not be recorded, and why: the gaps of the plans, of the kernel, and of
  // children before their probes were live.
  std::vector<Unsupported> gaps() const;
  // Whether calls of the CUDA Runtime or Driver have probes in any process.
  bool has_cuda_calls() const { return has_cuda_calls_; }

 private:
  struct Process {
    uint32_t image = 0;
    uint32_t plan_id = 0;
    std::shared_ptr<const ProbePlan> plan;
    ProcessLinks links;
    bool has_maps = false;  // the programs know facts of it
    RemovedProbes removed;
    uint32_t removals = 0;  // that are still to be done
  };
  struct Awaited {
    std::shared_ptr<LoadingProcess> loading;  // used by the follower alone
    bool has_torch = false;
    bool could_run = false;  // operators: they were registered
  };
  // How a process comes to be recorded.
  struct Arrival {
    bool followed = false;     // nobody named it
    int64_t could_run_ns = 0;  // Target's
  };
  enum class TaskKind { kFork, kExec, kExit, kRemoveProbes };
  struct Task {
    TaskKind kind;
    Pid pid;
    Pid parent;
    int64_t time_ns;
    bool is_over = false;  // a fork whose child has ended since
  };

  // `held` (may be null), here and below: threads that stand still, and are not let go.
  absl::Status AttachWithPlan(Pid pid, std::shared_ptr<const ProbePlan> plan, uint32_t plan_id,
                              uint32_t image, Arrival arrival, StoppedThreads* held = nullptr);
  // Returns the points of the plan that are for the kernel's probes: all, or those that have no
  // jump.
  absl::StatusOr<std::vector<ModulePlan>> PutJumps(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                                   bool followed, StoppedThreads* held);
  // Whether the process is to have probes where others have jumps: it or its parent was left out.
  bool IsLeftOnProbes(Pid pid);
  // Lets the kernel tell of the process from here on.
  absl::Status Trace(Pid pid);
  absl::Status AttachImage(Pid pid, ProbePlan plan, Arrival arrival,
                           StoppedThreads* held = nullptr);
  // Adds to `links`, also what there is when it fails.
  absl::Status AttachModules(Pid pid, const ProbePlan& plan, std::vector<ModulePlan> modules,
                             ProcessLinks* links, AttachReport* report);
  absl::Status AttachOne(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                         ProcessLinks* links, AttachReport* report);
  // Attaches all of the module's links or none.
  absl::Status AttachFile(Pid pid, const ProbePlan& plan, ModulePlan module, ProcessLinks* links,
                          AttachReport* report);
  // Attaches to a file on overlayfs, in the layer that the process has mapped (overlay_layers.h).
  absl::Status AttachLayer(Pid pid, const ProbePlan& plan, const ModulePlan& module,
                           ProcessLinks* links, AttachReport* report);
  // Notes that another tracer has its jumps there, and keeps them.
  void NoteAnothersJumps(Pid pid, const ProbePlan& plan);
  // Whether `child`, which the kernel tells of by now, is recorded afterwards: with the plan of the
  // process that it was forked by, or with its own.
  bool AttachForked(Pid child);
  bool AttachSpawned(Pid child, Plans* plans);
  size_t AttachDescendantsOf(Pid pid, Plans* plans, const std::atomic<bool>& stop);
  void FollowRemoval(Pid pid);
  void FollowFork(const Task& task);
  void FollowExec(Pid pid);
  // Forgets a process that has ended, or runs something else. Returns its links, for the caller to
  // close: at once if it goes on, as they would see its new program too.
  LinkSet Forget(Pid pid);
  void DropLinks(Pid pid, bool forget);
  bool TryAwaited(Pid pid, LoadingProcess* loading);
  void EndAwaiting(Pid pid);
  void LookForMore();
  // Forgets the recorded processes whose end nobody could be told of.
  void ForgetEnded();
  void RunFollower();
  void TryAllAwaited();
  // For these four the caller holds the lock.
  bool HasAgent(Pid pid) const;
  void AddGap(Unsupported gap);
  // Returns awaited processes that could have run operators by now.
  std::vector<Pid> LoadedWithoutProbes() const;
  void AddGaps(const ProbePlan& plan);
  void AddMissing(Pid pid, const AttachReport& report);
  void AddUnreached(Pid pid, const std::string& why);
  // Names what is not recorded of these where there is no eBPF.
  void AddUnprobed(const std::vector<ModulePlan>& modules, const ProbePlan& plan);
  void AddLibraries(Pid pid);
  void AddLateOperators(Pid pid, const ProbePlan& plan, uint32_t image,
                        const std::vector<OperatorInfo>& added);
  void WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators);

  BpfPrograms* programs_;
  Sampler* sampler_;
  SystemPrograms* system_;
  PatchRecorder* patch_;
  const bool are_jumps_optional_;
  CaptureSink* sink_;
  TargetReader* reader_;
  PlanOptions plan_options_;
  OnFollow on_follow_;
  OnAwaited on_awaited_;
  OnChange on_change_;
  std::atomic<bool> has_cuda_calls_ = false;
  SchemaCollector schemas_;
  ModuleCollector modules_;
  ScriptCollector scripts_;
  LinkCloser closer_;

  PlanRegistry plans_;
  OperatorWatch operator_watch_;
  LibraryWatch library_watch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Process> processes_;  // by pid
  std::deque<Task> tasks_;
  std::map<uint32_t, Awaited> awaited_;  // by pid
  std::set<uint32_t> left_on_probes_;    // pids: they have no jumps where others have
  std::set<uint32_t> refused_;           // pids; the first of them are among gaps_
  absl::Status refusal_;                 // of the first of them
  std::vector<Unsupported> gaps_;
  std::string anothers_jumps_;
  std::string jumps_refused_;
  std::vector<std::string> warnings_;
  std::set<uint32_t> unreached_;  // pids
  // Files of lower layers that processes were found to have mapped, by the file that was analysed.
  std::map<std::shared_ptr<const HeldFile>, std::shared_ptr<const HeldFile>> layers_;
  uint64_t late_libraries_ = 0;
  uint32_t next_image_ = 1;
  uint32_t operator_count_ = 0;
  uint64_t follow_failed_ = 0;
  UnprobedForks unprobed_forks_;
  LateStarts late_forks_;
  LateStarts late_loads_;
  uint64_t ended_early_ = 0;  // processes with PyTorch that ended before their probes were live
  bool looks_for_torch_ = false;
  int64_t last_search_ns_ = 0;
  uint32_t last_tried_ = 0;  // of awaited_; this and the next two are the follower's
  uint64_t exits_lost_ = 0;
  uint32_t looks_for_ended_ = 0;
  std::atomic<bool> stop_ = false;  // ends the follower, and what it reads
  bool holds_awaited_ = false;
  std::thread follower_;
};

}  // namespace proftrace
