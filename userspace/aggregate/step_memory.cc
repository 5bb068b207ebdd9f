#include "userspace/aggregate/step_memory.h"

#include "userspace/base/saturating.h"

namespace proftrace {

std::optional<size_t> StepOf(const MemoryEvent& event, const StepRows& steps) {
  return steps.At(event.thread, event.time_ns, event.time_ns);
}

std::vector<SpanMemory> StepMemory(const Timeline& timeline, const StepRows& steps) {
  std::vector<SpanMemory> rows(steps.rows().size());
  if (rows.empty()) return rows;
  const MemoryEventStore& events = timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    const std::optional<size_t> row = StepOf(event, steps);
    if (!row.has_value() || event.kind != MemoryEventKind::kUsage) continue;
    SpanMemory& memory = rows[*row];
    const auto add = [&event](int64_t* sum) { *sum = SaturatingSum(*sum, event.bytes); };
    if (event.is_cpu()) add(&memory.cpu_bytes);
    if (event.is_device()) add(&memory.device_bytes);
    if (event.parent != steps.rows()[*row].parent) continue;
    if (event.is_cpu()) add(&memory.self_cpu_bytes);
    if (event.is_device()) add(&memory.self_device_bytes);
  }
  return rows;
}

}  // namespace proftrace
