#include "userspace/capture/gpu/gpu_agents.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "symbols/process/memory_room.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/gpu/agent_library.h"
#include "userspace/capture/gpu/gpu_process.h"
#include "userspace/inject/injector.h"
#include "userspace/model/recording.h"

namespace proftrace {
namespace {

constexpr char kFunction[] = "proftrace_agent_start";
constexpr char kAlreadyThere[] =
    "an agent runs in it already: of another proftrace, or of one that was killed in the last ten "
    "seconds";
// CUPTI's first start in a process takes seconds where many kernels are loaded.
constexpr int64_t kStartLimitNs = 30'000'000'000;
// How long the recording waits for a thread to reach a safe point; the injection itself waits
// longer.
constexpr int64_t kArrivalNs = 2'000'000'000;
constexpr int64_t kForEverNs = int64_t{1} << 60;
constexpr int64_t kStopLimitNs = 10'000'000'000;
constexpr useconds_t kLookUs = 2'000;
constexpr useconds_t kBeatUs = 50'000;
// How many processes are named one by one; the others are counted.
constexpr size_t kMostNamedJobs = 20;
// The agent's 64 MiB of buffers, and as much again for CUPTI's own.
constexpr uint64_t kAgentMemoryBytes = 128 << 20;

std::string Name(Pid pid) { return "PID " + std::to_string(Raw(pid)); }

// "PID 7, 8 and 3 more".
std::string NamePids(const std::set<uint32_t>& pids) {
  std::string text;
  size_t named = 0;
  for (const uint32_t pid : pids) {
    if (++named > kMostNamedJobs) {
      return text + " and " + std::to_string(pids.size() - kMostNamedJobs) + " more";
    }
    text += (text.empty() ? "PID " : ", ") + std::to_string(pid);
  }
  return text;
}

std::string StateName(abi::pt_agent_state state) {
  switch (state) {
    case abi::PT_AGENT_STARTING:
      return "starting";
    case abi::PT_AGENT_RUNNING:
      return "running";
    case abi::PT_AGENT_STOPPED:
      return "stopped";
    case abi::PT_AGENT_FAILED:
      return "failed";
    case abi::PT_AGENT_FLUSHING:
      return "flushing";
  }
  return "unknown";
}

std::string FailureName(abi::pt_agent_failure failure) {
  switch (failure) {
    case abi::PT_AGENT_NO_FAILURE:
      return "";
    case abi::PT_AGENT_NO_CUPTI:
      return "no CUPTI";
    case abi::PT_AGENT_OLD_CUPTI:
      return "old CUPTI";
    case abi::PT_AGENT_TAKEN:
      return "taken";
    case abi::PT_AGENT_NOT_PERMITTED:
      return "not permitted";
    case abi::PT_AGENT_CUPTI_ERROR:
      return "CUPTI error";
    case abi::PT_AGENT_NO_MEMORY:
      return "no memory";
    case abi::PT_AGENT_ABANDONED:
      return "abandoned";
  }
  return "unknown";
}

// Whether records of this kind are needed to understand later records, so that they are kept also
// from before the window.
bool IsLasting(uint8_t kind) {
  return kind == abi::PT_GPU_NAME || kind == abi::PT_GPU_DEVICE || kind == abi::PT_GPU_CONTEXT ||
         kind == abi::PT_GPU_CLOCK;
}

// Whether records of this kind come from CUPTI, and not from the agent itself.
bool IsOfCupti(uint8_t kind) {
  return kind != abi::PT_GPU_NAME && kind != abi::PT_GPU_CLOCK && kind != abi::PT_GPU_DROPPED &&
         kind != abi::PT_GPU_UNKNOWN;
}

uint64_t Less(uint64_t whole, uint64_t before) { return whole - std::min(whole, before); }

// Returns `report` without what was counted before the window. CUPTI's records from before it are
// those that were handed over, dropped and unread.
AgentReport InWindow(AgentReport report, const AgentReport& before, uint64_t dropped_before) {
  report.ring_records = Less(report.ring_records, dropped_before);
  report.ring_dropped = Less(report.ring_dropped, before.ring_dropped);
  report.unread_records = Less(report.unread_records, before.unread_records);
  report.cupti_records =
      Less(report.cupti_records, dropped_before + before.ring_dropped + before.unread_records);
  report.cupti_dropped = Less(report.cupti_dropped, before.cupti_dropped);
  report.buffers_refused = Less(report.buffers_refused, before.buffers_refused);
  report.incomplete_buffers = Less(report.incomplete_buffers, before.incomplete_buffers);
  report.incomplete_bytes = Less(report.incomplete_bytes, before.incomplete_bytes);
  return report;
}

GpuAgent Describe(Pid pid, const AgentReport& report) {
  GpuAgent agent;
  agent.pid = pid;
  agent.state = StateName(report.state);
  agent.failure = FailureName(report.failure);
  agent.message = report.message;
  agent.cupti_result = report.cupti_result;
  agent.cupti_version = report.cupti_version;
  agent.driver_version = report.driver_version;
  agent.runtime_version = report.runtime_version;
  agent.cupti_records = report.cupti_records;
  agent.ring_records = report.ring_records;
  agent.ring_dropped = report.ring_dropped;
  agent.unread_records = report.unread_records;
  agent.cupti_dropped = report.cupti_dropped;
  agent.buffers_refused = report.buffers_refused;
  agent.incomplete_buffers = report.incomplete_buffers;
  agent.incomplete_bytes = report.incomplete_bytes;
  return agent;
}

}  // namespace

GpuAgents::GpuAgents(AgentOptions options, CaptureSink* sink)
    : options_(std::move(options)), sink_(sink) {}

GpuAgents::~GpuAgents() {
  is_over_ = true;
  keeper_ = std::jthread();  // ends it
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->injector.joinable()) agent->injector.join();
    if (agent->ring != nullptr && !agent->ring->is_over()) agent->ring->Stop();
  }
}

