#include "userspace/capture/targets/process_cpu_times.h"

#include <sys/types.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace proftrace {

std::optional<int64_t> CpuTimeOf(Pid pid) {
  clockid_t clock = 0;
  timespec used{};
  const bool is_read = clock_getcpuclockid(static_cast<pid_t>(Raw(pid)), &clock) == 0 &&
                       clock_gettime(clock, &used) == 0;
  if (!is_read) return std::nullopt;
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

void ProcessCpuTimes::Begin(std::span<const Pid> pids) {
  for (const Pid pid : pids) {
    const auto used_ns = CpuTimeOf(pid);
    if (!used_ns) continue;
    for (auto* times : {&begin_ns_, &last_ns_, &taken_ns_}) (*times)[Raw(pid)] = *used_ns;
  }
}

void ProcessCpuTimes::Read(std::span<const Pid> pids) {
  for (const Pid pid : pids) {
    if (const auto used_ns = CpuTimeOf(pid)) last_ns_[Raw(pid)] = *used_ns;
  }
}

std::optional<int64_t> ProcessCpuTimes::Of(Pid pid) const {
  const auto last = last_ns_.find(Raw(pid));
  if (last == last_ns_.end()) return std::nullopt;
  const auto begin = begin_ns_.find(Raw(pid));
  return std::max<int64_t>(0, last->second - (begin == begin_ns_.end() ? 0 : begin->second));
}

std::optional<int64_t> ProcessCpuTimes::TakeUsed(Pid pid) {
  const auto last = last_ns_.find(Raw(pid));
  if (last == last_ns_.end()) return std::nullopt;
  const auto [taken, is_new] = taken_ns_.try_emplace(Raw(pid), last->second);
  if (is_new) return std::nullopt;
  return std::max<int64_t>(0, last->second - std::exchange(taken->second, last->second));
}

std::optional<int64_t> ProcessCpuTimes::all() const {
  std::optional<int64_t> sum;
  for (const auto& [pid, last_ns] : last_ns_) sum = sum.value_or(0) + Of(Pid{pid}).value_or(0);
  return sum;
}

}  // namespace proftrace
