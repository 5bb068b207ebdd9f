#include "exporters/tables/module_rows.h"

#include "userspace/aggregate/python_text.h"
#include "userspace/base/saturating.h"

namespace proftrace {

void ForEachModuleRow(const Timeline& timeline, const ModuleSums& sums,
                      absl::FunctionRef<bool(const ModuleRow&)> add) {
  for (const ModuleTimes& times : sums.modules) {
    const PythonModule& module = timeline.python_modules()[times.module];
    ModuleRow row;
    row.pid = Raw(module.pid);
    row.path = module.path;
    // The number is shown only where the row is a single instance.
    row.module_class = times.instances > 1 ? module.class_name : PythonModuleText(module);
    row.calls = times.calls;
    row.forward_us = {times.forward_ns};
    row.self_forward_us = {times.self_forward_ns};
    row.backward_us = {times.backward_ns};
    row.self_backward_us = {times.self_backward_ns};
    if (sums.total_ns > 0) {
      const int64_t both_ns = SaturatingSum(times.forward_ns, times.backward_ns);
      row.percent =
          Decimal{static_cast<double>(both_ns) * 100.0 / static_cast<double>(sums.total_ns), 4};
    }
    row.operators = times.operators;
    if (timeline.has_memory()) row.cpu_memory_bytes = times.cpu_memory_bytes;
    row.instances = times.instances;
    if (!add(row)) return;
  }
}

}  // namespace proftrace