std::vector<GpuAgents::Agent*> GpuAgents::Living() {
  const std::lock_guard lock(mutex_);
  std::vector<Agent*> living;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (!agent->is_past) living.push_back(agent.get());
  }
  return living;
}

GpuAgents::Agent* GpuAgents::Find(Pid pid) {
  for (Agent* agent : Living()) {
    if (agent->pid == pid) return agent;
  }
  return nullptr;
}

absl::Status GpuAgents::InjectNow(Pid pid) const {
  // An agent of another build would start beside the one that runs already, and take CUPTI from it.
  if (AgentRing::IsServed(pid)) return absl::AlreadyExistsError(kAlreadyThere);
  if (absl::Status status = CheckMemoryRoom(pid, kAgentMemoryBytes, "the GPU agent");
      !status.ok()) {
    return absl::UnavailableError(status.message());
  }
  InjectionRequest request;
  request.pid = pid;
  request.function = kFunction;
  request.arrival_limit_ns = kForEverNs;
  request.is_cancelled = &is_over_;
  request.library = std::string(AgentLibrary());
  const absl::StatusOr<std::string> build_id = AgentBuildId();
  if (!build_id.ok()) return build_id.status();
  // A copy of the same build that is loaded already is used again.
  request.library_name = "proftrace_agent-" + *build_id;
  const absl::StatusOr<InjectionReport> report = InjectLibrary(request);
  if (!report.ok()) return report.status();
  if (report->result == -EALREADY) {
    return absl::AlreadyExistsError(kAlreadyThere);
  }
  if (report->result != 0) {
    return absl::UnavailableError("its agent could not start: " + ErrnoText(-report->result));
  }
  return absl::OkStatus();
}

void GpuAgents::Inject(Agent* agent) const {
  agent->injection = InjectNow(agent->pid);
  agent->is_injected.store(true, std::memory_order_release);
}

