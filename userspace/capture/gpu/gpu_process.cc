#include "userspace/capture/gpu/gpu_process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

constexpr int64_t kLookPeriodNs = 5'000'000;
// How long the number of an ended thread is kept: CUPTI hands over a thread's activity up to
// seconds later.
constexpr int64_t kEndedAgeNs = 60'000'000'000;
constexpr size_t kMostEnvironmentBytes = size_t{4} << 20;

std::string Folder(Pid pid) { return "/proc/" + std::to_string(Raw(pid)); }

// Returns the number of a thread in its innermost PID namespace, from its status; 0: not known.
uint32_t InnerNumber(const std::string& status) {
  const std::string numbers(StatusValue(status, "NSpid"));
  const size_t last = numbers.find_last_of(" \t") + 1;  // 0 where there is only one number
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
  constexpr int kMostAncestors = 64;
  Pid ancestor = ReadParent(pid);
  for (int i = 0; i < kMostAncestors && Raw(ancestor) > 1; ++i) {
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
  if (library.empty()) return false;
  const std::string environment = ReadSmallFile(Folder(pid) + "/environ", kMostEnvironmentBytes);
  const std::string wanted = "CUDA_INJECTION64_PATH=" + library;
  for (size_t begin = 0; begin < environment.size();) {
    const size_t end = std::min(environment.find('\0', begin), environment.size());
    if (environment.compare(begin, end - begin, wanted) == 0) return true;
    begin = end + 1;
  }
  return false;
}

ThreadNumbers::ThreadNumbers(Pid pid) : folder_(Folder(pid)) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  is_same_ = info.ok() && info->namespace_pid == pid;
}

uint32_t ThreadNumbers::InnerOf(uint32_t outer) const {
  return InnerNumber(ReadSmallFile(folder_ + "/task/" + std::to_string(outer) + "/status", 8192));
}

void ThreadNumbers::Look(int64_t now_ns) {
  if (is_same_ || (read_ns_ != 0 && now_ns - read_ns_ < kLookPeriodNs)) return;
  read_ns_ = now_ns;
  absl::flat_hash_map<uint32_t, uint32_t> living;
  for (const uint32_t outer : ReadNumberedEntries(folder_ + "/task")) {
    const auto known = living_.find(outer);
    const uint32_t inner = known != living_.end() ? known->second : InnerOf(outer);
    if (inner == 0) continue;
    living.emplace(outer, inner);
    if (known == living_.end()) numbers_[inner] = Number{outer, 0};
  }
  for (const auto& [outer, inner] : living_) {
    const auto number = numbers_.find(inner);
    if (living.contains(outer) || number == numbers_.end()) continue;
    if (number->second.outer == outer) number->second.ended_ns = now_ns;
  }
  living_ = std::move(living);
  absl::erase_if(numbers_, [now_ns](const auto& entry) {
    return entry.second.ended_ns != 0 && now_ns - entry.second.ended_ns > kEndedAgeNs;
  });
}

uint32_t ThreadNumbers::Of(uint32_t inner, int64_t now_ns) {
  if (is_same_ || inner == 0) return inner;
  auto known = numbers_.find(inner);
  if (known == numbers_.end()) {  // the thread may have started since the last look
    Look(now_ns);
    known = numbers_.find(inner);
  }
  if (known == numbers_.end()) {
    ++unknown_;
    return 0;
  }
  return known->second.outer;
}

}  // namespace proftrace
