#include "exporters/tables/step_places.h"

#include "userspace/aggregate/step_memory.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

void Add(int64_t more, int64_t* sum) { *sum = SaturatingSum(*sum, more); }

}  // namespace

StepPlaces::StepPlaces(const Timeline& timeline, const StepRows& rows, CellForm form)
    : timeline_(timeline), rows_(rows), memory_(StepMemory(timeline, rows)) {
  for (size_t i = 0; i < rows.rows().size(); ++i) {
    const StepRows::Row& row = rows.rows()[i];
    size_t& bytes = path_bytes_.emplace_back(0);
    if (row.parent == kNoSpan) continue;
    PathId at = timeline.span(row.parent).path;
    // A row within a row of a cut path has the same path, except for its name.
    if (timeline.path(at).is_cut()) at = timeline.path(at).parent;
    for (; at != kRootPath; at = timeline.path(at).parent) {
      bytes += form.Escaped(timeline.label(timeline.path(at).label).name).size() + 1;
    }
    Sums& sums = less_[Raw(row.parent)];
    Add(row.self_ns, &sums.self_ns);
    Add(memory_[i].self_cpu_bytes, &sums.memory.self_cpu_bytes);
    Add(memory_[i].self_device_bytes, &sums.memory.self_device_bytes);
  }
}

std::optional<size_t> StepPlaces::Around(const MemoryEvent& event) const {
  const std::optional<size_t> step = StepOf(event, rows_);
  if (!step.has_value() || IsParentOf(*step, event)) return step;
  return event.parent == kNoSpan ? std::nullopt : Around(timeline_.span(event.parent));
}

int64_t StepPlaces::SelfNs(SpanId id, const Span& span) const {
  const auto it = less_.find(Raw(id));
  return it == less_.end() ? span.self_ns : SaturatingDifference(span.self_ns, it->second.self_ns);
}

SpanMemory StepPlaces::MemoryOf(SpanId id) const {
  SpanMemory memory = timeline_.columns().memory.at(id);
  const auto it = less_.find(Raw(id));
  if (it == less_.end()) return memory;
  const SpanMemory& less = it->second.memory;
  memory.self_cpu_bytes = SaturatingDifference(memory.self_cpu_bytes, less.self_cpu_bytes);
  memory.self_device_bytes = SaturatingDifference(memory.self_device_bytes, less.self_device_bytes);
  return memory;
}

}  // namespace proftrace
