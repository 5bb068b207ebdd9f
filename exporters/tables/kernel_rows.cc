#include "exporters/tables/kernel_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/base/saturating.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {

void SetDurations(std::vector<int64_t> durations_ns, KernelRow* row) {
  std::sort(durations_ns.begin(), durations_ns.end());
  const size_t count = durations_ns.size();
  row->calls = count;
  row->total_ns = 0;
  for (const int64_t ns : durations_ns) row->total_ns = SaturatingSum(row->total_ns, ns);
  row->median_ns = durations_ns[(count - 1) / 2];
  row->p99_ns = durations_ns[(count * 99 + 99) / 100 - 1];
  row->least_ns = durations_ns.front();
  row->longest_ns = durations_ns.back();
}

void ForEachKernelRow(const Timeline& timeline, absl::FunctionRef<bool(const KernelRow&)> add) {
  struct Work {
    std::vector<int64_t> durations_ns;
    int64_t bytes = 0;
  };
  // The work by process, GPU, kind and name.
  std::map<std::tuple<uint32_t, uint32_t, DeviceActivityKind, std::string_view>, Work> works;
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind)) continue;
    Work& work = works[{Raw(activity.pid), activity.device, activity.kind,
                        timeline.device_name(activity.name)}];
    work.durations_ns.push_back(activity.duration_ns);
    if (activity.kind == DeviceActivityKind::kKernel) continue;
    const auto most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    work.bytes =
        SaturatingSum(work.bytes, static_cast<int64_t>(std::min<uint64_t>(activity.bytes, most)));
  }
  for (auto& [key, work] : works) {
    const auto& [pid, device, kind, name] = key;
    KernelRow row;
    row.pid = pid;
    row.device = device;
    row.name = name;
    row.kind = DeviceCategoryName(kind);
    row.is_communication = kind == DeviceActivityKind::kKernel && IsCommunicationKernel(name);
    row.bytes = work.bytes;
    SetDurations(std::move(work.durations_ns), &row);
    if (!add(row)) return;
  }
}

}  // namespace proftrace
