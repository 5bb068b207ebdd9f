#include "userspace/capture/process_cpu_times.h"

#include <sys/types.h>
#include <time.h>

#include <algorithm>

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
    if (const auto used_ns = CpuTimeOf(pid)) begin_ns_[Raw(pid)] = last_ns_[Raw(pid)] = *used_ns;
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

std::optional<int64_t> ProcessCpuTimes::all() const {
  std::optional<int64_t> sum;
  for (const auto& [pid, last_ns] : last_ns_) sum = sum.value_or(0) + Of(Pid{pid}).value_or(0);
  return sum;
}

}  // namespace proftrace
