// Finds recorded processes that gave no row although they ran, so that nobody takes such a
// recording for a complete one. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "bpf/abi/records.h"
#include "userspace/capture/targets/process_cpu_times.h"
#include "userspace/model/ids.h"

namespace proftrace {

class SilentProcesses {
 public:
  // A process that used less CPU time than this in the window may have only waited.
  static constexpr int64_t kLeastCpuNs = 100'000'000;
  // How many processes are named; the others are counted.
  static constexpr size_t kMostNamed = 8;

  // Takes a record of the window. It must be cheap, because it is called for each record.
  void Observe(const abi::pt_record& head) {
    if (head.pid == last_pid_ || !IsOfRow(head.kind)) return;
    last_pid_ = head.pid;
    with_rows_.insert(head.pid);
  }

  // Names those of `pids` that had no row: "PID 17 (2.00 s of CPU time)". nullopt where each of
  // them had a row or did not run. `explained` has the processes for which another message says why
  // they have no row.
  std::optional<std::string> Describe(std::span<const Pid> pids, const ProcessCpuTimes& cpu_times,
                                      const std::set<uint32_t>& explained) const;

 private:
  // Whether a record says that a thread came to code which is recorded; a fork or an end, for
  // example, does not.
  static bool IsOfRow(uint8_t kind) {
    return kind != abi::PT_FORK && kind != abi::PT_EXEC && kind != abi::PT_THREAD_EXIT &&
           kind != abi::PT_LOSS_ANYWHERE && kind != abi::PT_COST && kind != abi::PT_COST_AGAIN;
  }

  absl::flat_hash_set<uint32_t> with_rows_;
  uint32_t last_pid_ = 0;
};

// Returns a sentence that says why these processes may be silent. With `records_lost`, their
// records may be among the lost ones.
std::string WhySilent(const std::string& processes, bool records_lost);

}  // namespace proftrace
