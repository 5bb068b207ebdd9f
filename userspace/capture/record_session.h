// One recording, from attach to the closed capture. The calling thread empties the ring; the sink's
// writes; the process set's follows children.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/budget_keeper.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/capture/cpu_quota_watch.h"
#include "userspace/capture/flight_recorder.h"
#include "userspace/capture/job_hit_cost.h"
#include "userspace/capture/job_stack_cost.h"
#include "userspace/capture/live_meter.h"
#include "userspace/capture/map_watch.h"
#include "userspace/capture/name_resolver.h"
#include "userspace/capture/operator_rates.h"
#include "userspace/capture/patch_recorder.h"
#include "userspace/capture/plain_processes.h"
#include "userspace/capture/price_comparison.h"
#include "userspace/capture/process_cpu_times.h"
#include "userspace/capture/process_set.h"
#include "userspace/capture/record_merger.h"
#include "userspace/capture/recorder.h"
#include "userspace/capture/sampler.h"
#include "userspace/capture/silent_processes.h"
#include "userspace/capture/site_reuse.h"
#include "userspace/capture/stack_merger.h"
#include "userspace/capture/step_watch.h"
#include "userspace/capture/stretch_meter.h"
#include "userspace/capture/system_programs.h"
#include "userspace/capture/target_reader.h"
#include "userspace/patch/jump_cost.h"

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
        puts_jumps_(options.tier == Tier::kPatch) {}

  ~RecordSession() {
    // What it is asked for comes to members that end before it.
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
  absl::Status PlanTargets();
  // Makes the rings smaller until all that this program takes has room within the limit of its own
  // control group: the kernel would kill it without a word, with its probes in the job.
  absl::Status FitOwnMemory();
  absl::Status LoadPrograms();
  // --tier: whether jumps are put in. Counts operators for a moment with kAuto.
  absl::Status ChooseTier();
  // Processes whose operators can be counted before the probes go in, with their plans.
  std::vector<std::pair<Pid, const ProbePlan*>> PlansToCount() const;
  // Counts for a moment; adds to `counted` the processes that had the probe for it.
  absl::StatusOr<std::vector<OperatorRates::Thread>> CountOperators(std::vector<Pid>* counted);
  // What recording an operator by probes usually takes of the job's time.
  double UsualProbeNsPerOperator() const;
  absl::Status CheckStacksByJumps(Pid pid) const;
  bool ChooseByRates(const std::vector<Pid>& counted,
                     const std::vector<OperatorRates::Thread>& threads, TierChoice* choice);
  absl::Status PrepareJumps();
  // Adds why there is no eBPF to why a process could not be attached to by jumps.
  absl::Status WithoutEitherTier(const absl::Status& attached) const;
  // What the recording ends with that has recorded no process.
  absl::Status NothingRecorded() const;
  // Notes by which tier processes are recorded so far; whether that has changed.
  bool NoteTier();
  // Says what was chosen, once it is known which processes have jumps.
  void TellTier();
  std::unique_ptr<ProcessSet> MakeProcesses();
  // Waits until an instant of CLOCK_MONOTONIC, or the user's signal. Records are taken meanwhile.
  absl::Status WaitUntil(int64_t time_ns);
  absl::Status AwaitOperators(Pid pid, absl::StatusOr<ProbePlan>* plan);
  absl::Status AttachTargets();
  // Makes the plans of several processes at the same time.
  ProcessSet::Plans PlanTogether(const std::vector<Pid>& pids);
  // Descendants of the targets that may have a PyTorch of their own.
  std::vector<Pid> FindChildrenWithTorch() const;
  // Returns `pids` without those that were forked by another one of them or by one of `parents`.
  static std::vector<Pid> WithoutForks(const std::vector<Pid>& pids,
                                       const std::vector<Pid>& parents);
  absl::Status AttachDescendants(const std::vector<Pid>& pids);
  void AttachHost();
  // Makes the plan of a process that was named, when it has imported PyTorch.
  absl::StatusOr<ProbePlan> PlanTarget(Pid pid);
  // Whether CUPTI tells of the process's calls of CUDA. Waits for it.
  bool HasAgent(Pid pid);
  // Makes the plan of a process that runs. May be called on several threads.
  absl::StatusOr<ProbePlan> PlanRunning(Pid pid, bool has_agent) const;
  absl::Status Loop();
  void Stop();
  void OnRecord(std::span<const std::byte> record);
  // Does what a record asks to be done at once.
  void React(const abi::pt_record& head, std::span<const std::byte> record);
  // Writes it to the capture.
  void Keep(const abi::pt_record& head, std::span<const std::byte> record);
  // Has it put in order.
  void Merge(std::span<const std::byte> record, RecordOrigin origin);
  // Records of jumps and of probes that have their order by now.
  void KeepMerged(int64_t until_ns);
  bool IsBeforeBegin(const abi::pt_record& head) const;
  bool IsInWindow(const abi::pt_record& head) const;
  // With -a: takes up processes that have begun to load PyTorch.
  void TakeMapNews();
  void TakeSamples();
  void TakeSystemRecords();
  absl::Status LoadActivities();
  // A snapshot of the host's clocks for the capture.
  void TellClocks();
  // What quotas of CPU time the recorded processes are under, and how far these are used up.
  // `is_asked`: also where that is the same as before.
  void TellQuotas(bool is_asked);
  absl::Status AttachPlain();
  absl::Status Drain(int timeout_ms);
  bool AnyTargetAlive();
  void ReportProgress(int64_t now_ns);
  // Says what the processes' probes do not reach.
  void SayMissing();
  // Says which recorded processes stand still; `when`: "at the begin". Named among the gaps, each
  // once.
  void NoteStandstills(const std::string& when);
  // What workers that read processes failed to do.
  void AddFailures(MetadataWriter* writer) const;
  // Recorded processes that ran and gave no row; at the end.
  std::optional<Unsupported> FindSilent(bool records_lost);
  bool AskedForSteps() const { return options_.steps.has_value() || options_.counts_steps; }
  // Keeps the steps that were asked for; the window ends with the last of them.
  void KeepSteps();
  // Puts one probe at the function that every operator calls into each process that was named.
  LinkSet AttachCounters();
  // Whether the job's CPU time with and without probes may be compared at all.
  bool CanCompare() const;
  // Whether that is measured before the probes go in, as the price is needed while it is recorded;
  // otherwise after they are out, which the job's user need not wait for.
  bool ComparesEarly() const;
  // Measures what an operator takes of the job's CPU time before the probes go in, and after.
  absl::Status MeasureAlone();
  absl::Status MeasureAloneAfter();
  absl::Status MeasureStretch(int64_t most_cpu_ns);
  // Whether records were lost since the last call.
  bool HasLost();
  absl::Status MeasureHitInJob();
  // Compares what came since the last call with that.
  void CompareStretch(int64_t now_ns);
  // Has the process that uses most CPU time compared, where that is not done early.
  void FollowBusiest();
  void KeepStretch();
  HitCost CostsOfHits() const;
  // --max-overhead: looks what the recording takes, and has operators demoted.
  void KeepBudget(int64_t now_ns);
  Cost MeasureCost(int64_t window_ns, uint64_t lost) const;
  // Reads the CPU time that recorded processes have used by now; about four times a second.
  void ReadCpuTimes(int64_t now_ns);
  // Returns what was lost since the window began.
  Ledger ReadLosses() const;
  // Returns what a dump says of the recording. `unnamed`: samples without names yet.
  MetadataWriter FlightWords(const Cost& cost, uint64_t unnamed);
  // Gives out the flight recorder's dump that is due. The ring goes on filling meanwhile.
  void TakeFlight(int64_t now_ns);
  // Returns what `visit` returns for the set that keeps the recorded processes.
  template <typename Visit>
  auto WithProcesses(Visit visit) {
    return plain_ != nullptr ? visit(*plain_) : visit(*processes_);
  }

  const RecordOptions& options_;
  const RecordCallbacks& callbacks_;
  const std::atomic<bool>& stop_;
  uint32_t ring_bytes_;  // of each of the kernel's rings
  size_t flight_bytes_;  // that the flight recorder may keep; 0 = there is none
  int64_t begin_ns_;
  // What the cost of the recording is estimated from: not what is measured or waited for around it.
  int64_t metered_from_ns_ = std::numeric_limits<int64_t>::max();
  int64_t metered_until_ns_ = std::numeric_limits<int64_t>::max();
  FlightKeeper* keeper_;  // the sink's; none: all is written to a file
  CaptureSink sink_;
  std::unique_ptr<FlightRecorder> flight_;
  std::unique_ptr<BpfPrograms> programs_;
  std::unique_ptr<Sampler> sampler_;        // none: nothing is sampled
  std::unique_ptr<SystemPrograms> system_;  // none: no activities of the kernel
  std::unique_ptr<PlainProcesses> plain_;   // none: operators are recorded
  std::unique_ptr<PatchRecorder> patch_;    // none: the kernel's probes record all
  RecordMerger merger_;
  std::unique_ptr<StackMerger> stacks_;   // of two sources; none: there are not two, or no stacks
  std::unique_ptr<TargetReader> reader_;  // of names
  std::unique_ptr<ProcessSet> processes_;
  std::unique_ptr<GpuAgents> agents_;  // none: nothing is put into processes
  std::unique_ptr<NameResolver> names_;
  std::unique_ptr<MapWatch> map_watch_;  // -a, where the kernel can
  std::vector<UniqueFd> target_fds_;
  std::vector<std::pair<Pid, absl::StatusOr<ProbePlan>>> plans_;  // until they are attached
  ProcessSet::Plans child_plans_;                                 // until then, too
  LiveMeter meter_;
  LiveMeter jump_meter_;
  SilentProcesses silent_;
  std::map<uint32_t, std::string> standstills_;  // by pid: sentences
  ProcessCpuTimes cpu_times_;
  CpuQuotaWatch quotas_;
  int64_t last_cpu_look_ns_ = 0;
  std::unique_ptr<StepWatch> step_watch_;  // none when nobody asks for steps
  std::unique_ptr<BudgetKeeper> budget_;   // none: there is no budget
  bool puts_jumps_;                        // as asked for or, with kAuto, as chosen
  std::vector<Pid> stay_on_probes_;        // of processes that have no jumps then
  OperatorRates rates_;
  StretchMeter stretch_;
  PriceComparison comparison_;
  bool compares_ = false;  // a stretch of the window
  int64_t last_cut_ns_ = 0;
  SiteReuse probe_reuse_;
  SiteReuse jump_reuse_;
  JobHitCost job_hit_cost_;
  JobStackCost stack_cost_;
  bool measures_hit_ = false;
  std::optional<double> job_ns_per_hit_;
  std::optional<double> job_ns_per_call_;  // of a begin that reads inputs
  std::optional<JumpCost> jump_cost_;
  std::string without_bpf_;  // why; empty: the programs are loaded
  RecordingInfo info_;
  int64_t cpu_at_start_ns_ = 0;
  uint64_t lost_compared_ = 0;      // as of the last look at stretches
  uint64_t lost_before_start_ = 0;  // while probes were put in: outside the window
  uint64_t system_lost_before_start_ = 0;
  int64_t next_clocks_ns_ = 0;  // when TellClocks() is due again
  int64_t last_progress_ns_ = 0;
  uint64_t last_progress_records_ = 0;
  RecordResult result_;
};

}  // namespace proftrace
