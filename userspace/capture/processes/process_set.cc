#include "userspace/capture/processes/process_set.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "symbols/plan/process.h"
#include "symbols/plan/reduced_plan.h"
#include "symbols/plan/torch_copies.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/probe_memory.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/samples/python_stacks.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/patch/free_points.h"

namespace proftrace {
namespace {

constexpr std::chrono::milliseconds kAwaitInterval(50);
constexpr std::chrono::milliseconds kAwaitOwnInterval(5);
// How many looks for ended processes follow a lost record of an end: a process is there until its
// parent has waited for it.
constexpr uint32_t kLooksForEnded = 200;
// The time between two searches where the kernel does not report processes that load PyTorch.
constexpr int64_t kSearchIntervalNs = 1'000'000'000;
// The most processes that are recorded at once, which bounds the BPF programs' maps and our memory.
constexpr size_t kMostProcesses = 1024;
constexpr char kNoInputPrograms[] =
    "this kernel does not take the programs; Linux 5.17 or later is needed, or --tier patch";

constexpr char kNoRowInputs[] =
    "those of rows of at::RecordFunction, of custom Functions, and of operators and autograd nodes "
    "without a function are read by the kernel's probes";

absl::Status EndedEarly(Pid pid) {
  return Fail(ExitCode::kNoTarget,
              "PID " + std::to_string(Raw(pid)) + " ended before its probes were live");
}

bool Exists(Pid pid) { return kill(static_cast<pid_t>(Raw(pid)), 0) == 0 || errno == EPERM; }

}  // namespace

ProcessSet::ProcessSet(BpfPrograms* programs, Sampler* sampler, SystemPrograms* system, Jumps jumps,
                       CaptureSink* sink, TargetReader* reader, PlanOptions plan_options,
                       OnFollow on_follow, OnAwaited on_awaited, OnChange on_change)
    : programs_(programs),
      sampler_(sampler),
      system_(system),
      patch_(jumps.recorder),
      are_jumps_optional_(jumps.are_optional),
      sink_(sink),
      reader_(reader),
      plan_options_(std::move(plan_options)),
      on_follow_(std::move(on_follow)),
      on_awaited_(std::move(on_awaited)),
      on_change_(std::move(on_change)),
      schemas_(sink),
      modules_(sink),
      scripts_(sink, reader),
      plans_(programs, sink),
      operator_watch_(reader,
                      [this](Pid pid, const ProbePlan& plan, uint32_t image,
                             const std::vector<OperatorInfo>& added) {
                        AddLateOperators(pid, plan, image, added);
                      }),
      library_watch_(plan_options_.python_gc),
      left_on_probes_(std::move(jumps.left_out)) {
  // Planning is limited, because the other processes wait for it, and the end of the recording as
  // well.
  plan_options_.ShareWithOthers();
  plan_options_.stop = &stop_;
  // Later plans have no input probes where these cannot be read, so that they need not be taken out
  // again.
  plan_options_.record_shapes &= programs_->reads_inputs();
  follower_ = std::thread([this] { RunFollower(); });
}

ProcessSet::~ProcessSet() { Detach(); }

absl::Status ProcessSet::Trace(Pid pid) {
  absl::Status status = programs_->TraceProcess(pid);
  if (status.ok() && system_ != nullptr) status = system_->AddProcess(pid);
  return status;
}

absl::Status ProcessSet::Attach(Pid pid, ProbePlan plan) {
  if (absl::Status status = Trace(pid); !status.ok()) return status;
  return AttachImage(pid, std::move(plan), Arrival{});
}

void ProcessSet::Await(Pid pid) {
  const std::lock_guard lock(mutex_);
  awaited_[Raw(pid)] = Awaited{std::make_shared<LoadingProcess>(reader_)};
  changed_.notify_all();
}

void ProcessSet::OnTorchMapped(Pid pid) {
  if (Raw(pid) == static_cast<uint32_t>(getpid())) return;
  {
    const std::lock_guard lock(mutex_);
    if (processes_.contains(Raw(pid)) || awaited_.contains(Raw(pid))) return;
    if (refused_.contains(Raw(pid))) return;
    awaited_[Raw(pid)] = Awaited{std::make_shared<LoadingProcess>(reader_), /*has_torch=*/true};
    changed_.notify_all();
  }
  // The kernel must report the end of the process, too.
  if (absl::Status status = Trace(pid); !status.ok()) Refuse(pid, status);
}

void ProcessSet::LookForTorch(const TorchProcesses& found, bool again) {
  for (const Pid pid : found.pids) OnTorchMapped(pid);
  const std::lock_guard lock(mutex_);
  looks_for_torch_ = again;
  if (again) {
    gaps_.push_back(Unsupported{"start of processes",
                                "this kernel does not tell of processes that load PyTorch: they "
                                "are looked for once a second"});
  }
  if (found.closed > 0) {
    gaps_.push_back(Unsupported{"processes", WhyClosed(found.closed, geteuid() == 0)});
  }
}

absl::Status ProcessSet::AwaitOwn(Pid pid) {
  if (absl::Status status = Trace(pid); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    holds_awaited_ = true;
  }
  Await(pid);
  return absl::OkStatus();
}

absl::Status ProcessSet::AttachImage(Pid pid, ProbePlan plan, Arrival arrival,
                                     StoppedThreads* held) {
  uint32_t image;
  if (!programs_->reads_inputs()) RemoveInputs(kNoInputPrograms, &plan);
  if (!programs_->is_loaded()) RemoveRowInputs(kNoRowInputs, &plan);
  {
    const std::lock_guard lock(mutex_);
    image = next_image_++;
    AddGaps(plan);
  }
  absl::StatusOr<uint32_t> plan_id = plans_.Add(&plan);
  if (!plan_id.ok()) return plan_id.status();
  WriteOperators(image, plan.operators);
  const auto shared = std::make_shared<const ProbePlan>(std::move(plan));
  absl::Status status = AttachWithPlan(pid, shared, *plan_id, image, arrival, held);
  if (status.ok()) schemas_.Request(pid, shared, image);
  return status;
}

void ProcessSet::AddLibraries(Pid pid) {
  on_change_(pid, Pid{});
  // This is done at once, because the second PyTorch counts its own sequence numbers, and a plan
  // may take a second.
  if (HasRepeatedTorch(pid)) {
    programs_->RemoveAutogradLayout(pid);
    if (patch_ != nullptr) patch_->RemoveAutogradLayout(pid);
  }
  PlanOptions options = plan_options_;
  if (HasAgent(pid)) options.cuda_calls = CudaCalls::kNever;
  absl::StatusOr<ProbePlan> now = BuildProbePlan(pid, options);
  if (!now.ok()) return;
  PlanRegistry::Extended extended;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return;
    AddGaps(*now);
    extended = plans_.Extend(it->second.plan_id, *it->second.plan, *now);
    if (extended.plan == nullptr) return;
    // The plan is set before the first record comes, and for children that are forked from here on.
    it->second.plan = extended.plan;
    ++late_libraries_;
  }
  if (patch_ != nullptr) {
    extended.added = patch_->Extend(pid, extended.plan, std::move(extended.added));
  }
  ProcessLinks links;
  AttachReport report;
  // Probes that went in stay also where others of the library failed.
  const absl::Status status = AttachModules(pid, *extended.plan, extended.added, &links, &report);
  const std::lock_guard lock(mutex_);
  AddMissing(pid, report);
  if (!status.ok() && ExitCodeOf(status) != ExitCode::kNoTarget) {
    gaps_.push_back(
        Unsupported{"libraries that were loaded while recording",
                    "PID " + std::to_string(Raw(pid)) + ": " + std::string(status.message())});
  }
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  it->second.links.Add(std::move(links));
}