void GpuAgents::AddReason(Agent* agent, const std::string& what) {
  agent->has_reason = true;
  reasons_.push_back(Name(agent->pid) + ": " + what);
}

absl::Status GpuAgents::WaitUntilRunning(Agent* agent) {
  const int64_t deadline_ns = MonotonicNs() + kStartLimitNs;
  while (MonotonicNs() < deadline_ns) {
    Take(agent);
    if (agent->running_ns != 0) return absl::OkStatus();
    if (agent->ring->is_over()) return absl::UnavailableError(agent->ring->report().message);
    usleep(kLookUs);
  }
  return absl::DeadlineExceededError("CUPTI did not start in " +
                                     std::to_string(kStartLimitNs / 1'000'000'000) + " s");
}

absl::StatusOr<std::unique_ptr<AgentRing>> GpuAgents::OpenRing(Agent* agent) const {
  if (agent->threads == nullptr) agent->threads = std::make_shared<ThreadNumbers>(agent->pid);
  return AgentRing::Open(agent->pid, [threads = agent->threads](uint32_t inner) {
    return threads->Of(inner, MonotonicNs());
  });
}

void GpuAgents::TakeUp(Agent* agent) {
  if (agent->ring != nullptr || !agent->is_injected.load(std::memory_order_acquire)) return;
  if (agent->injector.joinable()) {
    agent->injector.join();
  } else if (agent->injection.ok() || agent->has_reason) {
    return;  // its result is known
  }
  absl::Status status = agent->injection;
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<AgentRing>> ring = OpenRing(agent);
    status = ring.status();
    if (status.ok()) {
      const std::lock_guard lock(mutex_);
      agent->ring = *std::move(ring);
    }
    if (status.ok() && agent->ring == nullptr) {
      status = absl::UnavailableError("its agent ended at once");
    }
  }
  if (!status.ok()) AddReason(agent, std::string(status.message()));
}

void GpuAgents::LookForBrought(Agent* agent) {
  if (!agent->is_brought || agent->ring != nullptr || !HasAgentMemory(agent->pid)) return;
  absl::StatusOr<std::unique_ptr<AgentRing>> ring = OpenRing(agent);
  if (ring.ok()) agent->ring = *std::move(ring);
}

// A driver that a process has from its parent is there since the fork, so it is seen at the first
// look, at the address where the parent has it.
bool GpuAgents::IsFork(Pid pid, Pid parent, uint64_t driver) {
  {
    const std::lock_guard lock(mutex_);
    if (had_none_.contains(Raw(pid))) return false;
    const auto known = drivers_.find(Raw(parent));
    if (known != drivers_.end() && known->second == driver) return true;
  }
  return IsForkOfGpuUser(pid, driver);
}

void GpuAgents::Consider(Pid pid, Pid parent) {
  const uint64_t driver = DriverAddress(pid);
  const bool is_fork = driver != 0 && IsFork(pid, parent, driver);
  const bool is_brought = driver != 0 && !is_fork && BringsAgent(pid, options_.file);
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  if (driver == 0) {
    had_none_.insert(Raw(pid));
    return;
  }
  drivers_.try_emplace(Raw(pid), driver);
  if (is_fork) {
    forked_.insert(Raw(pid));
    return;
  }
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->pid == pid && !agent->is_past) return;
  }
  Agent* agent = agents_.emplace_back(std::make_unique<Agent>()).get();
  agent->pid = pid;
  agent->is_late = arrival_until_ns_ != 0;
  agent->is_brought = is_brought;
  agent->seen_ns = MonotonicNs();
  if (is_brought) return;
  try {
    agent->injector = std::thread([this, agent] { Inject(agent); });
  } catch (const std::system_error& error) {
    agent->injection = NoMoreProcesses(error.code().value());
    agent->is_injected = true;
  }
}

