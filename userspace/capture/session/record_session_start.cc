#include "userspace/capture/session/record_session.h"

#include <malloc.h>
#include <sys/poll.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "symbols/plan/host_identity.h"
#include "symbols/process/memory_room.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/capture/targets/target_words.h"
#include "userspace/inject/trace_permission.h"

// How a recording begins: plans, programs, probes.

namespace proftrace {
namespace {

constexpr int kStartPollMs = 20;
// torch's import registers its operators within two seconds; on a busy host it takes longer.
constexpr int64_t kLongestImportNs = 10'000'000'000;
constexpr int64_t kImportPollNs = 100'000'000;
// How long before --start-at attaching begins. It takes less, except for many processes.
constexpr int64_t kAttachLeadNs = 2'000'000'000;
// The first stacks of a job of PyTorch take a fifth of a second of CPU time, later ones next to
// none.
constexpr int64_t kSamplerLeadNs = 300'000'000;
constexpr int64_t kAgentLeadNs = kAttachLeadNs + 6'000'000'000;
// How long a flight recorder waits for records after an event, until the ring is empty. With agents
// or samples it waits for kLateSettleNs, until agents have handed over their records, and samples
// have their names.
constexpr int64_t kSettleNs = 300'000'000;
// The memory that this program needs beside the rings: for the analysis of a libtorch, or for the
// programs and the results of some seconds (190 and 140 MiB were seen).
constexpr uint64_t kOwnMemoryBytes = 190 << 20;
constexpr uint64_t kOwnMemoryWithoutOperatorsBytes = 64 << 20;
constexpr uint32_t kSmallestFittedRing = 1 << 20;
// The least that --flight-recorder-memory takes.
constexpr uint64_t kSmallestFittedFlight = 16 << 20;
constexpr int64_t kLateSettleNs = 1'000'000'000;

Host DescribeHost() {
  utsname name{};
  uname(&name);
  HostIdentity identity = ReadHostIdentity();
  return Host{name.nodename, name.release, static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN)),
              std::move(identity.boot_id), std::move(identity.machine_id_hash)};
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

// Returns the option that asked for something that jumps do not record; empty where there is none.
std::string AskedOfBpf(const RecordOptions& options) {
  if (options.info.system.any()) return "--activities " + options.info.system.ToText();
  if (options.sample_period_ns.has_value()) return "--sample";
  return "";
}

// Fails for processes without a program. A process with a program has a thread with memory: it has
// not ended, and is no thread of the kernel.
absl::Status CheckPrograms(const std::vector<Pid>& pids) {
  for (const Pid pid : pids) {
    const std::vector<ThreadEntry> threads = ReadThreads(pid);
    const bool has_program =
        std::any_of(threads.begin(), threads.end(), [](const ThreadEntry& thread) {
          const auto mappings = ReadMaps(Pid{Raw(thread.tid)});
          return !mappings.ok() || !mappings->empty();
        });
    if (has_program) continue;
    return Fail(ExitCode::kNoTarget,
                "PID " + std::to_string(Raw(pid)) + " has ended, or is a thread of the kernel");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordSession::PlanTargets() {
  std::vector<Pid> all = options_.pids;
  all.insert(all.end(), options_.awaited.begin(), options_.awaited.end());
  for (const Pid pid : all) {
    absl::StatusOr<UniqueFd> fd = OpenPidfd(pid);
    if (!fd.ok()) return fd.status();
    target_fds_.push_back(*std::move(fd));
  }
  if (!options_.info.system.operators) return CheckPrograms(options_.pids);
  const std::vector<Pid> found = options_.all ? FindTorchProcesses().pids : std::vector<Pid>();
  const std::vector<Pid> children = FindChildrenWithTorch();
  if (agents_ != nullptr) agents_->Start(options_.all ? found : options_.pids, children);
  for (const Pid pid : options_.pids) plans_.emplace_back(pid, PlanTarget(pid));
  const bool any = std::any_of(plans_.begin(), plans_.end(),
                               [](const auto& target) { return target.second.ok(); });
  if (!any && !plans_.empty()) return plans_.front().second.status();
  // A forked child gets no plan here: it is attached to with its parent's plan.
  child_plans_ = PlanTogether(WithoutForks(children, options_.pids));
  for (auto& [pid, plan] : PlanTogether(WithoutForks(found, {}))) {
    // A process that is in the middle of its import is looked at again later
    // (ProcessSet::OnTorchMapped).
    if (plan.ok() && IsRegistering(*plan)) plan = Fail(ExitCode::kNoTorch, "it is being imported");
    plans_.emplace_back(Pid{pid}, std::move(plan));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProbePlan> RecordSession::PlanTarget(Pid pid) {
  // This is checked before the analysis, which needs no such right and may take long.
  if (options_.tier == Tier::kPatch) {
    if (absl::Status status = CheckTraceable(pid); !status.ok()) return status;
  }
  absl::StatusOr<ProbePlan> plan = PlanRunning(pid, HasAgent(pid));
  if (!plan.ok()) return plan;
  if (absl::Status status = AwaitOperators(pid, &plan); !status.ok()) return status;
  return plan;
}

// Waits until torch's libraries have registered their operators. In a plan that is made before,
// names and schemas would be guessed, for the whole recording.
absl::Status RecordSession::AwaitOperators(Pid pid, absl::StatusOr<ProbePlan>* plan) {
  if (!IsRegistering(**plan)) return absl::OkStatus();
  const int64_t deadline_ns = MonotonicNs() + kLongestImportNs;
  std::optional<uint64_t> last;
  bool is_said = false;
  while (IsRegistering(**plan) && MonotonicNs() < deadline_ns &&
         !stop_.load(std::memory_order_relaxed)) {
    if (absl::Status status = WaitUntil(MonotonicNs() + kImportPollNs); !status.ok()) {
      return status;
    }
    // The Dispatcher cannot be found before its library's initialisers have run, so the plan is
    // made anew.
    const uint64_t now = AskLastOperator(reader_.get(), pid, /*image=*/0, **plan);
    if (now == 0 || std::exchange(last, now) != now) *plan = PlanRunning(pid, HasAgent(pid));
    if (!plan->ok()) return plan->status();
    // An import that has just ended looks like one under way until it is looked at again, so this
    // is said only after that.
    if (!std::exchange(is_said, true) && IsRegistering(**plan) && callbacks_.on_import) {
      callbacks_.on_import(pid);
    }
  }
  if (!IsRegistering(**plan)) return absl::OkStatus();
  (*plan)->gaps.push_back({"names of operators",
                           "the process has registered only a part of them, or none that could be "
                           "read: the others' names are guessed from their functions"});
  return absl::OkStatus();
}

bool RecordSession::HasAgent(Pid pid) { return agents_ != nullptr && agents_->IsRunning(pid); }

absl::StatusOr<ProbePlan> RecordSession::PlanRunning(Pid pid, bool has_agent) const {
  PlanOptions plan = options_.plan;
  plan.stop = &stop_;
  if (options_.all) plan.ShareWithOthers();
  // With an agent, CUPTI reports CUDA's calls.
  if (has_agent) plan.cuda_calls = CudaCalls::kNever;
  absl::StatusOr<ProbePlan> made = PlanProcess(pid, plan);
  if (made.ok()) made->has_agent = has_agent;
  // With -a the process's descendants are found anyway.
  if (!made.ok() && !options_.all) return NameTorchDescendants(pid, made.status(), options_.pids);
  return made;
}

absl::Status RecordSession::WaitUntil(int64_t time_ns) {
  absl::Status status;
  while (status.ok() && !stop_.load(std::memory_order_relaxed)) {
    const int64_t left_ns = time_ns - MonotonicNs();
    if (left_ns <= 0) break;
    const int wait_ms = static_cast<int>(std::min<int64_t>(kStartPollMs, left_ns / 1'000'000 + 1));
    if (programs_ != nullptr) {
      status = Drain(wait_ms);
    } else {
      poll(nullptr, 0, wait_ms);
    }
  }
  return status;
}

absl::Status RecordSession::FitOwnMemory() {
  const std::optional<MemoryRoom> room = ReadMemoryRoom(Pid{static_cast<uint32_t>(getpid())});
  if (!room.has_value()) return absl::OkStatus();
  const uint64_t rings = 1 + (options_.info.system.any() ? 1 : 0) +
                         (options_.sample_period_ns.has_value() || options_.samples_wakers ? 1 : 0);
  const uint64_t own =
      options_.info.system.operators ? kOwnMemoryBytes : kOwnMemoryWithoutOperatorsBytes;
  const uint64_t least_flight = std::min<uint64_t>(flight_bytes_, kSmallestFittedFlight);
  const auto needed = [&] { return own + rings * ring_bytes_ + least_flight; };
  while (ring_bytes_ > kSmallestFittedRing && needed() > room->bytes) ring_bytes_ /= 2;
  if (needed() > room->bytes) {
    return Fail(ExitCode::kHostUnfit,
                "proftrace itself has " + std::to_string(room->bytes >> 20) +
                    " MiB left within the limit of its control group (" + room->limit_file +
                    ") and needs " + std::to_string((needed() >> 20) + 1) +
                    " MiB: nothing was attached to; raise that limit, or start proftrace outside "
                    "of that container");
  }
  const auto note = [&](const char* option, uint64_t bytes, uint64_t wanted, const char* then) {
    const std::string reason = "the limit of proftrace's own control group (" + room->limit_file +
                               ") has room for " + std::to_string(bytes >> 20) + " MiB only, not " +
                               std::to_string(wanted >> 20) + ": " + then;
    sink_.AddMetadata([&](MetadataWriter& writer) {
      writer.AddUnsupported(Unsupported{option, reason});
    });
  };
  if (ring_bytes_ != options_.bpf.ring_bytes) {
    note("--buffer-size", ring_bytes_, options_.bpf.ring_bytes,
         "more may be lost where much comes at once");
  }
  const uint64_t left = room->bytes - needed() + least_flight;
  if (flight_bytes_ > left) {
    note("--flight-recorder-memory", left, flight_bytes_, "dumps may begin later");
    flight_bytes_ = left;
    keeper_->LowerLimit(left);
  }
  return absl::OkStatus();
}

absl::Status RecordSession::LoadPrograms() {
  if (!ReadTimeNamespaceOffsetNs().has_value()) {
    return Fail(
        ExitCode::kHostUnfit,
        "proftrace has a time namespace for its children that is not its own, so that its "
        "clock cannot be compared with the kernel's; start it by 'unshare --time --fork', or "
        "outside of the namespace");
  }
  BpfOptions bpf = options_.bpf;
  bpf.ring_bytes = ring_bytes_;
  bpf.beside_jumps = puts_jumps_;
  absl::Status refused;
  if (options_.without_bpf) {
    without_bpf_ = "it was not to be used (--no-bpf)";
    refused = Fail(ExitCode::kUsage, without_bpf_);
  } else {
    absl::StatusOr<std::unique_ptr<BpfPrograms>> programs = BpfPrograms::Load(bpf);
    if (programs.ok()) {
      programs_ = *std::move(programs);
      return absl::OkStatus();
    }
    refused = programs.status();
    if (options_.tier == Tier::kBpf) {
      if (ExitCodeOf(refused) != ExitCode::kNotPermitted) return refused;
      return Fail(ExitCode::kNotPermitted, std::string(refused.message()) +
                                               "; a running job of one's own can be recorded "
                                               "without: -p PID --tier patch");
    }
    without_bpf_ = std::string(refused.message());
  }
  if (const std::string asked = AskedOfBpf(options_); !asked.empty()) {
    return Fail(ExitCodeOf(refused), asked + " needs eBPF: " + without_bpf_);
  }
  programs_ = BpfPrograms::WithoutKernel(bpf);
  sink_.AddMetadata([this](MetadataWriter& writer) {
    writer.AddUnsupported({"eBPF", without_bpf_});
  });
  return absl::OkStatus();
}

std::unique_ptr<ProcessSet> RecordSession::MakeProcesses() {
  ProcessCallbacks told{callbacks_.on_follow, callbacks_.on_awaited, [this](Pid pid, Pid parent) {
                          if (agents_ != nullptr) agents_->Consider(pid, parent);
                        }};
  return std::make_unique<ProcessSet>(
      ProcessParts{programs_.get(), &sink_, reader_.get(), sampler_.get(), system_.get()},
      JumpOptions{patch_.get(), /*are_optional=*/options_.tier == Tier::kAuto, stay_on_probes_},
      options_.plan, std::move(told));
}

absl::Status RecordSession::LoadActivities() {
  if (options_.sample_period_ns.has_value() || options_.samples_wakers) {
    absl::StatusOr<std::unique_ptr<SamplePrograms>> samples =
        SamplePrograms::Load(options_.samples_wakers);
    if (!samples.ok()) return samples.status();
    sampler_ =
        std::make_unique<Sampler>(*std::move(samples), options_.sample_period_ns.value_or(0));
  }
  if (options_.info.system.any()) {
    absl::StatusOr<std::unique_ptr<SystemPrograms>> system = SystemPrograms::Load(
        {options_.info.system, options_.bpf.follow_children, ring_bytes_, options_.awaited});
    if (!system.ok()) return system.status();
    system_ = *std::move(system);
  }
  return absl::OkStatus();
}

absl::Status RecordSession::AttachPlain() {
  plain_ = std::make_unique<PlainProcesses>(programs_.get(), system_.get(), sampler_.get(), &sink_);
  if (options_.all) return plain_->AddHost();
  std::vector<Pid> all = options_.pids;
  all.insert(all.end(), options_.awaited.begin(), options_.awaited.end());
  for (const Pid pid : all) {
    absl::Status status = plain_->Add(pid, options_.bpf.follow_children);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RecordSession::AttachTargets() {
  if (!options_.info.system.operators) return AttachPlain();
  if (options_.all) {
    AttachHost();
    return absl::OkStatus();
  }
  // A process that cannot be recorded is named; the others are recorded all the same.
  std::vector<Pid> attached;
  std::vector<std::pair<size_t, absl::Status>> refused;  // indices into `plans_`
  for (size_t i = 0; i < plans_.size(); ++i) {
    auto& [pid, plan] = plans_[i];
    absl::Status status = plan.status();
    if (status.ok()) status = processes_->Attach(pid, *std::move(plan));
    if (status.ok()) {
      attached.push_back(pid);
    } else {
      refused.emplace_back(i, std::move(status));
    }
  }
  if (attached.empty() && !refused.empty()) return refused.front().second;
  for (size_t left = refused.size(); left-- > 0;) {
    const auto& [index, why] = refused[left];
    processes_->Refuse(plans_[index].first, why);
    // The recording must not wait for the end of a refused process.
    target_fds_.erase(target_fds_.begin() + static_cast<std::ptrdiff_t>(index));
    if (callbacks_.on_refused) callbacks_.on_refused(plans_[index].first, why);
  }
  if (absl::Status status = AttachDescendants(attached); !status.ok()) return status;
  for (const Pid pid : options_.awaited) {
    if (absl::Status status = processes_->AwaitOwn(pid); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Attaches to the processes of the host. A process that cannot be recorded is named; the others are
// recorded all the same.
void RecordSession::AttachHost() {
  for (auto& [pid, plan] : plans_) {
    absl::Status status = plan.status();
    if (status.ok()) status = processes_->Attach(pid, *std::move(plan));
    if (status.ok()) {
      processes_->FollowForks(pid);
    } else if (ExitCodeOf(status) != ExitCode::kNoTorch &&
               ExitCodeOf(status) != ExitCode::kNoTarget) {
      processes_->Refuse(pid, status);
    }
  }
  processes_->LookForTorch(FindTorchProcesses(), /*again=*/map_watch_ == nullptr);
}

absl::Status RecordSession::Start() {
  // This goes into the first block, so that a recording that ends early has at least this.
  info_ = options_.info;
  info_.host = DescribeHost();
  info_.window.monotonic_to_unix_ns = MonotonicToUnixNs();
  sink_.AddMetadata([this](MetadataWriter& writer) { writer.AddRecording(info_); });
  if (absl::Status status = FitOwnMemory(); !status.ok()) return status;
  // The worker is forked while this process is small, so that its copy is small, too.
  reader_ = std::make_unique<TargetReader>("proftrace-names", "reads names of recorded processes",
                                           ReadTargetWords);
  if (options_.info.system.operators) reader_->Start();
  const int64_t start_ns = options_.start_unix_ns.value_or(0) - MonotonicToUnixNs();
  if (absl::Status status = PlanInTime(start_ns); !status.ok()) return status;
  if (absl::Status status = LoadSources(); !status.ok()) return status;
  if (absl::Status status = PutProbesIn(); !status.ok()) return status;
  if (absl::Status status = StartSampler(); !status.ok()) return status;
  if (agents_ != nullptr) agents_->BeginWindow();
  const int64_t attached_ns = MonotonicNs();
  if (absl::Status status = AwaitStart(start_ns, attached_ns); !status.ok()) return status;
  // A signal may have ended the wait.
  const int64_t ready_ns = std::max(attached_ns, std::min(start_ns, MonotonicNs()));
  MakeObservers(ready_ns);
  if (absl::Status status = BeginWindow(ready_ns, attached_ns); !status.ok()) return status;
  SayReady();
  processes_->OnReady(ready_ns);
  return absl::OkStatus();
}

absl::Status RecordSession::PlanInTime(int64_t start_ns) {
  if (options_.agent.has_value()) {
    if (options_.start_unix_ns.has_value()) {
      // Errors of the targets are reported now. The agents are started only shortly before the
      // window, because they record from their start on.
      if (absl::Status status = PlanTargets(); !status.ok()) return status;
      if (absl::Status status = WaitUntil(start_ns - kAgentLeadNs); !status.ok()) return status;
      target_fds_.clear();
      plans_.clear();
    }
    agents_ = std::make_unique<GpuAgents>(*options_.agent, &sink_);
  }
  // Plans are made before the ring, because the analysis of a new library takes memory, and gives
  // it back.
  if (absl::Status status = PlanTargets(); !status.ok()) return status;
  malloc_trim(0);
  if (!options_.start_unix_ns.has_value()) return absl::OkStatus();
  absl::Status status = WaitUntil(start_ns - kAttachLeadNs);
  begin_ns_ = MonotonicNs();
  return status;
}

absl::Status RecordSession::LoadSources() {
  if (absl::Status status = LoadPrograms(); !status.ok()) return status;
  if (absl::Status status = LoadActivities(); !status.ok()) return status;
  if (absl::Status status = ChooseTier(); !status.ok()) return status;
  return puts_jumps_ ? PrepareJumps() : absl::OkStatus();
}

absl::Status RecordSession::PutProbesIn() {
  processes_ = MakeProcesses();
  names_ = std::make_unique<NameResolver>(
      [this](Pid pid) { return processes_->ImageOf(pid); },
      [this](const std::function<void(MetadataWriter&)>& add) { sink_.AddMetadata(add); },
      [this](Pid pid, uint64_t vtable, bool is_python) {
        (void)programs_->AddNodeVtable(pid, vtable, is_python);
        if (patch_ != nullptr && is_python) patch_->AddPythonNode(pid, vtable);
      },
      [this](Pid pid) { return processes_->SymbolListOf(pid); },
      [this](TargetReader::Question question, TargetReader::OnRead on_read) {
        reader_->Ask(std::move(question), std::move(on_read));
      });
  if (absl::Status status = programs_->AttachProcessEvents(); !status.ok()) return status;
  if (options_.all && options_.info.system.operators) {
    // The watch begins before processes are looked for, so that none is missed in between.
    if (auto watch = MapWatch::Open(); watch.ok()) map_watch_ = *std::move(watch);
  }
  if (absl::Status status = cost_.MeasureBefore(plans_); !status.ok()) return status;
  absl::Status attached = AttachTargets();
  plans_.clear();
  if (!attached.ok()) return WithoutEitherTier(attached);
  return cost_.MeasureInJob();
}

absl::Status RecordSession::StartSampler() {
  absl::Status status = sampler_ == nullptr ? absl::OkStatus() : sampler_->Start();
  return sampler_ == nullptr || !status.ok() ? status : WaitUntil(MonotonicNs() + kSamplerLeadNs);
}

absl::Status RecordSession::AwaitStart(int64_t start_ns, int64_t attached_ns) {
  if (!options_.start_unix_ns.has_value()) return absl::OkStatus();
  if (absl::Status status = WaitUntil(start_ns); !status.ok()) return status;
  if (const double late_s = ToSeconds(attached_ns - start_ns); late_s > 0) {
    const std::string reason = "the window began " + std::to_string(late_s) +
                               " s after it: the probes were not live before";
    sink_.AddMetadata([&](MetadataWriter& writer) {
      writer.AddUnsupported(Unsupported{"--start-at", reason});
    });
  }
  return absl::OkStatus();
}

void RecordSession::MakeObservers(int64_t ready_ns) {
  if (AskedForSteps() || callbacks_.on_progress || options_.max_overhead_percent.has_value() ||
      (options_.flight.has_value() && options_.flight->WatchesSteps())) {
    step_watch_ = std::make_unique<StepWatch>(
        [this](Pid pid, uint16_t site) { return processes_->SiteLabel(pid, site); }, ready_ns,
        options_.flight.has_value() ? FlightRecorder::kMostSteps : 0);
  }
  if (options_.max_overhead_percent.has_value()) {
    budget_ = std::make_unique<BudgetKeeper>(
        BudgetKeeper::Options{*options_.max_overhead_percent, AskedForSteps(),
                              options_.keeps_counting},
        BudgetKeeper::Parts{programs_.get(), patch_.get(), processes_.get(), step_watch_.get(),
                            &cost_.meter(), &cost_.jump_meter(), &cost_.cpu_times()},
        ready_ns);
  }
  if (!options_.flight.has_value()) return;
  // With this threshold, memory that the flight recorder frees is returned to the system at once,
  // whatever lies beside that memory.
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
  FlightOptions flight = *options_.flight;
  flight.most_bytes = flight_bytes_;
  flight_ = std::make_unique<FlightRecorder>(flight, [this](Pid pid) {
    return plain_ != nullptr ? plain_->IsLiving(pid) : processes_->ImageOf(pid).has_value();
  });
  std::vector<Pid> targets = options_.pids;
  targets.insert(targets.end(), options_.awaited.begin(), options_.awaited.end());
  const bool is_late = agents_ != nullptr || sampler_ != nullptr;
  flight_->Start(ready_ns, targets, is_late ? kLateSettleNs : kSettleNs);
}

absl::Status RecordSession::BeginWindow(int64_t ready_ns, int64_t attached_ns) {
  info_.window.start_ns = ready_ns;
  cost_.BeginWindow(ready_ns);
  info_.window.monotonic_to_unix_ns = MonotonicToUnixNs();
  info_.window.attach_s = ToSeconds(attached_ns - begin_ns_);
  TellTier();
  sink_.AddMetadata([this](MetadataWriter& writer) { writer.AddRecording(info_); });
  TellClocks();
  TellQuotas(/*is_asked=*/true);
  if (sampler_ != nullptr) sampler_->BeginWindow(ready_ns);
  cost_.CountOwnTime();
  lost_before_start_ = programs_->ReadCounters().ring_lost;
  if (patch_ != nullptr) lost_before_start_ += patch_->lost();
  if (system_ != nullptr) system_lost_before_start_ = system_->lost();
  if (flight_ != nullptr) flight_->NoteLosses(ready_ns, ReadLosses());
  return absl::OkStatus();
}

void RecordSession::SayReady() {
  if (!without_bpf_.empty() && callbacks_.on_without_bpf) callbacks_.on_without_bpf(without_bpf_);
  if (const std::string why = processes_->anothers_jumps();
      !why.empty() && callbacks_.on_anothers_jumps) {
    callbacks_.on_anothers_jumps(why);
  }
  SayMissing();
  NoteStandstills("at the begin");
  if (callbacks_.on_ready) {
    callbacks_.on_ready(
        Ready{WithProcesses([](auto& processes) { return processes.process_count(); }),
              processes_->operator_count(), info_.window.attach_s});
  }
}

}  // namespace proftrace
