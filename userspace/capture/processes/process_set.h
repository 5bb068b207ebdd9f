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
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/link_closer.h"
#include "userspace/capture/kernel/operator_links.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/names/module_collector.h"
#include "userspace/capture/names/schema_collector.h"
#include "userspace/capture/names/script_collector.h"
#include "userspace/capture/plans/plan_registry.h"
#include "userspace/capture/processes/late_starts.h"
#include "userspace/capture/processes/library_watch.h"
#include "userspace/capture/processes/loading_process.h"
#include "userspace/capture/processes/operator_watch.h"
#include "userspace/capture/processes/unprobed_forks.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/samples/sampler.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/capture/targets/target_words.h"
#include "userspace/model/recording.h"

namespace proftrace {

class ProcessSet {
 public:
  // Called on the follower's thread when a forked child's probes are live, `after_ns` nanoseconds
  // after its fork.
  using OnFollow = std::function<void(Pid child, int64_t after_ns)>;

  // Called on the follower's thread when the probes of an awaited process are live.
  using OnAwaited = std::function<void(Pid pid, uint32_t operator_count)>;

  // Called when a process for which Attach() was not called is recorded, and when a recorded
  // process has loaded libraries. `parent` is the process that forked it; 0: not known. Runs on the
  // follower's thread or the caller's.
  using OnChange = std::function<void(Pid pid, Pid parent)>;

  // How operators are recorded by jumps.
  struct Jumps {
    PatchRecorder* recorder = nullptr;  // null: the kernel's probes record all
    // Whether also a named process that cannot have jumps is recorded by probes instead.
    bool are_optional = false;
    std::set<uint32_t> left_out;  // pids of processes that keep probes, as do their children
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
  // Begins the window, when the first processes are attached to, and then the reading of schemas.
  void OnReady(int64_t window_start_ns);
  // Takes a PT_PYTHON_MODULE.
  void OnModule(std::span<const std::byte> record) { modules_.Observe(record); }
  // Takes a PT_SCRIPT_STACK.
  void OnScript(std::span<const std::byte> record) { scripts_.Observe(record); }
  // Returns how many places in TorchScript have no names. To be called when the reader has answered
  // all questions.
  uint64_t unread_scripts() const { return scripts_.not_read(); }
  // Plans of processes that were made beforehand, by PID.
  using Plans = std::map<uint32_t, absl::StatusOr<ProbePlan>>;
  // Attaches to the descendants that `pids` have already. Forked ones, as DataLoader workers are,
  // get the plan of their parent; others that have PyTorch get the one in `plans`, or a new one. A
  // descendant that has no PyTorch, or is just loading it, is awaited. Ends early when `stop` is
  // set. May be called on another thread than the rest.
  void AttachDescendants(const std::vector<Pid>& pids, Plans plans, const std::atomic<bool>& stop);
  // Attaches to the descendants that were forked by `pid`.
  void FollowForks(Pid pid);
  // Awaits a process that has no PyTorch yet. The process is attached to as soon as it has loaded
  // PyTorch.
  void Await(Pid pid);
  // Awaits a process that we started ourselves: it and its descendants are stopped for the moment
  // in which their probes go in, so that no operator is missed.
  absl::Status AwaitOwn(Pid pid);

  // Awaits a process that maps PyTorch, or is about to. The process is attached to as soon as it
  // has loaded PyTorch.
  void OnTorchMapped(Pid pid);
  // Awaits processes that were found to map PyTorch. With `again`, the set searches the host for
  // more such processes once a second, because the kernel does not report them.
  void LookForTorch(const TorchProcesses& found, bool again);
  // Names a process that is not recorded among the gaps, and why. A process that has no PyTorch, or
  // has ended, has nothing that could be lost; any other process is counted (follow_failed).
  void Refuse(Pid pid, const absl::Status& why);

  // These three functions take the kernel's reports on traced processes. With `shares_memory`, the
  // child runs in its parent's memory (vfork).
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory);
  void OnExec(Pid pid);
  void OnExit(Pid pid, int64_t time_ns);  // its last thread has ended
  // Ends the window: events after `end_ns` are not part of the recording.
  void OnWindowEnd(int64_t end_ns);

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
  void RemoveProbes(Pid pid, RemovedProbes removed);
  // Whether a RemoveProbes() of the process is waiting or under way.
  bool IsRemovingProbes(Pid pid) const;

  // Takes every probe out. No child is attached to afterwards.
  void Detach();
  // Collects operators that were registered meanwhile, and thread names. After Detach(), while the
  // processes may still live.
  void CollectLastNames();

