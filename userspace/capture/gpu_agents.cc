#include "userspace/capture/gpu_agents.h"

#include <absl/container/flat_hash_map.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "symbols/elf_file.h"
#include "symbols/process.h"
#include "symbols/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/capture/target_info.h"
#include "userspace/inject/injector.h"
#include "userspace/model/recording.h"

namespace proftrace {
namespace {

constexpr char kLibraryName[] = "libproftrace_agent.so";
constexpr char kFunction[] = "proftrace_agent_start";
// CUPTI's first start in a process takes seconds where many kernels are loaded.
constexpr int64_t kStartLimitNs = 30'000'000'000;
// How long the recording waits for a thread to come by a safe point; the injection waits on.
constexpr int64_t kArrivalNs = 2'000'000'000;
constexpr int64_t kForEverNs = int64_t{1} << 60;
constexpr int64_t kStopLimitNs = 10'000'000'000;
constexpr useconds_t kLookUs = 2'000;
// A thread that started since is looked for again, this often at most.
constexpr int64_t kThreadsAgeNs = 10'000'000;

std::string Name(Pid pid) { return "PID " + std::to_string(Raw(pid)); }

// The number of a thread in the innermost namespace, from its status; 0 = not known.
uint32_t InnerNumber(const std::string& status) {
  const std::string numbers(StatusValue(status, "NSpid"));
  const size_t last = numbers.find_last_of(" \t") + 1;  // 0 where there is but one
  return static_cast<uint32_t>(std::strtoul(numbers.c_str() + last, nullptr, 10));
}

// The loader's numbers of a process's threads, from its own.
class ThreadNumbers {
 public:
  explicit ThreadNumbers(Pid pid) : pid_(pid) {
    const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    is_same_ = info.ok() && info->namespace_pid == pid;
  }

  uint32_t operator()(uint32_t inner) {
    if (is_same_ || inner == 0) return inner;
    const auto known = numbers_.find(inner);
    if (known != numbers_.end()) return known->second;
    if (MonotonicNs() - read_ns_ > kThreadsAgeNs) Read();
    const auto now_known = numbers_.find(inner);
    return now_known == numbers_.end() ? 0 : now_known->second;
  }

 private:
  void Read() {
    read_ns_ = MonotonicNs();
    const std::string folder = "/proc/" + std::to_string(Raw(pid_)) + "/task";
    for (const uint32_t tid : ReadNumberedEntries(folder)) {
      const std::string status =
          ReadSmallFile(folder + "/" + std::to_string(tid) + "/status", 8192);
      if (const uint32_t inner = InnerNumber(status); inner != 0) numbers_[inner] = tid;
    }
  }

  Pid pid_;
  bool is_same_ = false;
  int64_t read_ns_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
};

// Where it has the CUDA driver; 0 = nowhere.
uint64_t DriverAddress(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return 0;
  for (const Mapping& mapping : *mappings) {
    if (mapping.path.find("/libcuda.so") != std::string::npos) return mapping.start;
  }
  return 0;
}

// Whether it was forked by a process that had loaded the driver: CUDA does not work in it. Another
// program has the driver elsewhere.
bool IsForkOfGpuUser(Pid pid, uint64_t driver) {
  constexpr int kMostGenerations = 64;
  Pid ancestor = ReadParent(pid);
  for (int i = 0; i < kMostGenerations && Raw(ancestor) > 1; ++i) {
    if (DriverAddress(ancestor) == driver) return true;
    ancestor = ReadParent(ancestor);
  }
  return false;
}

// Whether the process has an agent's memory open. Its maps would say so, too, but while they are
// read the process can map nothing.
bool HasAgentMemory(Pid pid) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/fd";
  const std::string name = std::string("/memfd:") + PT_AGENT_MEMORY_NAME;
  for (const uint32_t fd : ReadNumberedEntries(folder)) {
    char target[64];
    const ssize_t bytes =
        readlink((folder + "/" + std::to_string(fd)).c_str(), target, sizeof(target));
    if (bytes > 0 && std::string_view(target, static_cast<size_t>(bytes)).starts_with(name)) {
      return true;
    }
  }
  return false;
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
  return agent;
}

}  // namespace

GpuAgents::GpuAgents(AgentOptions options, CaptureSink* sink)
    : options_(std::move(options)), sink_(sink) {}

GpuAgents::~GpuAgents() {
  is_over_ = true;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->injector.joinable()) agent->injector.join();
    if (agent->ring != nullptr && !agent->ring->is_over()) agent->ring->Stop();
  }
}

