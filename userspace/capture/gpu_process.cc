#include "userspace/capture/gpu_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "symbols/process.h"
#include "symbols/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/capture/target_info.h"

namespace proftrace {
namespace {

// A thread that started since is looked for again, this often at most.
constexpr int64_t kThreadsAgeNs = 10'000'000;
constexpr size_t kMostEnvironmentBytes = size_t{4} << 20;

std::string Folder(Pid pid) { return "/proc/" + std::to_string(Raw(pid)); }

// The number of a thread in the innermost namespace, from its status; 0 = not known.
uint32_t InnerNumber(const std::string& status) {
  const std::string numbers(StatusValue(status, "NSpid"));
  const size_t last = numbers.find_last_of(" \t") + 1;  // 0 where there is but one
  return static_cast<uint32_t>(std::strtoul(numbers.c_str() + last, nullptr, 10));
}

}  // namespace

uint64_t DriverAddress(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return 0;
  for (const Mapping& mapping : *mappings) {
    if (mapping.path.find("/libcuda.so") != std::string::npos) return mapping.start;
  }
  return 0;
}

bool IsForkOfGpuUser(Pid pid, uint64_t driver) {
  constexpr int kMostGenerations = 64;
  Pid ancestor = ReadParent(pid);
  for (int i = 0; i < kMostGenerations && Raw(ancestor) > 1; ++i) {
    if (DriverAddress(ancestor) == driver) return true;
    ancestor = ReadParent(ancestor);
  }
  return false;
}

bool HasAgentMemory(Pid pid) {
  const std::string folder = Folder(pid) + "/fd";
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

bool BringsAgent(Pid pid, const std::string& library) {
  const std::string environment = ReadSmallFile(Folder(pid) + "/environ", kMostEnvironmentBytes);
  const std::string wanted = "CUDA_INJECTION64_PATH=" + library;
  for (size_t begin = 0; begin < environment.size();) {
    const size_t end = std::min(environment.find('\0', begin), environment.size());
    if (environment.compare(begin, end - begin, wanted) == 0) return true;
    begin = end + 1;
  }
  return false;
}

ThreadNumbers::ThreadNumbers(Pid pid) : pid_(pid) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  is_same_ = info.ok() && info->namespace_pid == pid;
}

uint32_t ThreadNumbers::operator()(uint32_t inner) {
  if (is_same_ || inner == 0) return inner;
  const auto known = numbers_.find(inner);
  if (known != numbers_.end()) return known->second;
  if (MonotonicNs() - read_ns_ > kThreadsAgeNs) Read();
  const auto now_known = numbers_.find(inner);
  return now_known == numbers_.end() ? 0 : now_known->second;
}

void ThreadNumbers::Read() {
  read_ns_ = MonotonicNs();
  const std::string folder = Folder(pid_) + "/task";
  for (const uint32_t tid : ReadNumberedEntries(folder)) {
    const std::string status = ReadSmallFile(folder + "/" + std::to_string(tid) + "/status", 8192);
    if (const uint32_t inner = InnerNumber(status); inner != 0) numbers_[inner] = tid;
  }
}

}  // namespace proftrace
