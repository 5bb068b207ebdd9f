#include "userspace/capture/recorder.h"

#include <malloc.h>
#include <sys/poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/capture/job_hit_cost.h"
#include "userspace/capture/live_meter.h"
#include "userspace/capture/map_watch.h"
#include "userspace/capture/name_resolver.h"
#include "userspace/capture/process_plan.h"
#include "userspace/capture/process_set.h"
#include "userspace/capture/recording_cost.h"
#include "userspace/capture/sampler.h"
#include "userspace/capture/step_watch.h"
#include "userspace/capture/target_info.h"

namespace proftrace {
namespace {

// The ring holds seconds of records; it is emptied often so that blocks reach the disk soon.
constexpr int kPollMs = 20;
constexpr int64_t kFlushNs = 200'000'000;
// --start-at: attaching takes less, but for many processes.
constexpr int64_t kAttachLeadNs = 2'000'000'000;
constexpr int64_t kAgentLeadNs = kAttachLeadNs + 6'000'000'000;
constexpr int64_t kProgressNs = 500'000'000;
constexpr int64_t kStepLookNs = 100'000'000;
// Until the ring is empty; until agents have handed over what they have, and samples their names.
constexpr int64_t kSettleNs = 300'000'000;
constexpr int64_t kLateSettleNs = 1'000'000'000;
// Outside the window, and only as long as it takes: a job that is idle then says nothing.
constexpr int64_t kLongestCostNs = 100'000'000;

double ToSeconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double OwnCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Host DescribeHost() {
  utsname name{};
  uname(&name);
  return Host{name.nodename, name.release, static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN))};
}

absl::StatusOr<UniqueFd> OpenPidfd(Pid pid) {
  const long fd = syscall(SYS_pidfd_open, Raw(pid), 0);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  // EINVAL, and ENOENT since 6.15: the id of a thread that is not its process's first one.
  if (errno == ESRCH || errno == EINVAL || errno == ENOENT) {
    return Fail(ExitCode::kNoTarget, "there is no process with PID " + std::to_string(Raw(pid)) +
                                         "; 'proftrace list' shows those that can be recorded");
  }
  return Fail(ExitCode::kHostUnfit, "cannot watch PID " + std::to_string(Raw(pid)) + ": " +
                                        ErrnoText(errno) + "; Linux 5.15 or later is needed");
}

// One recording. The calling thread empties the ring; the sink's writes; the process set's follows
// children.
class Recording {
 public:
  Recording(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
            const RecordCallbacks& callbacks, const std::atomic<bool>& stop)
      : options_(options),
        callbacks_(callbacks),
        stop_(stop),
        begin_ns_(MonotonicNs()),
        keeper_(options.flight
                    ? new FlightKeeper(FlightRecorder::LimitsOf(*options.flight), MonotonicNs)
                    : nullptr),
        sink_(keeper_ != nullptr ? std::unique_ptr<BlockSink>(keeper_) : std::move(writer)) {}

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
  // Until an instant of CLOCK_MONOTONIC, or the user's signal. Records are taken meanwhile.
  absl::Status WaitUntil(int64_t time_ns);
  absl::Status AttachTargets();
  void AttachHost();
  // The plan of a process that runs.
  absl::StatusOr<ProbePlan> PlanRunning(Pid pid);
  absl::Status Loop();
  void Stop();
  void OnRecord(std::span<const std::byte> record);
  // -a: processes that have begun to load PyTorch.
  void TakeMapNews();
  void TakeSamples();
  absl::Status Drain(int timeout_ms);
  bool AnyTargetAlive();
  void ReportProgress(int64_t now_ns);
  bool AskedForSteps() const { return options_.steps.has_value() || options_.counts_steps; }
  // Of the steps that were found, those asked for; the window ends with the last of them.
  void KeepSteps();
  absl::Status MeasureHitInJob();
  Cost MeasureCost(int64_t window_ns, uint64_t lost) const;
  // What was lost since the window began.
  Ledger ReadLosses() const;
  // A flight recorder's turn: gives out the dump that is due. The ring goes on filling meanwhile.
  void TakeFlight(int64_t now_ns);

