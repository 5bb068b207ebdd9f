// Recorded processes of which no row came although they ran: nobody is to take that for a
// recording that works. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "bpf/abi/records.h"
#include "userspace/capture/process_cpu_times.h"
#include "userspace/model/ids.h"

namespace proftrace {

class SilentProcesses {
 public:
  // One that used less CPU time in the window may well have only waited.
  static constexpr int64_t kLeastCpuNs = 100'000'000;
  // So many are named, the others counted.
  static constexpr size_t kMostNamed = 8;

  // Takes a record of the window. Cheap: called for each.
  void Observe(const abi::pt_record& head) {
    if (head.pid == last_pid_ || !IsOfRow(head.kind)) return;
    last_pid_ = head.pid;
    with_rows_.insert(head.pid);
  }

  // Names those of `pids` that had no row: "PID 17 (2.00 s of CPU time)". nullopt where all had one
  // or did not run. `explained`: processes of which is said elsewhere why they have none.
  std::optional<std::string> Describe(std::span<const Pid> pids, const ProcessCpuTimes& cpu_times,
                                      const std::set<uint32_t>& explained) const;

 private:
  // Whether a thread came to code that is recorded; not, say, that it forked or ended.
  static bool IsOfRow(uint8_t kind) {
    return kind != abi::PT_FORK && kind != abi::PT_EXEC && kind != abi::PT_THREAD_EXIT &&
           kind != abi::PT_LOSS_ANYWHERE && kind != abi::PT_COST && kind != abi::PT_COST_AGAIN;
  }

  absl::flat_hash_set<uint32_t> with_rows_;
  uint32_t last_pid_ = 0;
};

// Says why they are silent; `records_lost`: theirs may be among the lost ones.
std::string WhySilent(const std::string& processes, bool records_lost);

}  // namespace proftrace