void ProcessSet::WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators) {
  std::vector<OperatorEntry> entries;
  entries.reserve(operators.size());
  for (const OperatorInfo& info : operators) {
    entries.push_back(OperatorEntry{info.address, info.name, info.overload_name, ""});
  }
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddOperators(image, entries); });
}

void ProcessSet::AddLateOperators(Pid pid, const ProbePlan& plan, uint32_t image,
                                  const std::vector<OperatorInfo>& added) {
  WriteOperators(image, added);
  schemas_.Collect(pid, plan, image, added);
  (void)AddAnnotationOperators(programs_, pid, plan,
                               added);  // a full map costs annotations, not the recording
  if (patch_ != nullptr) patch_->AddOperators(pid, plan, added);
}

absl::Status ProcessSet::AttachWithPlan(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                        uint32_t plan_id, uint32_t image, Arrival arrival,
                                        StoppedThreads* held) {
  if (!HasProgram(pid)) return EndedEarly(pid);
  ProcessEntry entry;
  entry.plan = plan_id;
  entry.image = image;
  entry.target = DescribeProcess(pid);
  entry.target.torch_version = plan->torch_version;
  entry.target.torch_build_id = plan->torch_build_id;
  if (!plan->python_version.empty()) entry.target.python_version = plan->python_version;
  entry.target.followed = arrival.followed;
  entry.target.could_run_ns = arrival.could_run_ns;
  {
    const std::lock_guard lock(mutex_);
    if (processes_.size() >= kMostProcesses) {
      return Fail(ExitCode::kHostUnfit, "no more than " + std::to_string(kMostProcesses) +
                                            " processes are recorded at once");
    }
  }
  // Jumps take at least as much memory as probes. What they take in addition is checked when their
  // places are known.
  absl::Status prepared = CheckProbeMemory(pid, plan->modules);
  if (prepared.ok()) prepared = PrepareMaps(programs_, pid, *plan);
  if (!prepared.ok()) {
    programs_->ForgetProcess(pid);
    return prepared;
  }
  PrepareWaits(system_, pid);
  if (programs_->wants_stacks() || sampler_ != nullptr) {
    std::vector<Unsupported> gaps;
    const auto scripts = scripts_.Prepare(programs_, pid, image, plan, &gaps);
    PrepareStacks(programs_, IsLeftOnProbes(pid) ? nullptr : patch_, scripts, &modules_, sampler_,
                  pid, &entry.target, &gaps);
    const std::lock_guard lock(mutex_);
    for (Unsupported& gap : gaps) AddGap(std::move(gap));
  }

  // The process is entered before its first record comes, so that names can be resolved.
  {
    const std::lock_guard lock(mutex_);
    Process& process = processes_[Raw(pid)];
    process.image = image;
    process.plan_id = plan_id;
    process.plan = plan;
    process.links = {};
    process.has_maps = true;
  }
  closer_.Postpone();
  ProcessLinks links;
  AttachReport report;
  entry.target.probes_begin_ns = MonotonicNs();
  const absl::StatusOr<std::vector<ModulePlan>> modules =
      PutJumps(pid, plan, arrival.followed, held);
  absl::Status status = modules.status();
  if (status.ok()) status = AttachModules(pid, *plan, *modules, &links, &report);
  entry.target.probes_on_ns = MonotonicNs();
  const bool has_ended = !HasProgram(pid);
  if (status.ok() && has_ended) status = EndedEarly(pid);
  if (status.ok()) {
    entry.target.operator_count = plan->operator_count;
    entry.target.inputs_recorded = plan->has_input_probes;
    entry.target.memory_recorded = plan->has_memory_probes && !RefusesMemory(*plan, report);
  }
  // The entry is written also for a process that ended meanwhile: it says that the records of its
  // first probes came before this moment, outside the window.
  sink_->AddMetadata([&entry](MetadataWriter& writer) { writer.AddProcess(entry); });
  // Where attaching to a living process has failed, destructors close its links at once, because
  // the process goes on or runs another program.
  if (has_ended) closer_.Close(links.TakeAll());
  if (!status.ok()) return status;
  operator_watch_.Add(pid, image, plan);
  library_watch_.Add(pid, *plan);
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnLive(pid, entry.target.probes_on_ns);
  AddMissing(pid, report);
  if (operator_count_ == 0) operator_count_ = plan->operator_count;
  processes_[Raw(pid)].links = std::move(links);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ModulePlan>> ProcessSet::PutJumps(Pid pid,
                                                             std::shared_ptr<const ProbePlan> plan,
                                                             bool followed, StoppedThreads* held) {
  if (patch_ != nullptr && !IsLeftOnProbes(pid)) {
    absl::StatusOr<std::vector<ModulePlan>> left = patch_->Attach(pid, plan, held);
    const bool has_probes = programs_->is_loaded();
    if (left.ok() || !has_probes) return left;
    if (IsPatchedByAnother(pid)) {
      NoteAnothersJumps(pid, *plan);
      return plan->modules;
    }
    if ((!followed && !are_jumps_optional_) || !HasFiles(pid, *plan)) return left;
    // A process that may be recorded without jumps, as a child may, is recorded by probes.
    const std::lock_guard lock(mutex_);
    if (jumps_refused_.empty()) jumps_refused_ = std::string(left.status().message());
    AddGap({"jumps in the job's code",
            "PID " + std::to_string(Raw(pid)) +
                " is recorded by the kernel's probes: " + std::string(left.status().message())});
  }
  // Jumps that a killed run has left, or that a fork has from its parent, are taken out first.
  if (HasPatches(pid)) {
    const absl::StatusOr<bool> cleaned = RemoveLeftPatches(pid);
    if (!cleaned.ok() && !IsPatchedByAnother(pid)) return cleaned.status();
    if (!cleaned.ok()) NoteAnothersJumps(pid, *plan);
  }
  return plan->modules;
}

bool ProcessSet::IsLeftOnProbes(Pid pid) {
  const std::lock_guard lock(mutex_);
  if (left_on_probes_.contains(Raw(pid))) return true;
  if (left_on_probes_.empty() || !left_on_probes_.contains(Raw(ReadParent(pid)))) return false;
  left_on_probes_.insert(Raw(pid));
  return true;
}

std::optional<uint32_t> ProcessSet::ImageOf(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return std::nullopt;
  return it->second.image;
}

std::optional<Label> ProcessSet::SiteLabel(Pid pid, uint16_t site) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end() || site >= it->second.plan->sites.size()) return std::nullopt;
  return it->second.plan->sites[site].label;
}

