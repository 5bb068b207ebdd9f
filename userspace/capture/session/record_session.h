// One recording, from attach to the closed capture. The calling thread empties the ring, the sink's
// thread writes, and the process set's thread follows children.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/names/name_resolver.h"
#include "userspace/capture/processes/map_watch.h"
#include "userspace/capture/processes/plain_processes.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/processes/silent_processes.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/records/record_merger.h"
#include "userspace/capture/records/stack_merger.h"
#include "userspace/capture/samples/sampler.h"
#include "userspace/capture/session/budget_keeper.h"
#include "userspace/capture/session/cpu_quota_watch.h"
#include "userspace/capture/session/flight_recorder.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/capture/session/session_cost.h"
#include "userspace/capture/session/step_watch.h"
#include "userspace/capture/session/tier_chooser.h"
#include "userspace/capture/targets/target_reader.h"

namespace proftrace {

class RecordSession {
 public:
  RecordSession(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                const RecordCallbacks& callbacks, const std::atomic<bool>& stop)
      : options_(options),
        callbacks_(callbacks),
        stop_(stop),
        ring_bytes_(options.bpf.ring_bytes),
        flight_bytes_(options.flight ? options.flight->most_bytes : 0),
        begin_ns_(MonotonicNs()),
        keeper_(options.flight
                    ? new FlightKeeper(FlightRecorder::LimitsOf(*options.flight), MonotonicNs)
                    : nullptr),
        sink_(keeper_ != nullptr ? std::unique_ptr<BlockSink>(keeper_) : std::move(writer)),
        puts_jumps_(options.tier == Tier::kPatch),
        tier_(options, stop),
        cost_({options, programs_, processes_, patch_, system_, budget_},
              {[this](int timeout_ms) { return Drain(timeout_ms); },
               [this] { return AnyTargetAlive(); }, [this] { return RecordedPids(); }}) {}

  ~RecordSession() {
    // The reader's answers go to members that are destroyed before the reader.
    if (reader_ != nullptr) reader_->Finish(0);
  }
  RecordSession(const RecordSession&) = delete;
  RecordSession& operator=(const RecordSession&) = delete;

  RecordResult Run() {
    result_.status = Start();
    if (result_.status.ok()) {
      absl::Status status = Loop();
      Stop();
      if (status.ok()) status = result_.status;
      result_.status = status;
    }
    return std::move(result_);
  }

 private:
  absl::Status Start();
  // Makes plans, and starts agents, so that they are ready shortly before the window (--start-at).
  absl::Status PlanInTime(int64_t start_ns);
  // Loads the kernel's programs, and chooses the tier.
  absl::Status LoadSources();
  absl::Status PutProbesIn();
  // Starts the sampler, and gives it time to read the tables that stacks are walked by.
  absl::Status StartSampler();
  // Waits for the moment at which the window is to begin, if there is one.
  absl::Status AwaitStart(int64_t start_ns, int64_t attached_ns);
  // Makes what watches the records: for steps, the budget and the flight recorder.
  void MakeObservers(int64_t ready_ns);
  absl::Status BeginWindow(int64_t ready_ns, int64_t attached_ns);
  // Tells the user that the recording has begun, and what will be missing.
  void SayReady();
  absl::Status PlanTargets();
  // Makes the rings smaller until the memory that this program takes has room within the limit of
  // its own control group. Otherwise the kernel would kill the program without a word, with its
  // probes in the job.
  absl::Status FitOwnMemory();
  absl::Status LoadPrograms();
  // Decides whether jumps are put in (--tier). With kAuto it counts operators for a moment.
  absl::Status ChooseTier();
  // Returns the processes whose operators can be counted before the probes go in, with their plans.
  TierChooser::PlansByProcess PlansToCount() const;
  absl::Status PrepareJumps();
  // Returns `attached`, which says why jumps could not be put into a process, together with the
  // reason why there is no eBPF.
  absl::Status WithoutEitherTier(const absl::Status& attached) const;
  // Returns the status of a recording that has recorded no process.
  absl::Status NothingRecorded() const;
  // Notes by which tier processes are recorded so far. Returns whether that has changed.
  bool NoteTier();
  // Tells which tier was chosen, once it is known which processes have jumps.
  void TellTier();
  std::unique_ptr<ProcessSet> MakeProcesses();
  // Waits until an instant of CLOCK_MONOTONIC, or the user's signal. Records are taken meanwhile.
  absl::Status WaitUntil(int64_t time_ns);
  absl::Status AwaitOperators(Pid pid, absl::StatusOr<ProbePlan>* plan);
  absl::Status AttachTargets();
  // Makes the plans of several processes at the same time.
  ProcessSet::Plans PlanTogether(const std::vector<Pid>& pids);
  // Returns descendants of the targets that may have a PyTorch of their own.
  std::vector<Pid> FindChildrenWithTorch() const;
  // Returns `pids` without those that were forked by another one of them or by one of `parents`.
  static std::vector<Pid> WithoutForks(const std::vector<Pid>& pids,
                                       const std::vector<Pid>& parents);
  absl::Status AttachDescendants(const std::vector<Pid>& pids);
  void AttachHost();
  // Makes the plan of a process that was named, when it has imported PyTorch.
  absl::StatusOr<ProbePlan> PlanTarget(Pid pid);
  // Whether the process's GPU agent records, so that CUPTI reports the process's CUDA calls. Waits
  // for the agent.
  bool HasAgent(Pid pid);
  // Makes the plan of a process that runs. May be called on several threads.
  absl::StatusOr<ProbePlan> PlanRunning(Pid pid, bool has_agent) const;
  absl::Status Loop();
  void Stop();
  // Takes the probes out, and all records that come until then.
  absl::Status TakeProbesOut(int64_t* detached_ns);
  // Writes what ends the capture.
  void WriteLastWords(const Cost& cost, const Ledger& ledger);
  void AddGaps(MetadataWriter* writer) const;
  void TakeLastDump(int64_t end_ns, const Cost& cost, const Ledger& ledger);
  void OnRecord(std::span<const std::byte> record);
  // Does the things that a record calls for at once, such as following a fork.
  void React(const abi::pt_record& head, std::span<const std::byte> record);
  // Writes a record to the capture.
  void Keep(const abi::pt_record& head, std::span<const std::byte> record);
  // Gives a record to the merger, which puts the records of both sources in order.
  void Merge(std::span<const std::byte> record, RecordOrigin origin);
  // Keeps the records of jumps and of probes that came before `until_ns`, in their order.
  void KeepMerged(int64_t until_ns);
  bool IsBeforeBegin(const abi::pt_record& head) const;
  // Takes up processes that have begun to load PyTorch (-a).
  void TakeMapNews();
  void TakeSamples();
  void TakeSystemRecords();
  absl::Status LoadActivities();
  // Writes a snapshot of the host's clocks to the capture.
  void TellClocks();
  // Writes to the capture which quotas of CPU time the recorded processes are under, and how far
  // these are used up. With `is_asked`, writes also that there are no quotas when that was written
  // before.
  void TellQuotas(bool is_asked);
  absl::Status AttachPlain();
  absl::Status Drain(int timeout_ms);
  bool AnyTargetAlive();
  void ReportProgress(int64_t now_ns);
  // Tells the user of code that the processes' probes do not reach.
  void SayMissing();
  // Says which recorded processes stand still, and names each once among the gaps. `when` is, for
  // example, "at the begin".
  void NoteStandstills(const std::string& when);
  // Writes the failures of the workers that read processes.
  void AddFailures(MetadataWriter* writer) const;
  // Finds recorded processes that ran and gave no row. To be called at the end.
  std::optional<Unsupported> FindSilent(bool records_lost);
  bool AskedForSteps() const { return options_.steps.has_value() || options_.counts_steps; }
  // Keeps the steps that were asked for; the window ends with the last of them.
  void KeepSteps();
  // Measures what the recording takes, and has operators demoted (--max-overhead).
  void KeepBudget(int64_t now_ns);
  // Returns the losses since the window began.
  Ledger ReadLosses() const;
  // Returns the metadata that a dump ends with. `unnamed` is the number of samples that have no
  // names yet.
  MetadataWriter FlightWords(const Cost& cost, uint64_t unnamed);
  // Hands over the flight recorder's dump or summary if one is due. The ring goes on filling
  // meanwhile.
  void TakeFlight(int64_t now_ns);
  // Calls `visit` with the set that keeps the recorded processes, and returns its result.
  template <typename Visit>
  auto WithProcesses(Visit visit) {
    return plain_ != nullptr ? visit(*plain_) : visit(*processes_);
  }
  std::vector<Pid> RecordedPids() {
    return WithProcesses([](auto& processes) { return processes.pids(); });
  }

