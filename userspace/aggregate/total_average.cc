#include "userspace/aggregate/key_averages.h"
#include "userspace/aggregate/memory_sums.h"
#include "userspace/base/saturating.h"

namespace proftrace {

double KeyAverage::cpu_time_us() const {
  if (count == 0) return 0;
  return static_cast<double>(cpu_time_total_ns) / 1000.0 / static_cast<double>(count);
}

void SystemSums::Add(const SystemSums& more) {
  self_off_cpu_ns = SaturatingSum(self_off_cpu_ns, more.self_off_cpu_ns);
  self_calls = SaturatingSum(self_calls, more.self_calls);
  self_faults = SaturatingSum(self_faults, more.self_faults);
  is_unknown |= more.is_unknown;
}

double KeyAverage::device_time_us() const {
  if (count == 0) return 0;
  return static_cast<double>(device_time_total_ns) / 1000.0 / static_cast<double>(count);
}

KeyAverage TotalAverage(const KeyAverages& averages) {
  KeyAverage total;
  total.name = "Total";
  for (const KeyAverage& row : averages.rows) {
    total.count += row.count;
    total.self_cpu_time_total_ns =
        SaturatingSum(total.self_cpu_time_total_ns, row.self_cpu_time_total_ns);
    total.cpu_time_total_ns = SaturatingSum(total.cpu_time_total_ns, row.cpu_time_total_ns);
    total.self_device_time_total_ns =
        SaturatingSum(total.self_device_time_total_ns, row.self_device_time_total_ns);
    total.device_time_total_ns =
        SaturatingSum(total.device_time_total_ns, row.device_time_total_ns);
    AddAll(row.memory, &total.memory);
    total.flops = SaturatingSum(total.flops, row.flops);
    if (!row.is_device) total.system.Add(row.system);
  }
  return total;
}

}  // namespace proftrace