LinkSet ProcessSet::Forget(Pid pid) {
  LinkSet links;
  bool has_maps;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return links;
    has_maps = it->second.has_maps;
    links = it->second.links.TakeAll();
    processes_.erase(it);
    operator_watch_.Remove(pid);
    library_watch_.Remove(pid);
  }
  // The entries must go before another process gets its number.
  if (has_maps) programs_->ForgetProcess(pid);
  if (sampler_ != nullptr) sampler_->RemoveProcess(pid);
  if (patch_ != nullptr) patch_->Forget(pid);
  scripts_.Forget(pid);
  return links;
}

bool ProcessSet::TryAwaited(Pid pid, LoadingProcess* loading) {
  if (!Exists(pid)) return true;
  const absl::StatusOr<bool> is_ready = loading->IsReady(pid, plan_options_, holds_awaited_);
  absl::Status status = is_ready.status();
  if (is_ready.ok()) {
    if (!*is_ready) return false;
    bool is_taken = true;
    const auto attach = [&](StoppedThreads* held) {
      absl::StatusOr<std::optional<ProbePlan>> taken = loading->TakePlan(pid, plan_options_);
      status = taken.status();
      is_taken = !taken.ok() || taken->has_value();
      if (!taken.ok() || !is_taken) return;
      ProbePlan plan = **std::move(taken);
      const uint32_t operators = plan.operator_count;
      if (holds_awaited_) plan.operators = ReadOperators(pid, plan);
      // A process that was held has missed nothing.
      const int64_t could_run_ns = holds_awaited_ ? 0 : loading->could_run_ns();
      status = AttachImage(pid, std::move(plan), {/*followed=*/true, could_run_ns}, held);
      if (status.ok() && could_run_ns != 0) {
        const int64_t live_ns = MonotonicNs();
        const std::lock_guard lock(mutex_);
        late_loads_.Add(pid, could_run_ns, live_ns);
      }
      if (status.ok() && on_awaited_) on_awaited_(pid, operators);
    };
    if (holds_awaited_) {
      StoppedThreads::WhileHeld(pid, attach);
    } else {
      attach(nullptr);
    }
    if (!is_taken) return false;
    if (status.ok()) on_change_(pid, Pid{});
    // Children that the process forked before the kernel reported its forks are recorded, too.
    if (status.ok()) FollowForks(pid);
  }
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    awaited_.erase(Raw(pid));
    return true;
  }
  (void)Forget(pid);
  if (Exists(pid) && ExitCodeOf(status) != ExitCode::kNoTarget) Refuse(pid, status);
  return true;
}

