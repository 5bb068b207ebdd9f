// Measures how often the threads of some processes call operators, by one probe at the function
// that every operator calls. From these rates follows the cost of probes at all operators, before
// any such probe is there. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/model/ids.h"

namespace proftrace {

class OperatorRates {
 public:
  struct Thread {
    Pid pid{};
    Tid tid{};
    uint64_t operators = 0;
    // The time that the thread could have used: the stretch without the time that it waited for a
    // CPU (schedstat in Documentation/scheduler/sched-stats.rst of Linux), and without the time
    // that the counter took. A thread that is kept off the CPUs by others is slowed by probes as
    // much as one that is not.
    int64_t able_ns = 0;

    double operators_per_s() const {
      return able_ns <= 0 ? 0 : 1e9 * static_cast<double>(operators) / static_cast<double>(able_ns);
    }
  };

  // Begins the stretch in which the calls of the threads of `pids` are counted.
  void Begin(std::span<const Pid> pids);
  // Takes any record. Records that are not the counter's, or are of other processes, are left out.
  void Observe(const abi::pt_record& head);
  uint64_t operators() const { return operators_; }
  // Ends the stretch, in which the counter took `ns_per_call` of each call. Returns the thread with
  // the most operators a second of each process that called any.
  std::vector<Thread> End(double ns_per_call);

 private:
  struct Key {
    uint32_t pid;
    uint32_t tid;
    auto operator<=>(const Key&) const = default;
  };

  bool is_open_ = false;
  int64_t begin_ns_ = 0;
  uint64_t operators_ = 0;
  std::set<uint32_t> pids_;
  std::map<Key, int64_t> waited_ns_;  // how long each thread had waited for a CPU at the begin
  std::map<Key, uint64_t> calls_;
};

}  // namespace proftrace