  size_t process_count() const;  // processes that are recorded now
  std::vector<Pid> pids() const;
  // Returns a sentence about the first process that was found to have another tracer's jumps; empty
  // where no process has any.
  std::string anothers_jumps() const;
  // Returns why the first process that was refused is not recorded; OK where none was refused.
  absl::Status refusal() const;
  // Returns how many processes ended after they had begun to load PyTorch and before their probes
  // were live. Only after Detach().
  uint64_t ended_early() const { return ended_early_; }
  // Returns why the first process that was refused jumps has none; empty where none was refused.
  std::string jumps_refused() const;
  // Returns the sentences that are new since the last call. Each names a process with code that no
  // probe reaches.
  std::vector<std::string> TakeWarnings();
  // Returns the pids of all processes with code that no probe reaches, and of those with another
  // tracer's jumps.
  std::set<uint32_t> unreached() const;
  // Adds warnings and gaps for code that processes have moved away from the kernel's probes since
  // these were placed.
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
    bool has_maps = false;  // the BPF programs' maps have entries for the process
    RemovedProbes removed;
    uint32_t removals = 0;  // calls of RemoveProbes() that are still to be carried out
  };
  struct Awaited {
    std::shared_ptr<LoadingProcess> loading;  // for the follower's thread alone
    bool has_torch = false;
    bool could_run = false;  // operators were registered in it, so that it could call them
  };
  // How a process comes to be recorded.
  struct Arrival {
    bool followed = false;     // it was found, and the user did not name it
    int64_t could_run_ns = 0;  // as Target::could_run_ns
  };
  enum class TaskKind { kFork, kExec, kExit, kRemoveProbes };
  struct Task {
    TaskKind kind;
    Pid pid;
    Pid parent;
    int64_t time_ns;
    bool is_over = false;  // for kFork: the child has ended since
  };

  // Attaches to a process by a plan that is already registered. `held` (may be null), here and
  // below, has threads of the process that stand still and are not let go.
  absl::Status AttachWithPlan(Pid pid, std::shared_ptr<const ProbePlan> plan, uint32_t plan_id,
                              uint32_t image, Arrival arrival, StoppedThreads* held = nullptr);
  // Puts jumps into the process where it is to have any. Returns the points that are left for the
  // kernel's probes: all points of the plan, or those without a jump.
  absl::StatusOr<std::vector<ModulePlan>> PutJumps(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                                   bool followed, StoppedThreads* held);
  // Whether the process is to have probes where others have jumps, because it or its parent is one
  // of Jumps::left_out.
  bool IsLeftOnProbes(Pid pid);
  // Has the kernel report the process's forks, execs and end from here on, and record its system
  // activity where that was asked for.
  absl::Status Trace(Pid pid);
  absl::Status AttachImage(Pid pid, ProbePlan plan, Arrival arrival,
                           StoppedThreads* held = nullptr);
  // Adds the links that it makes to `links`, also where it fails in the end.
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
  // Notes that another tracer has jumps in the process; they stay there.
  void NoteAnothersJumps(Pid pid, const ProbePlan& plan);
  // Attach to `child`, on which the kernel reports already, by the plan of the process that forked
  // it, or by a plan of its own. Return whether that worked.
  bool AttachForked(Pid child);
  bool AttachSpawned(Pid child, Plans* plans);
  size_t AttachDescendantsOf(Pid pid, Plans* plans, const std::atomic<bool>& stop);
  void FollowRemoval(Pid pid);
  void FollowFork(const Task& task);
  void FollowExec(Pid pid);
  // Forgets a process that has ended, or runs something else. Returns its links, which the caller
  // closes: at once where the process goes on, because they would see its new program too.
  LinkSet Forget(Pid pid);
  void DropLinks(Pid pid, bool forget);
  bool TryAwaited(Pid pid, LoadingProcess* loading);
  void EndAwaiting(Pid pid);
  void LookForMore();
  // Forgets recorded processes that have ended without a record of it (the kernel had no room for
  // one).
  void ForgetEnded();
  void RunFollower();
  void TryAllAwaited();
  bool HasAgent(Pid pid) const;
  // The caller of the next five functions holds the lock.
  void AddGap(Unsupported gap);
  // Returns awaited processes that could have run operators by now.
  std::vector<Pid> LoadedWithoutProbes() const;
  void AddGaps(const ProbePlan& plan);
  void AddMissing(Pid pid, const AttachReport& report);
  void AddUnreached(Pid pid, const std::string& why);
  // Names, where there is no eBPF, the rows of `modules` that only probes could record.
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
  std::set<uint32_t> left_on_probes_;  // pids of processes that have probes where others have jumps
  std::set<uint32_t> refused_;         // pids of refused processes; gaps_ names the first of them
  absl::Status refusal_;               // why the first process was refused
  std::vector<Unsupported> gaps_;
  std::string anothers_jumps_;
  std::string jumps_refused_;
  std::vector<std::string> warnings_;
  std::set<uint32_t> unreached_;  // pids
  // Files in lower layers of overlayfs that processes were found to have mapped, by the file that
  // was analysed.
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
  // The pid in awaited_ that was tried last. This and the next two are for the follower's thread.
  uint32_t last_tried_ = 0;
  uint64_t exits_lost_ = 0;
  uint32_t looks_for_ended_ = 0;
  std::atomic<bool> stop_ = false;  // true ends the follower, and its plans that are being made
  bool holds_awaited_ = false;
  std::thread follower_;
};

}  // namespace proftrace