void GpuAgents::Start(const std::vector<Pid>& pids, const std::vector<Pid>& children) {
  for (const Pid pid : pids) {
    Consider(pid);
    if (options_.is_asked) asked_.insert(Raw(pid));
  }
  for (const Pid pid : children) Consider(pid);
  arrival_until_ns_ = MonotonicNs() + kArrivalNs;
  if (!agents_.empty()) keeper_ = std::jthread([this](std::stop_token stop) { KeepGoing(stop); });
}

void GpuAgents::KeepGoing(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      const std::lock_guard lock(mutex_);
      for (const std::unique_ptr<Agent>& agent : agents_) {
        if (agent->ring == nullptr) continue;
        if (has_window_) {
          agent->ring->Beat();
        } else {
          TakeBefore(agent.get());
        }
      }
    }
    usleep(kBeatUs);
  }
}

bool GpuAgents::IsRunning(Pid pid) {
  Agent* agent = Find(pid);
  if (agent == nullptr) return false;
  while (!agent->is_injected.load(std::memory_order_acquire) && MonotonicNs() < arrival_until_ns_) {
    usleep(kLookUs);
  }
  TakeUp(agent);
  if (agent->ring == nullptr) return false;
  // An agent that fails says why. Its report is in the capture, too.
  const absl::Status status = WaitUntilRunning(agent);
  if (!status.ok()) AddReason(agent, std::string(status.message()));
  return status.ok();
}

void GpuAgents::TakeBefore(Agent* agent) {
  agent->threads->Look(MonotonicNs());
  agent->ring->Drain([agent](std::span<const std::byte> record) {
    abi::pt_record head;
    std::memcpy(&head, record.data(), sizeof(head));
    if (IsLasting(head.kind)) {
      agent->kept.insert(agent->kept.end(), record.begin(), record.end());
    } else if (IsOfCupti(head.kind)) {
      ++agent->dropped_before;
    }
  });
  if (agent->running_ns == 0 && agent->ring->is_running()) agent->running_ns = MonotonicNs();
}

void GpuAgents::HandOn(Agent* agent) {
  const std::span<const std::byte> kept(agent->kept);
  for (size_t at = 0; at < kept.size();) {
    abi::pt_record head;
    std::memcpy(&head, kept.data() + at, sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    sink_->AppendDevice(kept.subspan(at, bytes));
    at += bytes;
  }
  agent->kept = {};
}

void GpuAgents::BeginWindow() {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->ring == nullptr) continue;
    // The report is read first, so that a loss in between is counted rather than left out.
    agent->before = agent->ring->report();
    TakeBefore(agent.get());
    HandOn(agent.get());
  }
  has_window_ = true;
}

void GpuAgents::Take(Agent* agent) {
  if (!has_window_) {
    const std::lock_guard lock(mutex_);
    return TakeBefore(agent);
  }
  agent->threads->Look(MonotonicNs());
  agent->ring->Drain([this](std::span<const std::byte> record) { sink_->AppendDevice(record); });
  if (agent->running_ns == 0 && agent->ring->is_running()) agent->running_ns = MonotonicNs();
}

void GpuAgents::Drain() {
  if (keeper_.joinable()) keeper_ = std::jthread();  // ends it
  for (Agent* agent : Living()) {
    TakeUp(agent);
    LookForBrought(agent);
    if (agent->ring != nullptr) Take(agent);
  }
}

void GpuAgents::OnEnd(Pid pid, End end) {
  Agent* agent = Find(pid);
  if (agent != nullptr) {
    TakeUp(agent);
    if (agent->ring != nullptr) {
      Take(agent);
      Finish(agent);
    } else if (agent->is_brought) {
      AddReason(agent, "it ended before the agent that it was started with was seen");
    }
  }
  const std::lock_guard lock(mutex_);
  if (agent != nullptr) agent->is_past = true;
  if (end == End::kExec) {
    had_none_.insert(Raw(pid));
    forked_.erase(Raw(pid));
    drivers_.erase(Raw(pid));
  } else {
    had_none_.erase(Raw(pid));  // another process may get its number soon
  }
}

