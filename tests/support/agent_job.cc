#include "tests/support/agent_job.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

constexpr int64_t kPatienceNs = 20'000'000'000;  // the machine may be busy
constexpr int kNoLibrary = 99;                   // exit code

// What was built: where the variable says, else below the folder that the test's program is in.
std::string Built(const char* variable, const char* place) {
  const char* path = std::getenv(variable);
  if (path != nullptr) return path;
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / place).string();
}
const char kCudaFolder[] = "../tests/support/cuda_double";

struct Order {
  AgentJob::Function function;
  int64_t argument;
};

void* MustOpen(const std::string& path, int mode) {
  void* library = dlopen(path.c_str(), RTLD_NOW | mode);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(kNoLibrary);
  }
  return library;
}

}  // namespace

JobOptions With(const std::string& settings) {
  JobOptions options;
  options.environment["CUPTI_DOUBLE"] = settings;
  return options;
}

int64_t LaunchKernels(JobTools& tools, int64_t count) {
  struct Dim3 {
    unsigned x, y, z;
  };
  const auto launch =
      tools.Cuda<int (*)(const void*, Dim3, Dim3, void**, size_t, void*)>("cudaLaunchKernel");
  for (int64_t i = 0; i < count; ++i) {
    if (launch("_Z6kernelPfi", {2, 3, 4}, {32, 1, 1}, nullptr, 256, nullptr) != 0) return 1;
  }
  return 0;
}

void* JobTools::Find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

AgentJob::AgentJob(const JobOptions& options) {
  int sockets[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  fflush(stdout);
  const pid_t test = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(1);
    close(sockets[0]);
    socket_ = sockets[1];
    RunJob(options);
  }
  close(sockets[1]);
  socket_ = sockets[0];
}

AgentJob::~AgentJob() {
  ForgetRing();
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (socket_ >= 0) close(socket_);
}

void AgentJob::RunJob(const JobOptions& options) {
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  JobTools tools;
  if (options.has_driver) {
    MustOpen(Built("PROFTRACE_CUDA_DOUBLE", kCudaFolder) + "/libcuda.so.1", RTLD_GLOBAL);
    MustOpen(Built("PROFTRACE_CUDA_DOUBLE", kCudaFolder) + "/libcudart.so.12", RTLD_GLOBAL);
  }
  if (options.cupti == "double") {
    void* cupti =
        MustOpen(Built("PROFTRACE_CUPTI_DOUBLE", "../tests/support/cupti_double/12/libcupti.so.12"),
                 RTLD_LOCAL);
    tools.settings = static_cast<cupti_double*>(dlsym(cupti, "cupti_double"));
    tools.emit = reinterpret_cast<decltype(tools.emit)>(dlsym(cupti, "cupti_double_emit"));
  } else if (!options.cupti.empty()) {
    MustOpen(options.cupti, RTLD_LOCAL);
  }
  const std::string agent_path = Built("PROFTRACE_AGENT", "libproftrace_agent.so");
  tools.agent_path = agent_path.c_str();
  void* agent = MustOpen(agent_path, RTLD_LOCAL);
  tools.start = reinterpret_cast<int (*)()>(dlsym(agent, "proftrace_agent_start"));
  tools.inject = reinterpret_cast<int (*)()>(dlsym(agent, "InitializeInjection"));
  Order order{};
  while (read(socket_, &order, sizeof(order)) == sizeof(order)) {
    const int64_t result = order.function(tools, order.argument);
    if (write(socket_, &result, sizeof(result)) != sizeof(result)) break;
  }
  exit(0);
}

void AgentJob::Send(Function function, int64_t argument) {
  const Order order{function, argument};
  ASSERT_EQ(send(socket_, &order, sizeof(order), MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof(order)));
}

int64_t AgentJob::Do(Function function, int64_t argument) {
  Send(function, argument);
  int64_t result = -1;
  EXPECT_EQ(read(socket_, &result, sizeof(result)), static_cast<ssize_t>(sizeof(result)))
      << "the job has ended";
  return result;
}