absl::Status GpuAgents::InjectNow(Pid pid) const {
  InjectionRequest request;
  request.pid = pid;
  request.function = kFunction;
  request.arrival_limit_ns = kForEverNs;
  request.is_cancelled = &is_over_;
  std::ifstream file(options_.library, std::ios::binary);
  request.library.assign(std::istreambuf_iterator<char>(file), {});
  UniqueFd fd(open(options_.library.c_str(), O_RDONLY | O_CLOEXEC));
  const absl::StatusOr<std::unique_ptr<ElfFile>> elf = ElfFile::Open(std::move(fd));
  if (request.library.empty() || !elf.ok()) {
    return absl::NotFoundError("the agent (" + options_.library + ") cannot be read");
  }
  // A copy of the same build that is loaded already is used again.
  request.library_name = "proftrace_agent-" + (*elf)->build_id().substr(0, 16);
  const absl::StatusOr<InjectionReport> report = InjectLibrary(request);
  if (!report.ok()) return report.status();
  if (report->result == -EALREADY) {
    return absl::AlreadyExistsError(
        "an agent runs in it already: of another proftrace, or of one that was killed in the last "
        "ten seconds");
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

void GpuAgents::AddReason(const Agent& agent, const absl::Status& status) {
  reasons_.push_back(Name(agent.pid) + ": " + std::string(status.message()));
}

absl::Status GpuAgents::WaitUntilRunning(Agent* agent) {
  const int64_t deadline_ns = MonotonicNs() + kStartLimitNs;
  while (MonotonicNs() < deadline_ns) {
    Take(agent);
    const AgentReport report = agent->ring->report();
    if (report.state == abi::PT_AGENT_RUNNING) return absl::OkStatus();
    if (agent->ring->is_over()) return absl::UnavailableError(report.message);
    usleep(kLookUs);
  }
  return absl::DeadlineExceededError("CUPTI did not start in " +
                                     std::to_string(kStartLimitNs / 1'000'000'000) + " s");
}

void GpuAgents::TakeUp(Agent* agent) {
  if (agent->ring != nullptr || !agent->is_injected.load(std::memory_order_acquire)) return;
  if (!agent->injector.joinable()) return;  // its end is known
  agent->injector.join();
  absl::Status status = agent->injection;
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<AgentRing>> ring =
        AgentRing::Open(agent->pid, ThreadNumbers(agent->pid));
    status = ring.status();
    if (status.ok()) agent->ring = *std::move(ring);
    if (status.ok() && agent->ring == nullptr) {
      status = absl::UnavailableError("its agent ended at once");
    }
  }
  if (!status.ok()) AddReason(*agent, status);
}

GpuAgents::Agent* GpuAgents::Find(Pid pid) {
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->pid == pid) return agent.get();
  }
  return nullptr;
}

void GpuAgents::Start(const std::vector<Pid>& pids) {
  for (const Pid pid : pids) {
    const uint64_t driver = DriverAddress(pid);
    if (driver != 0 && !IsForkOfGpuUser(pid, driver)) {
      Agent* agent = agents_.emplace_back(std::make_unique<Agent>()).get();
      agent->pid = pid;
      agent->injector = std::thread([this, agent] { Inject(agent); });
    } else if (options_.is_asked) {
      reasons_.push_back(Name(pid) +
                         (driver == 0 ? " has not loaded the CUDA driver"
                                      : " was forked: CUDA does not work in it") +
                         ": no agent was put into it");
    }
  }
  arrival_until_ns_ = MonotonicNs() + kArrivalNs;
}

bool GpuAgents::IsRunning(Pid pid) {
  Agent* agent = Find(pid);
  if (agent == nullptr) return false;
  while (!agent->is_injected.load(std::memory_order_acquire) && MonotonicNs() < arrival_until_ns_) {
    usleep(kLookUs);
  }
  TakeUp(agent);
  if (agent->ring == nullptr) return false;
  // One that fails says why: its last words are in the capture, too.
  const absl::Status status = WaitUntilRunning(agent);
  if (!status.ok()) AddReason(*agent, status);
  return status.ok();
}

void GpuAgents::LookAt(const std::vector<Pid>& pids) {
  for (const Pid pid : pids) {
    if (Find(pid) != nullptr || !HasAgentMemory(pid)) continue;
    absl::StatusOr<std::unique_ptr<AgentRing>> ring = AgentRing::Open(pid, ThreadNumbers(pid));
    if (!ring.ok() || *ring == nullptr) continue;
    Agent* agent = agents_.emplace_back(std::make_unique<Agent>()).get();
    agent->pid = pid;
    agent->ring = *std::move(ring);
  }
}

void GpuAgents::Take(Agent* agent) {
  agent->ring->Drain([this](std::span<const std::byte> record) { sink_->AppendDevice(record); });
}

void GpuAgents::Drain() {
  for (const std::unique_ptr<Agent>& agent : agents_) {
    TakeUp(agent.get());
    if (agent->ring != nullptr) Take(agent.get());
  }
}

void GpuAgents::Stop() {
  is_over_ = true;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->ring != nullptr) agent->ring->Stop();
  }
  const int64_t deadline_ns = MonotonicNs() + kStopLimitNs;
  for (const std::unique_ptr<Agent>& agent : agents_) {
    if (agent->injector.joinable()) {
      // It waits for nothing any more.
      while (!agent->is_injected.load(std::memory_order_acquire)) usleep(kLookUs);
      TakeUp(agent.get());
    }
    if (agent->ring == nullptr) continue;
    agent->ring->Stop();
    const bool has_stopped = agent->ring->WaitUntilStopped(
        deadline_ns, [this](std::span<const std::byte> record) { sink_->AppendDevice(record); });
    const AgentReport report = agent->ring->report();
    has_run_ |= report.ring_records > 0;
    if (!has_stopped) {
      reasons_.push_back(Name(agent->pid) +
                         ": its agent did not hand over its last records before the job ended, or "
                         "in time");
    }
    sink_->AddMetadata(
        [&](MetadataWriter& writer) { writer.AddGpuAgent(Describe(agent->pid, report)); });
  }
}

bool HasCudaDriver(Pid pid) { return DriverAddress(pid) != 0; }

std::string FindAgentLibrary() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  if (bytes <= 0) return "";
  std::string name(path, static_cast<size_t>(bytes));
  name.resize(name.rfind('/') + 1);
  name += kLibraryName;
  return access(name.c_str(), R_OK) == 0 ? name : "";
}

}  // namespace proftrace
