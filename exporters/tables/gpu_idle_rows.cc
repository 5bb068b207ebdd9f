#include "exporters/tables/gpu_idle_rows.h"

#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

GpuIdleRow RowOf(const Timeline& timeline, const DeviceIdle& device, const IdleGap& gap) {
  const DeviceActivity& next = timeline.device_activities().at(gap.next_work);
  GpuIdleRow row;
  row.pid = Raw(device.pid);
  row.device = device.device;
  row.start_ns = timeline.ToUnixNs(gap.start_ns);
  row.duration_ns = gap.end_ns - gap.start_ns;
  row.main_cause = IdleCauseName(gap.main_cause());
  row.by_cause_ns = gap.by_cause_ns;
  if (next.call != kNoSpan) row.tid = Raw(timeline.thread(gap.thread).tid);
  row.next_stream = next.stream;
  row.next_name = timeline.device_name(next.name);
  if (next.op != kNoSpan) row.next_operator = timeline.label(timeline.span(next.op).label).name;
  if (gap.python != kNoStack) row.python_function = PythonFrameText(timeline, gap.python);
  row.stream = device.stream;
  return row;
}

}  // namespace

void ForEachGpuIdleRow(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                       absl::FunctionRef<bool(const GpuIdleRow&)> add) {
  for (const DeviceIdle& device : devices) {
    for (const IdleGap& gap : device.gaps) {
      if (!add(RowOf(timeline, device, gap))) return;
    }
  }
}

}  // namespace proftrace