  const RecordOptions& options_;
  const RecordCallbacks& callbacks_;
  const std::atomic<bool>& stop_;
  int64_t begin_ns_;
  FlightKeeper* keeper_;  // the sink's; none: all is written to a file
  CaptureSink sink_;
  std::unique_ptr<FlightRecorder> flight_;
  std::unique_ptr<BpfPrograms> programs_;
  std::unique_ptr<Sampler> sampler_;  // none: nothing is sampled
  std::unique_ptr<ProcessSet> processes_;
  std::unique_ptr<GpuAgents> agents_;  // none: nothing is put into processes
  std::unique_ptr<NameResolver> names_;
  std::unique_ptr<MapWatch> map_watch_;  // -a, where the kernel can
  std::vector<UniqueFd> target_fds_;
  std::vector<std::pair<Pid, absl::StatusOr<ProbePlan>>> plans_;  // until they are attached
  LiveMeter meter_;
  std::unique_ptr<StepWatch> step_watch_;  // none when nobody asks for steps
  JobHitCost job_hit_cost_;
  bool measures_hit_ = false;
  std::optional<double> job_ns_per_hit_;
  std::optional<double> job_ns_per_call_;  // of a begin that reads inputs
  RecordingInfo info_;
  double cpu_at_start_s_ = 0;
  uint64_t lost_before_start_ = 0;  // while probes were put in: outside the window
  int64_t last_progress_ns_ = 0;
  uint64_t last_progress_records_ = 0;
  RecordResult result_;
};