  const RecordOptions& options_;
  const RecordCallbacks& callbacks_;
  const std::atomic<bool>& stop_;
  uint32_t ring_bytes_;  // the bytes of each of the kernel's rings
  size_t flight_bytes_;  // the bytes that the flight recorder may keep; 0: there is none
  int64_t begin_ns_;
  FlightKeeper* keeper_;  // owned by the sink; null: records are written to a file
  CaptureSink sink_;
  std::unique_ptr<FlightRecorder> flight_;
  std::unique_ptr<BpfPrograms> programs_;
  std::unique_ptr<Sampler> sampler_;        // null: nothing is sampled
  std::unique_ptr<SystemPrograms> system_;  // null: no activities of the kernel are recorded
  std::unique_ptr<PlainProcesses> plain_;   // null: operators are recorded
  std::unique_ptr<PatchRecorder> patch_;    // null: no jumps are put in
  RecordMerger merger_;
  std::unique_ptr<StackMerger> stacks_;   // null: stacks come from one source or none
  std::unique_ptr<TargetReader> reader_;  // reads names
  std::unique_ptr<ProcessSet> processes_;
  std::unique_ptr<GpuAgents> agents_;  // null: no agent is put into processes
  std::unique_ptr<NameResolver> names_;
  std::unique_ptr<MapWatch> map_watch_;  // with -a, where the kernel can tell
  std::vector<UniqueFd> target_fds_;
  // The plans of targets, until they are attached to.
  std::vector<std::pair<Pid, absl::StatusOr<ProbePlan>>> plans_;
  ProcessSet::Plans child_plans_;  // plans of the targets' children, for attaching
  SilentProcesses silent_;
  std::map<uint32_t, std::string> standstills_;  // why a process stands still, by pid
  CpuQuotaWatch quotas_;
  std::unique_ptr<StepWatch> step_watch_;  // null: nobody asks for steps
  std::unique_ptr<BudgetKeeper> budget_;   // null: there is no budget
  bool puts_jumps_;  // whether jumps are put in: as asked for or, with kAuto, as chosen
  std::vector<Pid> stay_on_probes_;  // processes that have no jumps where others have
  TierChooser tier_;
  SessionCost cost_;
  std::string without_bpf_;  // why there is no eBPF; empty: the programs are loaded
  RecordingInfo info_;
  uint64_t lost_before_start_ = 0;  // records lost before the window, while probes went in
  uint64_t system_lost_before_start_ = 0;
  int64_t next_clocks_ns_ = 0;  // when TellClocks() is due again
  int64_t last_progress_ns_ = 0;
  uint64_t last_progress_records_ = 0;
  RecordResult result_;
};

}  // namespace proftrace
