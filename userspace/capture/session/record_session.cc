#include "userspace/capture/session/record_session.h"

#include <sys/poll.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "bpf/abi/record_kinds.h"
#include "bpf/abi/records.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/session/clock_snapshots.h"
#include "userspace/capture/session/host_state.h"
#include "userspace/inject/standstill.h"

namespace proftrace {
namespace {

// The ring holds seconds of records; it is emptied often so that blocks reach the disk soon.
constexpr int kPollMs = 20;
constexpr int64_t kFlushNs = 200'000'000;
constexpr int64_t kProgressNs = 500'000'000;
constexpr int64_t kStepLookNs = 100'000'000;
// How old the records of two sources must be before they are put in order.
constexpr int64_t kMergeNs = 20'000'000;
// The longest wait for samples' names before a dump; the rings are not emptied meanwhile.
constexpr int64_t kLongestDumpWaitNs = 250'000'000;
constexpr size_t kMostStandstillLooks = 256;
// How long to wait for names at the end.
constexpr int64_t kLastNamesNs = 5'000'000'000;

constexpr char kNeverLoaded[] =
    "the command was not recorded: neither it nor its children had loaded PyTorch by the end";
constexpr char kEndedTooEarly[] =
    "the command was not recorded: it, or a child of it, had begun to load PyTorch and ended "
    "before its probes were live; what works for a tenth of a second after that is recorded";

}  // namespace

void RecordSession::OnRecord(std::span<const std::byte> record) {
  abi::pt_record head;
  if (record.size() < sizeof(head)) return;
  std::memcpy(&head, record.data(), sizeof(head));
  if (IsBeforeBegin(head)) return;
  cost_.Observe(head);
  tier_.Observe(head);
  if (head.kind == abi::PT_COST || head.kind == abi::PT_COST_AGAIN) return;
  if (cost_.IsInWindow(head)) {
    cost_.Count(head);
    silent_.Observe(head);
  }
  if (patch_ != nullptr) {
    // Merged records are kept only later, when a process that has ended is not known any more. So
    // the flight recorder gets the end of a process here.
    const bool is_exit = head.kind == abi::PT_THREAD_EXIT;
    if (is_exit && flight_ != nullptr) flight_->Observe(head, record);
    Merge(record, RecordOrigin::kProbe);
  } else {
    Keep(head, record);
  }
  React(head, record);
}

bool RecordSession::IsBeforeBegin(const abi::pt_record& head) const {
  // Records of stacks are made only once, and later records refer to them, so records from before
  // the begin are kept, too.
  return static_cast<int64_t>(head.time_ns) < begin_ns_ && !abi::IsOfStacks(head.kind);
}

void RecordSession::Keep(const abi::pt_record& head, std::span<const std::byte> record) {
  sink_.Append(record);
  ++result_.records;
  if (step_watch_ != nullptr) step_watch_->Observe(record);
  if (budget_ != nullptr) budget_->Observe(head);
  const bool was_observed = patch_ != nullptr && head.kind == abi::PT_THREAD_EXIT;
  if (flight_ != nullptr && !was_observed) flight_->Observe(head, record);
}

void RecordSession::Merge(std::span<const std::byte> record, RecordOrigin origin) {
  if (stacks_ != nullptr) {
    record = stacks_->Observe(record, origin, [this](std::span<const std::byte> told) {
      abi::pt_record head;
      std::memcpy(&head, told.data(), sizeof(head));
      Keep(head, told);
    });
  }
  if (!record.empty()) merger_.Add(record, origin);
}

void RecordSession::KeepMerged(int64_t until_ns) {
  merger_.Emit(until_ns, [this](std::span<const std::byte> record, RecordOrigin origin) {
    abi::pt_record head;
    std::memcpy(&head, record.data(), sizeof(head));
    if (IsBeforeBegin(head)) return;
    if (origin == RecordOrigin::kJump) {
      if (cost_.IsInWindow(head)) {
        cost_.CountJump(head);
        silent_.Observe(head);
      }
      cost_.ObserveJump(head, /*reads_stacks=*/stacks_ != nullptr);
    }
    if (stacks_ == nullptr) return Keep(head, record);
    stacks_->Add(record, origin, [this](std::span<const std::byte> made) {
      abi::pt_record head_of_made;
      std::memcpy(&head_of_made, made.data(), sizeof(head_of_made));
      Keep(head_of_made, made);
    });
  });
}

void RecordSession::React(const abi::pt_record& head, std::span<const std::byte> record) {
  if (head.kind <= abi::PT_CATCH) return;  // the most frequent kinds need no reaction
  switch (head.kind) {
    case abi::PT_NODE_BEGIN:
    case abi::PT_GUARD_BEGIN:
    case abi::PT_NAMED_BEGIN:
      names_->Observe(record);
      break;
    case abi::PT_PYTHON_MODULE:
      processes_->OnModule(record);
      break;
    case abi::PT_SCRIPT_STACK:
      processes_->OnScript(record);
      break;
    case abi::PT_FORK: {
      abi::pt_fork_record fork{};
      std::memcpy(&fork, record.data(), std::min(record.size(), sizeof(fork)));
      WithProcesses([&](auto& processes) {
        processes.OnFork(Pid{head.pid}, Pid{fork.child_pid}, static_cast<int64_t>(head.time_ns),
                         /*shares_memory=*/head.site == 1);
      });
      break;
    }
    case abi::PT_EXEC:
      cost_.OnExec(Pid{head.pid});
      if (agents_ != nullptr) agents_->OnEnd(Pid{head.pid}, GpuAgents::End::kExec);
      if (budget_ != nullptr) {
        budget_->OnProcessEnd(Pid{head.pid}, static_cast<int64_t>(head.time_ns));
      }
      WithProcesses([&](auto& processes) { processes.OnExec(Pid{head.pid}); });
      break;
    case abi::PT_THREAD_EXIT: {
      names_->Observe(record);
      abi::pt_exit_record exit{};
      std::memcpy(&exit, record.data(), std::min(record.size(), sizeof(exit)));
      if (flight_ != nullptr) cost_.OnThreadExit(head.tid);
      if (exit.group_dead == 0) break;
      if (agents_ != nullptr) agents_->OnEnd(Pid{head.pid}, GpuAgents::End::kExit);
      if (budget_ != nullptr) {
        budget_->OnProcessEnd(Pid{head.pid}, static_cast<int64_t>(head.time_ns));
      }
      WithProcesses([&](auto& processes) {
        processes.OnExit(Pid{head.pid}, static_cast<int64_t>(head.time_ns));
      });
      break;
    }
    default:
      break;
  }
}

void RecordSession::TakeMapNews() {
  if (map_watch_ == nullptr) return;
  const MapNews news = map_watch_->Take();
  for (const Pid pid : news.pids) processes_->OnTorchMapped(pid);
  if (!news.is_lossy) return;
  for (const Pid pid : FindTorchProcesses().pids) processes_->OnTorchMapped(pid);
}

void RecordSession::TakeSamples() {
  if (sampler_ == nullptr) return;
  sampler_->TakeRecords([this](std::span<const std::byte> record) {
    sink_.Append(record);
    ++result_.records;
  });
}

void RecordSession::TakeSystemRecords() {
  if (system_ == nullptr) return;
  system_->Drain([this](std::span<const std::byte> record) {
    abi::pt_record head{};
    std::memcpy(&head, record.data(), std::min(record.size(), sizeof(head)));
    cost_.ObserveSystem(head);
    sink_.Append(record);
    ++result_.records;
  });
}

void RecordSession::TellClocks() {
  const ClockSnapshot clocks = ReadKernelClocks();
  next_clocks_ns_ = clocks.monotonic_ns + kClockSnapshotNs;
  sink_.AddMetadata([&clocks](MetadataWriter& writer) { TellHost(clocks, &writer); });
}

void RecordSession::TellQuotas(bool is_asked) {
  const std::vector<Pid> pids = RecordedPids();
  sink_.AddMetadata(
      [&](MetadataWriter& writer) { quotas_.Look(pids, MonotonicNs(), is_asked, &writer); });
}

absl::Status RecordSession::Drain(int timeout_ms) {
  TakeMapNews();
  if (agents_ != nullptr) agents_->Drain();
  TakeSamples();
  TakeSystemRecords();
  absl::StatusOr<uint64_t> taken =
      programs_->Poll(timeout_ms, [this](std::span<const std::byte> record) { OnRecord(record); });
  if (patch_ != nullptr) {
    // Both sources have given all records up to `until_ns`, except those of a probe whose thread
    // was preempted for longer.
    const int64_t until_ns = std::min(patch_->emptied_until_ns(), MonotonicNs() - kMergeNs);
    patch_->Take([this](std::span<const std::byte> record) {
      abi::pt_record head{};
      std::memcpy(&head, record.data(), sizeof(head));
      Merge(record, RecordOrigin::kJump);
      // Modules were reported already when the ring was emptied.
      if (!IsBeforeBegin(head) && head.kind != abi::PT_PYTHON_MODULE) React(head, record);
    });
    KeepMerged(until_ns);
  }
  return taken.ok() ? sink_.status() : taken.status();
}

bool RecordSession::AnyTargetAlive() {
  if (options_.all) return true;
  for (const UniqueFd& fd : target_fds_) {
    pollfd poll_fd{fd.get(), POLLIN, 0};
    if (poll(&poll_fd, 1, 0) == 0) return true;
  }
  return false;
}

void RecordSession::SayMissing() {
  for (const std::string& what : processes_->TakeWarnings()) {
    if (callbacks_.on_missing) callbacks_.on_missing(what);
  }
}

void RecordSession::NoteStandstills(const std::string& when) {
  std::vector<Pid> pids = RecordedPids();
  // A whole host has too many processes to look at each one.
  if (pids.size() > kMostStandstillLooks) pids.resize(kMostStandstillLooks);
  for (const Pid pid : pids) {
    if (standstills_.contains(Raw(pid))) continue;
    const std::optional<Standstill> still = FindStandstill(pid);
    if (!still.has_value()) continue;
    standstills_[Raw(pid)] = still->sentence + "; as long as it stands still nothing of it is " +
                             "recorded (seen " + when + " of the recording)";
    if (callbacks_.on_missing) callbacks_.on_missing(standstills_[Raw(pid)]);
  }
}

void RecordSession::AddFailures(MetadataWriter* writer) const {
  const std::string why = sampler_ == nullptr ? "" : sampler_->failure();
  if (!why.empty()) writer->AddUnsupported({"samples from some moment on", why});
  const std::string names = reader_ == nullptr ? "" : reader_->failure();
  if (!names.empty()) {
    writer->AddUnsupported(
        {"names of autograd nodes and operators", names + " (some may be missing)"});
  }
  const uint64_t scripts = processes_ == nullptr ? 0 : processes_->unread_scripts();
  if (scripts > 0) {
    writer->AddUnsupported({kScriptsFeature, std::to_string(scripts) +
                                                 " places in graphs could not be read: the process "
                                                 "had ended, or there were too many at once"});
  }
}

std::optional<Unsupported> RecordSession::FindSilent(bool records_lost) {
  if (plain_ != nullptr) return std::nullopt;
  const std::optional<std::string> names =
      silent_.Describe(processes_->pids(), cost_.cpu_times(), processes_->unreached());
  if (!names.has_value()) return std::nullopt;
  Unsupported silent{"rows of processes that ran", WhySilent(*names, records_lost)};
  if (callbacks_.on_missing) callbacks_.on_missing(silent.reason);
  return silent;
}

void RecordSession::ReportProgress(int64_t now_ns) {
  Progress progress;
  progress.elapsed_s = ToSeconds(now_ns - info_.window.start_ns);
  progress.records = result_.records;
  progress.records_per_s = static_cast<double>(result_.records - last_progress_records_) /
                           std::max(1e-9, ToSeconds(now_ns - last_progress_ns_));
  progress.lost = programs_->ReadCounters().ring_lost - lost_before_start_;
  if (patch_ != nullptr) progress.lost += patch_->lost();
  if (system_ != nullptr) progress.lost += system_->lost() - system_lost_before_start_;
  if (const std::optional<RecordedSteps> steps = step_watch_->Find(); steps.has_value()) {
    const auto& [start_ns, end_ns] = steps->intervals.back();
    progress.step_ms = static_cast<double>(end_ns - start_ns) * 1e-6;
    progress.step_tid = steps->tid;
    if (AskedForSteps()) progress.steps = steps->intervals.size();
  }
  last_progress_ns_ = now_ns;
  last_progress_records_ = result_.records;
  callbacks_.on_progress(progress);
}

absl::Status RecordSession::Loop() {
  last_progress_ns_ = info_.window.start_ns;
  int64_t last_flush_ns = info_.window.start_ns;
  int64_t last_look_ns = info_.window.start_ns;
  while (!stop_.load(std::memory_order_relaxed)) {
    const int64_t now_ns = MonotonicNs();
    int timeout_ms = kPollMs;
    if (options_.duration_s.has_value()) {
      const double left_s = *options_.duration_s - ToSeconds(now_ns - info_.window.start_ns);
      if (left_s <= 0) break;
      timeout_ms = static_cast<int>(std::min<double>(timeout_ms, 1 + left_s * 1e3));
    }
    if (absl::Status status = Drain(timeout_ms); !status.ok()) return status;
    if (now_ns - last_flush_ns >= kFlushNs) {
      sink_.FlushBlock();
      sink_.FlushDeviceBlock();
      last_flush_ns = now_ns;
      SayMissing();
      result_.targets_ended = !AnyTargetAlive();
      if (result_.targets_ended) break;
      if (flight_ != nullptr) flight_->NoteLosses(now_ns, ReadLosses());
      if (flight_ != nullptr && options_.flight->WatchesSteps()) {
        if (const auto steps = step_watch_->Find()) flight_->OnSteps(*steps, now_ns);
      }
    }
    cost_.ReadCpuTimes(now_ns);
    if (now_ns >= next_clocks_ns_) TellClocks();
    if (quotas_.IsDue(now_ns)) TellQuotas(/*is_asked=*/false);
    KeepBudget(now_ns);
    if (flight_ != nullptr) TakeFlight(now_ns);
    if (options_.steps.has_value() && now_ns - last_look_ns >= kStepLookNs) {
      if (step_watch_->HasSurely(*options_.steps)) break;
      last_look_ns = now_ns;
    }
    if (callbacks_.on_progress && now_ns - last_progress_ns_ >= kProgressNs) ReportProgress(now_ns);
  }
  return absl::OkStatus();
}

void RecordSession::KeepBudget(int64_t now_ns) {
  if (budget_ == nullptr || !budget_->IsDue(now_ns)) return;
  cost_.cpu_times().Read(processes_->pids());
  const std::vector<BudgetNews> news = budget_->Look(now_ns, cost_.CostsOfHits());
  if (news.empty()) return;
  if (callbacks_.on_budget) {
    const double after_s = ToSeconds(now_ns - info_.window.start_ns);
    for (const BudgetNews& of_process : news) callbacks_.on_budget(of_process, after_s);
  }
  // The budget is written now, so that a recording that is killed has it, too.
  const Cost cost = cost_.Measure(now_ns - info_.window.start_ns, 0);
  const Budget budget = budget_->Describe(cost.estimated_overhead_percent);
  sink_.AddMetadata([&budget](MetadataWriter& writer) { writer.AddBudget(budget); });
}

void RecordSession::KeepSteps() {
  if (!AskedForSteps()) return;
  result_.steps = step_watch_->Find();
  if (!result_.steps.has_value() || !options_.steps.has_value()) return;
  std::vector<std::pair<int64_t, int64_t>>& intervals = result_.steps->intervals;
  if (intervals.size() < *options_.steps) return;  // the recording ended before that many steps
  intervals.resize(*options_.steps);
  info_.window.duration_ns = std::max<int64_t>(0, intervals.back().second - info_.window.start_ns);
}

Ledger RecordSession::ReadLosses() const {
  const KernelCounters counters = programs_->ReadCounters();
  Ledger ledger;
  ledger.ring_lost = counters.ring_lost - lost_before_start_;
  ledger.read_failed = counters.read_failed + names_->read_failed();
  if (patch_ != nullptr) {
    ledger.ring_lost += patch_->lost();
    ledger.read_failed += patch_->read_failed();
  }
  ledger.follow_failed = processes_->follow_failed() + counters.forks_lost;
  if (sampler_ != nullptr) {
    ledger.samples_lost = sampler_->lost();
    ledger.samples_unsteady = sampler_->unsteady();
  }
  if (system_ != nullptr) ledger.system_lost = system_->lost() - system_lost_before_start_;
  if (budget_ != nullptr) ledger.demoted = budget_->counted_calls();
  return ledger;
}

void RecordSession::TakeFlight(int64_t now_ns) {
  flight_->Look(now_ns);
  flight_->LookAtWall(MonotonicNs(), ClockNs(CLOCK_REALTIME));
  const bool is_dump_due = flight_->IsDue(now_ns);
  const bool is_summary_due = flight_->IsSummaryDue(now_ns);
  if (!is_dump_due && !is_summary_due) return;
  TellQuotas(/*is_asked=*/true);
  if (system_ != nullptr) {
    system_->TellOpen();
    TakeSystemRecords();
  }
  const uint64_t unnamed = sampler_ == nullptr ? 0 : sampler_->Settle(kLongestDumpWaitNs);
  TakeSamples();
  sink_.FlushBlock();
  sink_.FlushDeviceBlock();
  sink_.WaitUntilWritten();
  const Ledger losses = ReadLosses();
  flight_->NoteLosses(now_ns, losses);
  const Cost cost = cost_.Measure(now_ns - info_.window.start_ns, losses.ring_lost);
  if (is_dump_due && callbacks_.on_dump) {
    MetadataWriter words = FlightWords(cost, unnamed);
    callbacks_.on_dump(
        flight_->Take(now_ns, /*is_end=*/false, *keeper_, info_.window, cost, &words));
  }
  if (is_summary_due && callbacks_.on_summary) {
    MetadataWriter words = FlightWords(cost, unnamed);
    callbacks_.on_summary(flight_->TakeSummary(*keeper_, info_.window, cost, &words));
  }
}

MetadataWriter RecordSession::FlightWords(const Cost& cost, uint64_t unnamed) {
  MetadataWriter words;
  TellHost(ReadKernelClocks(), &words);
  for (const Unsupported& gap : processes_->gaps()) words.AddUnsupported(gap);
  if (unnamed > 0) {
    words.AddUnsupported({"samples", std::to_string(unnamed) +
                                         " had no names yet, as the symbols of a library were "
                                         "still being read; later dumps have names"});
  }
  AddFailures(&words);
  const bool has_agent = agents_ != nullptr && agents_->has_run();
  if (has_agent || processes_->has_cuda_calls()) words.AddGpu(has_agent ? "agent" : "launch");
  if (system_ != nullptr) {
    for (const Unsupported& gap : system_->gaps()) words.AddUnsupported(gap);
  }
  for (const Pid pid : RecordedPids()) {
    for (const ThreadEntry& thread : ReadThreads(pid)) words.AddThread(thread);
  }
  if (budget_ != nullptr) words.AddBudget(budget_->Describe(cost.estimated_overhead_percent));
  return words;
}

void RecordSession::Stop() {
  const int64_t end_ns = MonotonicNs();
  TellClocks();
  const std::vector<Pid> pids = RecordedPids();
  sink_.AddMetadata([&](MetadataWriter& writer) { quotas_.Finish(pids, MonotonicNs(), &writer); });
  cost_.EndWindow(end_ns);
  NoteStandstills("at the end");
  // The job goes on until the probes are out; its later steps do not count.
  if (step_watch_ != nullptr) step_watch_->EndAt(end_ns);
  processes_->OnWindowEnd(end_ns);
  if (budget_ != nullptr) budget_->Finish(end_ns);
  cost_.CutStretch();
  int64_t detached_ns = end_ns;
  const absl::Status status = TakeProbesOut(&detached_ns);
  SayMissing();
  processes_->CollectLastNames();
  reader_->Finish(kLastNamesNs);
  if (plain_ != nullptr) plain_->CollectLastNames();

  info_.window.duration_ns = end_ns - info_.window.start_ns;
  KeepSteps();
  info_.window.detach_s = ToSeconds(detached_ns - end_ns);
  const Ledger ledger = ReadLosses();
  const Cost cost = cost_.Measure(end_ns - info_.window.start_ns, ledger.ring_lost);
  if (budget_ != nullptr) result_.budget = budget_->Describe(cost.estimated_overhead_percent);
  WriteLastWords(cost, ledger);
  const absl::Status finished = sink_.Finish();
  result_.attached = plain_ != nullptr || processes_->operator_count() > 0;
  result_.status = status.ok() ? finished : status;
  if (result_.status.ok() && !result_.attached) result_.status = NothingRecorded();
  result_.ring_lost = ledger.ring_lost;
  result_.window = info_.window;
  result_.cost = cost;
  if (flight_ != nullptr) TakeLastDump(end_ns, cost, ledger);
}

absl::Status RecordSession::TakeProbesOut(int64_t* detached_ns) {
  absl::Status status = Drain(0);
  if (patch_ == nullptr) cost_.KeepStretch();
  if (!cost_.is_known_in_job() && status.ok() && AnyTargetAlive()) status = cost_.MeasureInJob();
  if (sampler_ != nullptr) sampler_->Stop();
  if (system_ != nullptr) system_->Stop();
  processes_->NoteMovedCode();
  processes_->Detach();
  *detached_ns = MonotonicNs();
  if (agents_ != nullptr) agents_->Stop();
  if (status.ok()) status = Drain(0);
  if (patch_ != nullptr) {
    KeepMerged(std::numeric_limits<int64_t>::max());
    cost_.KeepStretch();
    result_.code = patch_->code_status();
    if (callbacks_.on_left_behind) {
      for (const std::string& what : patch_->left_behind()) callbacks_.on_left_behind(what);
    }
  }
  return status.ok() ? cost_.MeasureAfter() : status;
}

void RecordSession::WriteLastWords(const Cost& cost, const Ledger& ledger) {
  const std::optional<Unsupported> silent = FindSilent(ledger.ring_lost > 0);
  const bool is_other_tier = NoteTier();
  sink_.AddMetadata([&](MetadataWriter& writer) {
    if (is_other_tier) writer.AddRecording(info_);
    if (silent.has_value()) writer.AddUnsupported(*silent);
    AddFailures(&writer);
    for (const auto& [pid, why] : standstills_)
      writer.AddUnsupported({"process at a standstill", why});
    AddGaps(&writer);
    if (result_.steps.has_value()) writer.AddSteps(*result_.steps);
    if (result_.budget.has_value()) writer.AddBudget(*result_.budget);
    writer.AddEnd(info_.window, cost, ledger);
  });
}

void RecordSession::AddGaps(MetadataWriter* writer) const {
  const bool has_agent = agents_ != nullptr && agents_->has_run();
  for (const Unsupported& gap : processes_->gaps()) {
    // The agents fill the gaps of processes that had probes at their calls before they had agents.
    const bool is_filled =
        has_agent && !agents_->has_missed() && gap.feature == kLaunchLevelFeature;
    if (!is_filled) writer->AddUnsupported(gap);
  }
  if (system_ != nullptr) {
    for (const Unsupported& gap : system_->gaps()) writer->AddUnsupported(gap);
  }
  if (patch_ != nullptr) {
    for (const Unsupported& gap : patch_->gaps()) writer->AddUnsupported(gap);
  }
  if (has_agent || processes_->has_cuda_calls()) writer->AddGpu(has_agent ? "agent" : "launch");
  if (agents_ != nullptr) {
    for (const Unsupported& gap : agents_->gaps()) writer->AddUnsupported(gap);
  }
}

void RecordSession::TakeLastDump(int64_t end_ns, const Cost& cost, const Ledger& ledger) {
  flight_->NoteLosses(end_ns, ledger);
  MetadataWriter words;
  if (result_.budget.has_value()) words.AddBudget(*result_.budget);
  result_.last_dump = flight_->Take(end_ns, /*is_end=*/true, *keeper_, info_.window, cost, &words);
  result_.window = result_.last_dump->window;
  result_.triggers_passed_over = flight_->passed_over();
}

absl::Status RecordSession::NothingRecorded() const {
  if (options_.all) {
    return Fail(ExitCode::kNoTorch,
                "no process that had loaded PyTorch was there to be recorded (-a)");
  }
  const absl::Status refusal = processes_->refusal();
  const ExitCode code = ExitCodeOf(refusal);
  if (code == ExitCode::kNotPermitted || code == ExitCode::kHostUnfit) {
    return WithoutEitherTier(
        Fail(code, "the command was not recorded: " + std::string(refusal.message())));
  }
  return Fail(ExitCode::kNoTorch, processes_->ended_early() > 0 ? kEndedTooEarly : kNeverLoaded);
}

}  // namespace proftrace