absl::Status Recording::PlanTargets() {
  std::vector<Pid> all = options_.pids;
  all.insert(all.end(), options_.awaited.begin(), options_.awaited.end());
  for (const Pid pid : all) {
    absl::StatusOr<UniqueFd> fd = OpenPidfd(pid);
    if (!fd.ok()) return fd.status();
    target_fds_.push_back(*std::move(fd));
  }
  const std::vector<Pid> found = options_.all ? FindTorchProcesses().pids : std::vector<Pid>();
  if (agents_ != nullptr) agents_->Start(options_.all ? found : options_.pids);
  for (const Pid pid : options_.pids) {
    plans_.emplace_back(pid, PlanRunning(pid));
    if (!plans_.back().second.ok()) return plans_.back().second.status();
  }
  for (const Pid pid : found) {
    // A forked child of one that comes before is attached to with its plan.
    const bool is_forked = std::any_of(plans_.begin(), plans_.end(), [pid](const auto& known) {
      return known.second.ok() && IsForkOf(pid, known.first, *known.second);
    });
    if (!is_forked) plans_.emplace_back(pid, PlanRunning(pid));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProbePlan> Recording::PlanRunning(Pid pid) {
  PlanOptions plan = options_.plan;
  // CUPTI tells of CUDA's calls itself.
  const bool has_agent = agents_ != nullptr && agents_->IsRunning(pid);
  if (has_agent) plan.cuda_calls = CudaCalls::kNever;
  absl::StatusOr<ProbePlan> made = PlanProcess(pid, plan);
  if (made.ok()) made->has_agent = has_agent;
  return made;
}

absl::Status Recording::WaitUntil(int64_t time_ns) {
  absl::Status status;
  while (status.ok() && !stop_.load(std::memory_order_relaxed)) {
    const int64_t left_ns = time_ns - MonotonicNs();
    if (left_ns <= 0) break;
    const int wait_ms = static_cast<int>(std::min<int64_t>(kPollMs, left_ns / 1'000'000 + 1));
    if (programs_ != nullptr) {
      status = Drain(wait_ms);
    } else {
      poll(nullptr, 0, wait_ms);
    }
  }
  return status;
}

absl::Status Recording::AttachTargets() {
  if (options_.all) {
    AttachHost();
    return absl::OkStatus();
  }
  for (auto& [pid, plan] : plans_) {
    if (absl::Status status = processes_->Attach(pid, *std::move(plan)); !status.ok()) {
      return status;
    }
    if (options_.bpf.follow_children) processes_->FollowDescendants(pid, /*awaits_others=*/true);
  }
  for (const Pid pid : options_.awaited) {
    if (absl::Status status = programs_->TraceProcess(pid); !status.ok()) return status;
    processes_->AwaitOwn(pid);
  }
  return absl::OkStatus();
}

// What goes wrong with one process is named, and no reason to leave the others out.
void Recording::AttachHost() {
  for (auto& [pid, plan] : plans_) {
    absl::Status status = plan.status();
    if (status.ok()) status = processes_->Attach(pid, *std::move(plan));
    if (status.ok()) {
      processes_->FollowDescendants(pid, /*awaits_others=*/false);
    } else if (ExitCodeOf(status) != ExitCode::kNoTorch &&
               ExitCodeOf(status) != ExitCode::kNoTarget) {
      processes_->Refuse(pid, status);
    }
  }
  processes_->LookForTorch(FindTorchProcesses(), /*again=*/map_watch_ == nullptr);
}

absl::Status Recording::Start() {
  const int64_t start_ns = options_.start_unix_ns.value_or(0) - MonotonicToUnixNs();
  if (options_.agent.has_value()) {
    if (options_.start_unix_ns.has_value()) {
      // What is wrong with the targets is said now; agents record from their start on.
      if (absl::Status status = PlanTargets(); !status.ok()) return status;
      if (absl::Status status = WaitUntil(start_ns - kAgentLeadNs); !status.ok()) return status;
      target_fds_.clear();
      plans_.clear();
    }
    agents_ = std::make_unique<GpuAgents>(*options_.agent, &sink_);
  }
  // Before the ring is there: the analysis of a new library takes memory, and gives it back.
  if (absl::Status status = PlanTargets(); !status.ok()) return status;
  malloc_trim(0);
  if (options_.start_unix_ns.has_value()) {
    if (absl::Status status = WaitUntil(start_ns - kAttachLeadNs); !status.ok()) return status;
    begin_ns_ = MonotonicNs();
  }
  absl::StatusOr<std::unique_ptr<BpfPrograms>> programs = BpfPrograms::Load(options_.bpf);
  if (!programs.ok()) return programs.status();
  programs_ = *std::move(programs);
  if (options_.sample_period_ns.has_value()) {
    absl::StatusOr<std::unique_ptr<SamplePrograms>> samples = SamplePrograms::Load();
    if (!samples.ok()) return samples.status();
    sampler_ = std::make_unique<Sampler>(*std::move(samples), *options_.sample_period_ns);
  }
  processes_ = std::make_unique<ProcessSet>(programs_.get(), sampler_.get(), &sink_, options_.plan,
                                            callbacks_.on_follow, callbacks_.on_awaited,
                                            [this](Pid pid, Pid parent) {
                                              if (agents_ != nullptr)
                                                agents_->Consider(pid, parent);
                                            });
  names_ = std::make_unique<NameResolver>(
      [this](Pid pid) { return processes_->ImageOf(pid); },
      [this](const std::function<void(MetadataWriter&)>& add) { sink_.AddMetadata(add); },
      [this](Pid pid, uint64_t vtable, bool is_python) {
        (void)programs_->AddNodeVtable(pid, vtable, is_python);
      });
  if (absl::Status status = programs_->AttachProcessEvents(); !status.ok()) return status;
  if (options_.all) {
    // Before they are looked for, so that none is missed in between.
    if (auto watch = MapWatch::Open(); watch.ok()) map_watch_ = *std::move(watch);
  }
  absl::Status attached = AttachTargets();
  plans_.clear();
  if (!attached.ok()) return attached;
  if (absl::Status status = MeasureHitInJob(); !status.ok()) return status;
  const int64_t attached_ns = MonotonicNs();
  if (options_.start_unix_ns.has_value()) {
    if (absl::Status status = WaitUntil(start_ns); !status.ok()) return status;
    if (const double late_s = ToSeconds(attached_ns - start_ns); late_s > 0) {
      const std::string reason = "the window began " + std::to_string(late_s) +
                                 " s after it: the probes were not live before";
      sink_.AddMetadata([&](MetadataWriter& writer) {
        writer.AddUnsupported(Unsupported{"--start-at", reason});
      });
    }
  }
  // A signal may have come before.
  const int64_t ready_ns = std::max(attached_ns, std::min(start_ns, MonotonicNs()));
  if (AskedForSteps() || callbacks_.on_progress ||
      (options_.flight.has_value() && options_.flight->WatchesSteps())) {
    step_watch_ = std::make_unique<StepWatch>(
        [this](Pid pid, uint16_t site) { return processes_->SiteLabel(pid, site); }, ready_ns,
        options_.flight.has_value() ? FlightRecorder::kMostSteps : 0);
  }
  if (options_.flight.has_value()) {
    // What is let go is given back at once, whatever lies beside it.
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    flight_ = std::make_unique<FlightRecorder>(
        *options_.flight, [this](Pid pid) { return processes_->ImageOf(pid).has_value(); });
    std::vector<Pid> targets = options_.pids;
    targets.insert(targets.end(), options_.awaited.begin(), options_.awaited.end());
    const bool is_late = agents_ != nullptr || sampler_ != nullptr;
    flight_->Start(ready_ns, targets, is_late ? kLateSettleNs : kSettleNs);
  }
  info_ = options_.info;
  info_.host = DescribeHost();
  info_.window.start_ns = ready_ns;
  info_.window.monotonic_to_unix_ns = MonotonicToUnixNs();
  info_.window.attach_s = ToSeconds(attached_ns - begin_ns_);
  sink_.AddMetadata([this](MetadataWriter& writer) { writer.AddRecording(info_); });
  if (sampler_ != nullptr) {
    if (absl::Status status = sampler_->Start(); !status.ok()) return status;
  }
  cpu_at_start_s_ = OwnCpuSeconds();
  lost_before_start_ = programs_->ReadCounters().ring_lost;
  if (callbacks_.on_ready) {
    callbacks_.on_ready(
        Ready{processes_->process_count(), processes_->operator_count(), info_.window.attach_s});
  }
  processes_->OnReady();
  return absl::OkStatus();
}

void Recording::OnRecord(std::span<const std::byte> record) {
  abi::pt_record head;
  if (record.size() < sizeof(head)) return;
  std::memcpy(&head, record.data(), sizeof(head));
  // What is told of once is needed later, too.
  if (static_cast<int64_t>(head.time_ns) < begin_ns_ && !abi::IsOfStacks(head.kind)) return;
  if (measures_hit_) job_hit_cost_.Observe(head);
  if (head.kind == abi::PT_COST || head.kind == abi::PT_COST_AGAIN) return;
  sink_.Append(record);
  ++result_.records;
  meter_.Count(head);
  if (step_watch_ != nullptr) step_watch_->Observe(record);
  if (flight_ != nullptr) flight_->Observe(head, record);
  if (head.kind <= abi::PT_CATCH) return;  // the common ones: nothing to look up
  switch (head.kind) {
    case abi::PT_NODE_BEGIN:
      names_->Observe(record);
      break;
    case abi::PT_PYTHON_MODULE:
      processes_->OnModule(record);
      break;
    case abi::PT_FORK: {
      abi::pt_fork_record fork{};
      std::memcpy(&fork, record.data(), std::min(record.size(), sizeof(fork)));
      processes_->OnFork(Pid{head.pid}, Pid{fork.child_pid}, static_cast<int64_t>(head.time_ns));
      break;
    }
    case abi::PT_EXEC:
      if (agents_ != nullptr) agents_->OnEnd(Pid{head.pid}, GpuAgents::End::kExec);
      processes_->OnExec(Pid{head.pid});
      break;
    case abi::PT_THREAD_EXIT: {
      names_->Observe(record);
      abi::pt_exit_record exit{};
      std::memcpy(&exit, record.data(), std::min(record.size(), sizeof(exit)));
      if (flight_ != nullptr) meter_.OnThreadExit(head.tid);
      if (exit.group_dead == 0) break;
      if (agents_ != nullptr) agents_->OnEnd(Pid{head.pid}, GpuAgents::End::kExit);
      processes_->OnExit(Pid{head.pid});
      break;
    }
    default:
      break;
  }
}

void Recording::TakeMapNews() {
  if (map_watch_ == nullptr) return;
  const MapNews news = map_watch_->Take();
  for (const Pid pid : news.pids) processes_->OnTorchMapped(pid);
  if (!news.is_lossy) return;
  for (const Pid pid : FindTorchProcesses().pids) processes_->OnTorchMapped(pid);
}

void Recording::TakeSamples() {
  if (sampler_ == nullptr) return;
  sampler_->TakeRecords([this](std::span<const std::byte> record) {
    sink_.Append(record);
    ++result_.records;
  });
}

absl::Status Recording::Drain(int timeout_ms) {
  TakeMapNews();
  if (agents_ != nullptr) agents_->Drain();
  TakeSamples();
  absl::StatusOr<uint64_t> taken =
      programs_->Poll(timeout_ms, [this](std::span<const std::byte> record) { OnRecord(record); });
  return taken.ok() ? sink_.status() : taken.status();
}

bool Recording::AnyTargetAlive() {
  if (options_.all) return true;
  for (const UniqueFd& fd : target_fds_) {
    pollfd poll_fd{fd.get(), POLLIN, 0};
    if (poll(&poll_fd, 1, 0) == 0) return true;
  }
  return false;
}

void Recording::ReportProgress(int64_t now_ns) {
  Progress progress;
  progress.elapsed_s = ToSeconds(now_ns - info_.window.start_ns);
  progress.records = result_.records;
  progress.records_per_s = static_cast<double>(result_.records - last_progress_records_) /
                           std::max(1e-9, ToSeconds(now_ns - last_progress_ns_));
  progress.lost = programs_->ReadCounters().ring_lost - lost_before_start_;
  if (const std::optional<RecordedSteps> steps = step_watch_->Find(); steps.has_value()) {
    const auto& [start_ns, end_ns] = steps->intervals.back();
    progress.step_ms = static_cast<double>(end_ns - start_ns) * 1e-6;
    if (AskedForSteps()) progress.steps = steps->intervals.size();
  }
  last_progress_ns_ = now_ns;
  last_progress_records_ = result_.records;
  callbacks_.on_progress(progress);
}

absl::Status Recording::Loop() {
  last_progress_ns_ = info_.window.start_ns;
  int64_t last_flush_ns = info_.window.start_ns;
  int64_t last_look_ns = info_.window.start_ns;
  while (!stop_.load(std::memory_order_relaxed)) {
    const int64_t now_ns = MonotonicNs();
    int timeout_ms = kPollMs;
    if (options_.duration_s.has_value()) {
      const double left_s = *options_.duration_s - ToSeconds(now_ns - info_.window.start_ns);
      if (left_s <= 0) break;
      timeout_ms = std::min(timeout_ms, 1 + static_cast<int>(left_s * 1e3));
    }
    if (absl::Status status = Drain(timeout_ms); !status.ok()) return status;
    if (now_ns - last_flush_ns >= kFlushNs) {
      sink_.FlushBlock();
      sink_.FlushDeviceBlock();
      last_flush_ns = now_ns;
      if (!AnyTargetAlive()) break;
      if (flight_ != nullptr) flight_->NoteLosses(now_ns, ReadLosses());
      if (flight_ != nullptr && options_.flight->WatchesSteps()) {
        if (const auto steps = step_watch_->Find(); steps.has_value())
          flight_->OnSteps(*steps, now_ns);
      }
    }
    if (flight_ != nullptr) TakeFlight(now_ns);
    if (options_.steps.has_value() && now_ns - last_look_ns >= kStepLookNs) {
      if (step_watch_->HasSurely(*options_.steps)) break;
      last_look_ns = now_ns;
    }
    if (callbacks_.on_progress && now_ns - last_progress_ns_ >= kProgressNs) ReportProgress(now_ns);
  }
  return absl::OkStatus();
}

absl::Status Recording::MeasureHitInJob() {
  // Perf events by the thousand take the kernel minutes to remove.
  if (programs_->api() != UprobeApi::kMulti) return absl::OkStatus();
  const LinkSet links = processes_->AttachCostPoints();
  if (links.empty()) return absl::OkStatus();
  measures_hit_ = true;
  const int64_t until_ns = MonotonicNs() + kLongestCostNs;
  absl::Status status;
  while (status.ok() && MonotonicNs() < until_ns &&
         job_hit_cost_.pairs() < JobHitCost::kEnoughPairs) {
    status = Drain(kPollMs);
  }
  measures_hit_ = false;
  job_ns_per_hit_ = job_hit_cost_.median_ns();
  job_ns_per_call_ = job_hit_cost_.median_call_ns();
  return status;
}

Cost Recording::MeasureCost(int64_t window_ns, uint64_t lost) const {
  Cost cost = EstimateCost(meter_, window_ns, lost,
                           {programs_->ns_per_hit(), job_ns_per_hit_, job_ns_per_call_});
  cost.tracer_cpu_s = OwnCpuSeconds() - cpu_at_start_s_;
  return cost;
}

void Recording::KeepSteps() {
  if (!AskedForSteps()) return;
  result_.steps = step_watch_->Find();
  if (!result_.steps.has_value() || !options_.steps.has_value()) return;
  std::vector<std::pair<int64_t, int64_t>>& intervals = result_.steps->intervals;
  if (intervals.size() < *options_.steps) return;  // the recording ended before
  intervals.resize(*options_.steps);
  info_.window.duration_ns = std::max<int64_t>(0, intervals.back().second - info_.window.start_ns);
}

Ledger Recording::ReadLosses() const {
  const KernelCounters counters = programs_->ReadCounters();
  Ledger ledger;
  ledger.ring_lost = counters.ring_lost - lost_before_start_;
  ledger.read_failed = counters.read_failed + names_->read_failed();
  ledger.follow_failed = processes_->follow_failed() + counters.forks_lost;
  if (sampler_ != nullptr) {
    ledger.samples_lost = sampler_->lost();
    ledger.samples_unsteady = sampler_->unsteady();
  }
  return ledger;
}

void Recording::TakeFlight(int64_t now_ns) {
  flight_->Look(now_ns);
  if (!flight_->IsDue(now_ns)) return;
  sink_.FlushBlock();
  sink_.FlushDeviceBlock();
  sink_.WaitUntilWritten();
  const Ledger losses = ReadLosses();
  flight_->NoteLosses(now_ns, losses);
  MetadataWriter words;
  for (const Unsupported& gap : processes_->gaps()) words.AddUnsupported(gap);
  const bool has_agent = agents_ != nullptr && agents_->has_run();
  if (has_agent || processes_->has_cuda_calls()) words.AddGpu(has_agent ? "agent" : "launch");
  for (const Pid pid : processes_->pids()) {
    for (const ThreadEntry& thread : ReadThreads(pid)) words.AddThread(thread);
  }
  const Cost cost = MeasureCost(now_ns - info_.window.start_ns, losses.ring_lost);
  if (callbacks_.on_dump) {
    callbacks_.on_dump(
        flight_->Take(now_ns, /*is_end=*/false, *keeper_, info_.window, cost, &words));
  }
}

void Recording::Stop() {
  const int64_t end_ns = MonotonicNs();
  absl::Status status;
  if (!job_ns_per_hit_ && AnyTargetAlive()) status = MeasureHitInJob();
  if (sampler_ != nullptr) sampler_->Stop();
  processes_->Detach();
  const int64_t detached_ns = MonotonicNs();
  if (agents_ != nullptr) agents_->Stop();
  if (status.ok()) status = Drain(0);
  processes_->CollectLastNames();

  info_.window.duration_ns = end_ns - info_.window.start_ns;
  KeepSteps();
  info_.window.detach_s = ToSeconds(detached_ns - end_ns);
  const Ledger ledger = ReadLosses();
  const Cost cost = MeasureCost(info_.window.duration_ns, ledger.ring_lost);
  sink_.AddMetadata([&](MetadataWriter& writer) {
    const bool has_agent = agents_ != nullptr && agents_->has_run();
    for (const Unsupported& gap : processes_->gaps()) {
      // Of processes that had probes at their calls before they had agents.
      const bool is_filled =
          has_agent && !agents_->has_missed() && gap.feature == kLaunchLevelFeature;
      if (!is_filled) writer.AddUnsupported(gap);
    }
    if (has_agent || processes_->has_cuda_calls()) writer.AddGpu(has_agent ? "agent" : "launch");
    if (agents_ != nullptr) {
      for (const Unsupported& gap : agents_->gaps()) writer.AddUnsupported(gap);
    }
    if (result_.steps.has_value()) writer.AddSteps(*result_.steps);
    writer.AddEnd(info_.window, cost, ledger);
  });
  const absl::Status finished = sink_.Finish();
  result_.attached = processes_->operator_count() > 0;
  result_.status = status.ok() ? finished : status;
  if (result_.status.ok() && !result_.attached) {
    result_.status =
        Fail(ExitCode::kNoTorch,
             options_.all ? "no process that had loaded PyTorch was there to be recorded (-a)"
                          : "the command was not recorded: neither it nor its children had loaded "
                            "PyTorch by the end");
  }
  result_.ring_lost = ledger.ring_lost;
  result_.window = info_.window;
  result_.cost = cost;
  if (flight_ == nullptr) return;
  flight_->NoteLosses(end_ns, ledger);
  MetadataWriter words;
  result_.last_dump = flight_->Take(end_ns, /*is_end=*/true, *keeper_, info_.window, cost, &words);
  result_.window = result_.last_dump->window;
  result_.triggers_passed_over = flight_->passed_over();
}

}  // namespace

RecordResult Record(const RecordOptions& options, std::unique_ptr<CaptureWriter> writer,
                    const RecordCallbacks& callbacks, const std::atomic<bool>& stop) {
  return Recording(options, std::move(writer), callbacks, stop).Run();
}

}  // namespace proftrace