// The caller holds the lock.
void ProcessSet::EndAwaiting(Pid pid) {
  const auto it = awaited_.find(Raw(pid));
  if (it == awaited_.end()) return;
  if (it->second.has_torch) ++ended_early_;
  awaited_.erase(it);
}

void ProcessSet::TryAllAwaited() {
  std::map<uint32_t, Awaited> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates = awaited_;
  }
  // Begins behind the process that was looked at last, so that each has its turn.
  const auto next = candidates.upper_bound(last_tried_);
  std::vector<std::pair<uint32_t, Awaited>> in_turn(next, candidates.end());
  in_turn.insert(in_turn.end(), candidates.begin(), next);
  for (auto& [pid, awaited] : in_turn) {
    last_tried_ = pid;
    const bool done = TryAwaited(Pid{pid}, awaited.loading.get());
    const std::lock_guard lock(mutex_);
    const auto it = awaited_.find(pid);
    if (it != awaited_.end() && it->second.loading == awaited.loading) {
      it->second.has_torch |= awaited.loading->has_torch();
      it->second.could_run |= awaited.loading->could_run_ns() != 0;
      if (done) EndAwaiting(Pid{pid});
    }
    if (stop_ || !tasks_.empty()) return;  // forks come first
  }
}

void ProcessSet::LookForMore() {
  const int64_t now_ns = MonotonicNs();
  {
    const std::lock_guard lock(mutex_);
    if (!looks_for_torch_ || now_ns - last_search_ns_ < kSearchIntervalNs) return;
    last_search_ns_ = now_ns;
  }
  for (const Pid pid : FindTorchProcesses().pids) OnTorchMapped(pid);
}

