#include "userspace/capture/kernel/system_cost.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/base/median.h"

namespace proftrace {
namespace {

constexpr int kRounds = 9;
constexpr size_t kCallsInRound = 100;
// So many that the memory of a round, 4 MB, comes from and goes into the caches of a job.
constexpr size_t kFaultsInRound = 1000;
constexpr size_t kPageBytes = 4096;

double CallNs() {
  std::vector<int64_t> times;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin_ns = MonotonicNs();
    for (size_t i = 0; i < kCallsInRound; ++i) (void)lseek(-1, 0, SEEK_CUR);
    times.push_back(MonotonicNs() - begin_ns);
  }
  return static_cast<double>(Median(std::move(times))) / kCallsInRound;
}

// Takes the fastest round: in some rounds of some loops the host of a virtual machine has to find
// the memory, which takes longer than a record.
std::optional<double> FaultNs() {
  constexpr size_t kBytes = kFaultsInRound * kPageBytes;
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  for (int round = 0; round < kRounds; ++round) {
    void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return std::nullopt;
    (void)madvise(pages, kBytes, MADV_NOHUGEPAGE);  // one fault for each page
    const int64_t begin_ns = MonotonicNs();
    for (size_t at = 0; at < kBytes; at += kPageBytes) {
      static_cast<volatile char*>(pages)[at] = 1;
    }
    least_ns = std::min(least_ns, MonotonicNs() - begin_ns);
    munmap(pages, kBytes);
  }
  return static_cast<double>(least_ns) / kFaultsInRound;
}

double Excess(const std::optional<double>& more_ns, const std::optional<double>& less_ns) {
  return more_ns && less_ns ? std::max(0.0, *more_ns - *less_ns) : 0;
}

}  // namespace

LoopTimes TimeLoops(bool calls, bool faults) {
  LoopTimes times;
  if (calls) times.call_ns = CallNs();
  if (faults) times.fault_ns = FaultNs();
  return times;
}

SystemCost CostOfRecords(const LoopTimes& plain, const LoopTimes& recorded,
                         std::vector<uint64_t> fault_ns) {
  SystemCost cost;
  cost.call = Excess(recorded.call_ns, plain.call_ns);
  cost.fault = Excess(recorded.fault_ns, plain.fault_ns);
  if (!fault_ns.empty()) {
    const auto in_record = static_cast<double>(Median(std::move(fault_ns)));
    cost.fault_beside = Excess(plain.fault_ns, in_record);
  }
  return cost;
}

}  // namespace proftrace