void GpuAgents::Finish(Agent* agent) {
  HandOn(agent);
  AgentReport report = agent->ring->report();
  report = InWindow(report, has_window_ ? agent->before : report, agent->dropped_before);
  unknown_threads_ += agent->threads->unknown();
  const bool has_ended = agent->ring->is_over();
  agent->ring = nullptr;
  agent->has_recorded = agent->running_ns != 0 || report.ring_records > 0;
  has_run_ |= report.ring_records > 0;
  if (agent->has_reason) {
    // The reason is in reasons_ already.
  } else if (report.failure != abi::PT_AGENT_NO_FAILURE) {
    AddReason(agent, report.message);
  } else if (!has_ended) {
    AddReason(agent,
              "its agent did not hand over its last records before the process ended, or in time");
  } else if (!agent->has_recorded) {
    AddReason(agent, "it has not initialized CUDA: its agent had nothing to record");
  }
  if (agent->is_late && agent->running_ns != 0) {
    ++late_;
    longest_late_ns_ = std::max(longest_late_ns_, agent->running_ns - agent->seen_ns);
  }
  GpuAgent description = Describe(agent->pid, report);
  description.number = described_[Raw(agent->pid)]++;
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddGpuAgent(description); });
}

void GpuAgents::Stop() {
  keeper_ = std::jthread();  // ends it
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->ring != nullptr) agent->ring->Stop();
  }
  const int64_t deadline_ns = MonotonicNs() + kStopLimitNs;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (!agent->is_brought) {
      // The injection is cancelled, so this wait is short.
      while (!agent->is_injected.load(std::memory_order_acquire)) usleep(kLookUs);
      TakeUp(agent.get());
    }
    if (agent->is_past) continue;
    LookForBrought(agent.get());
    if (agent->ring == nullptr) {
      if (!agent->has_reason) AddReason(agent.get(), "the agent that it brings has not begun");
      continue;
    }
    agent->ring->Stop();
    agent->ring->WaitUntilStopped(
        deadline_ns, [this](std::span<const std::byte> record) { sink_->AppendDevice(record); });
    Finish(agent.get());
    agent->is_past = true;
  }
}

bool GpuAgents::has_missed() const {
  return std::any_of(agents_.begin(), agents_.end(),
                     [](const std::unique_ptr<Agent>& agent) { return !agent->has_recorded; });
}

std::vector<Unsupported> GpuAgents::gaps() const {
  constexpr char kActivity[] = "GPU activity by CUPTI";
  std::vector<std::string> reasons = reasons_;
  for (const uint32_t pid : asked_) {
    if (drivers_.contains(pid)) continue;
    reasons.push_back(Name(Pid{pid}) + " has not loaded the CUDA driver: no agent was put into it");
  }
  std::vector<Unsupported> gaps;
  for (const std::string& reason : reasons) {
    if (gaps.size() < kMostNamedJobs) gaps.push_back({kActivity, reason});
  }
  if (reasons.size() > kMostNamedJobs) {
    gaps.push_back({kActivity, std::to_string(reasons.size()) + " reasons in all"});
  }
  if (!forked_.empty()) {
    gaps.push_back({kActivity, NamePids(forked_) +
                                   ": forked by a process that had loaded CUDA, which does not "
                                   "work in such a child: no agent was put into it"});
  }
  if (unknown_threads_ > 0) {
    gaps.push_back({"threads of GPU activity",
                    std::to_string(unknown_threads_) +
                        " records are of threads that had ended before they were seen, in another "
                        "PID namespace: they have no thread"});
  }
  if (late_ > 0) {
    gaps.push_back({"start of GPU activity",
                    std::to_string(late_) +
                        " processes began to use CUDA while they were recorded: what they gave "
                        "their GPUs before their agents ran, in the first " +
                        std::to_string(longest_late_ns_ / 1'000'000 + 1) +
                        " ms at most, has no rows of its own"});
  }
  return gaps;
}

}  // namespace proftrace