void ProcessSet::ForgetEnded() {
  const uint64_t lost = programs_->ReadCounters().exits_lost;
  if (lost != exits_lost_) looks_for_ended_ = kLooksForEnded;
  exits_lost_ = lost;
  if (looks_for_ended_ == 0) return;
  --looks_for_ended_;
  std::vector<Pid> known;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pid, process] : processes_) known.push_back(Pid{pid});
  }
  for (const Pid pid : known) {
    if (Exists(pid)) continue;
    closer_.Close(Forget(pid));
    const std::lock_guard lock(mutex_);
    unprobed_forks_.OnExit(pid, MonotonicNs());
  }
}

void ProcessSet::RunFollower() {
  std::unique_lock lock(mutex_);
  int64_t next_look_ns = 0;
  while (!stop_) {
    const auto ready = [this] { return stop_ || !tasks_.empty(); };
    const auto interval = holds_awaited_ && !awaited_.empty() ? kAwaitOwnInterval : kAwaitInterval;
    changed_.wait_for(lock, interval, ready);
    if (stop_) break;
    // Looks are made also while a job forks all the time.
    if (tasks_.empty() || MonotonicNs() >= next_look_ns) {
      lock.unlock();
      ForgetEnded();
      LookForMore();
      TryAllAwaited();
      operator_watch_.Look();
      library_watch_.Look([this](Pid pid) { AddLibraries(pid); });
      next_look_ns =
          MonotonicNs() + std::chrono::duration_cast<std::chrono::nanoseconds>(interval).count();
      lock.lock();
      if (stop_ || tasks_.empty()) continue;
    }
    const Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    switch (task.kind) {
      case TaskKind::kFork:
        FollowFork(task);
        break;
      case TaskKind::kExec:
        FollowExec(task.pid);
        break;
      case TaskKind::kExit:
        closer_.Close(Forget(task.pid));
        break;
      case TaskKind::kRemoveProbes:
        FollowRemoval(task.pid);
        break;
    }
    lock.lock();
  }
}

void ProcessSet::Detach() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (follower_.joinable()) follower_.join();
  if (patch_ != nullptr) patch_->Detach();

  std::vector<LinkSet> links;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [pid, process] : processes_) links.push_back(process.links.TakeAll());
  }
  if (programs_->api() != UprobeApi::kPerf) return;
  // The kernel removes perf events one by one, a tenth of a second each (it waits for readers of
  // the tracepoint under one lock): they are left to the end of this process, after the results are
  // written.
  programs_->StopRecording();
  for (LinkSet& set : links) {
    for (ProbeLink& link : set) link.Abandon();
  }
}

void ProcessSet::CollectLastNames() {
  operator_watch_.Look();
  schemas_.Finish();
  modules_.Finish();
  const std::string why = modules_.failure();
  if (const uint64_t count = modules_.not_read(); count > 0 && why.empty()) {
    AddGap({"modules", std::to_string(count) +
                           " were told of faster than their places in their models can be looked "
                           "for: they have none"});
  }
  if (!why.empty()) {
    AddGap({"modules from some moment on",
            why + " (" + std::to_string(modules_.not_read()) + " of them have no place)"});
  }
  for (const auto& [raw_pid, process] : processes_) {
    const Pid pid{raw_pid};
    if (process.plan != nullptr) schemas_.CollectJob(pid, *process.plan);
    for (const ThreadEntry& thread : ReadThreads(pid)) {
      sink_->AddMetadata([&thread](MetadataWriter& writer) { writer.AddThread(thread); });
    }
  }
}

}  // namespace proftrace
