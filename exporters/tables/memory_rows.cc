#include "exporters/tables/memory_rows.h"

#include <vector>

#include "userspace/aggregate/memory_uses.h"

namespace proftrace {
namespace {

MemoryRow RowOf(const Timeline& timeline, const MemoryCurve& curve, const MemoryUse& use) {
  MemoryRow row;
  row.pid = Raw(curve.pid);
  row.device = curve.DeviceText();
  row.start_ns = timeline.ToUnixNs(use.begin_ns);
  row.end_ns = timeline.ToUnixNs(use.end_ns);
  row.allocations = use.allocations;
  row.frees = use.frees;
  row.allocated_bytes = use.allocated_bytes;
  row.freed_bytes = use.freed_bytes;
  row.begin_bytes = use.begin_bytes;
  row.peak_bytes = use.peak_bytes;
  row.end_bytes = use.end_bytes;
  return row;
}

}  // namespace

void ForEachMemoryRow(const Timeline& timeline, const Steps& steps,
                      absl::FunctionRef<bool(const MemoryRow&)> add) {
  const Window& window = timeline.info().window;
  for (const MemoryCurve& curve : MemoryCurves(timeline)) {
    // The stretch covers all events, also those of a recorder that was killed.
    if (auto use = MemoryUsesIn(timeline, curve, {Stretch(0, INT64_MAX)}).front()) {
      use->begin_ns = window.start_ns;
      use->end_ns = window.start_ns + window.duration_ns;
      MemoryRow row = RowOf(timeline, curve, *use);
      if (!timeline.info().has_end) row.end_ns.reset();
      if (!add(row)) return;
    }
    for (const ProcessSteps& process : steps.processes) {
      if (process.pid != curve.pid) continue;
      std::vector<Stretch> stretches;
      for (const Step& step : process.steps) stretches.emplace_back(step.start_ns, step.end_ns);
      const auto uses = MemoryUsesIn(timeline, curve, stretches);
      for (size_t i = 0; i < uses.size(); ++i) {
        if (!uses[i]) continue;
        MemoryRow row = RowOf(timeline, curve, *uses[i]);
        row.step = process.steps[i].number;
        if (!add(row)) return;
      }
    }
  }
}

}  // namespace proftrace
