#include "userspace/capture/cost/operator_rates.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// Returns how long a thread has waited for a CPU so far; nullopt where it has ended, or the kernel
// does not tell.
std::optional<int64_t> WaitedForCpuNs(uint32_t pid, uint32_t tid) {
  const std::string text = ReadSmallFile(
      "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/schedstat", 256);
  const std::vector<std::string_view> words = SplitText(text, " ", /*skip_empty=*/true);
  return words.size() < 2 ? std::nullopt : ParseNumber<int64_t>(words[1]);
}

}  // namespace

void OperatorRates::Begin(std::span<const Pid> pids) {
  *this = {};
  for (const Pid pid : pids) {
    pids_.insert(Raw(pid));
    const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/task";
    for (const uint32_t tid : ReadNumberedEntries(folder)) {
      if (const auto ns = WaitedForCpuNs(Raw(pid), tid)) waited_ns_[{Raw(pid), tid}] = *ns;
    }
  }
  is_open_ = true;
  begin_ns_ = MonotonicNs();
}

void OperatorRates::Observe(const abi::pt_record& head) {
  const bool is_call = head.kind == abi::PT_COST && head.site == 0;
  if (!is_open_ || !is_call || static_cast<int64_t>(head.time_ns) < begin_ns_) return;
  if (!pids_.contains(head.pid)) return;
  ++operators_;
  ++calls_[{head.pid, head.tid}];
}

std::vector<OperatorRates::Thread> OperatorRates::End(double ns_per_call) {
  const int64_t passed_ns = MonotonicNs() - begin_ns_;
  is_open_ = false;
  std::map<uint32_t, Thread> busiest;  // by pid
  for (const auto& [key, calls] : calls_) {
    const auto before = waited_ns_.find(key);
    const int64_t waited_ns = WaitedForCpuNs(key.pid, key.tid).value_or(0) -
                              (before == waited_ns_.end() ? 0 : before->second);
    const auto counting_ns = static_cast<int64_t>(ns_per_call * static_cast<double>(calls));
    // At least a part of the time remains, also where the clocks of the terms differ.
    const int64_t able_ns =
        std::max(passed_ns - std::max<int64_t>(0, waited_ns) - counting_ns, passed_ns / 20);
    const Thread thread{Pid{key.pid}, Tid{key.tid}, calls, able_ns};
    const auto [at, is_new] = busiest.try_emplace(key.pid, thread);
    if (!is_new && at->second.operators_per_s() < thread.operators_per_s()) at->second = thread;
  }
  std::vector<Thread> threads;
  for (const auto& [pid, thread] : busiest) threads.push_back(thread);
  return threads;
}

}  // namespace proftrace