void AgentJob::Start() {
  ForgetRing();
  ASSERT_EQ(Do([](JobTools& tools, int64_t) -> int64_t { return tools.start(); }), 0);
  TakeRing();
}

void AgentJob::TakeRing() {
  // The number of a thread is doubled, to see that the function is asked.
  auto ring =
      AgentRing::Open(Pid{static_cast<uint32_t>(pid_)}, [](uint32_t tid) { return 2 * tid; });
  ASSERT_TRUE(ring.ok()) << ring.status();
  ASSERT_NE(*ring, nullptr);
  ring_ = *std::move(ring);
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find(PT_AGENT_MEMORY_NAME) == std::string::npos) continue;
    const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    page_ = static_cast<abi::pt_agent_page*>(
        mmap(nullptr, PT_AGENT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
}

void AgentJob::AwaitState(abi::pt_agent_state state) {
  const int64_t deadline = MonotonicNs() + kPatienceNs;
  while (ring_->report().state != state && !ring_->is_over() && MonotonicNs() < deadline) {
    Drain();
    usleep(500);
  }
  EXPECT_EQ(ring_->report().state, state) << ring_->report().message;
}

void AgentJob::StartAndRun() {
  Start();
  if (ring_ != nullptr) AwaitState(abi::PT_AGENT_RUNNING);
}

void AgentJob::Drain() {
  ring_->Drain([this](std::span<const std::byte> record) {
    const auto* first = reinterpret_cast<const uint8_t*>(record.data());
    records.emplace_back(first, first + record.size());
  });
}

void AgentJob::Stop() {
  ring_->Stop();
  EXPECT_TRUE(ring_->WaitUntilStopped(
      MonotonicNs() + kPatienceNs, [this](std::span<const std::byte> record) {
        const auto* first = reinterpret_cast<const uint8_t*>(record.data());
        records.emplace_back(first, first + record.size());
      }));
}

uint64_t AgentJob::Emitted() {
  return static_cast<uint64_t>(Do([](JobTools& tools, int64_t) -> int64_t {
    return static_cast<int64_t>(tools.settings->emitted - tools.settings->counts_of_devices);
  }));
}

void AgentJob::ExpectConserved() {
  const AgentReport report = ring_->report();
  EXPECT_EQ(report.cupti_records, Emitted());
  EXPECT_EQ(report.ring_records + report.ring_dropped + report.unread_records,
            report.cupti_records);
  size_t arrived = 0;
  const std::set<uint8_t> others = {abi::PT_GPU_NAME, abi::PT_GPU_CLOCK, abi::PT_GPU_DROPPED,
                                    abi::PT_GPU_UNKNOWN};
  for (const auto& record : records) arrived += others.contains(record[22]) ? 0 : 1;
  EXPECT_EQ(arrived, report.ring_records);
  EXPECT_EQ(ring_->counts().damages, 0u);
  EXPECT_EQ(ring_->counts().foreign, 0u);
}

int AgentJob::AwaitExit() {
  shutdown(socket_, SHUT_WR);
  int status = 0;
  const int64_t deadline = MonotonicNs() + kPatienceNs;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (MonotonicNs() > deadline) return -1;
    usleep(1000);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void AgentJob::ForgetRing() {
  ring_.reset();
  if (page_ != nullptr) munmap(page_, PT_AGENT_PAGE_BYTES);
  page_ = nullptr;
}

std::string AgentJob::Name(uint64_t id) const {
  std::string name;
  for (const auto& part : Records<abi::pt_gpu_name_record>(abi::PT_GPU_NAME)) {
    if (part.id != id || part.offset != name.size()) continue;
    name.append(part.text, std::min<size_t>(PT_GPU_TEXT_BYTES, part.length - part.offset));
  }
  return name.empty() ? "?" : name;
}

}  // namespace proftrace
