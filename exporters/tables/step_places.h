// Finds where the rows of steps stand in the tree of events: a step lies in the innermost
// annotation around it, and is the parent of what lies in both.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "exporters/tables/cell_form.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class StepPlaces {
 public:
  // Both must outlive this. `form`: that of the paths.
  StepPlaces(const Timeline& timeline, const StepRows& rows, CellForm form);

  // Returns the step that is the parent of the span, or of one that it lies in: index into rows().
  std::optional<size_t> Around(const Span& span) const { return rows_.Around(timeline_, span); }
  // Returns the step that the event lies in, and whether nothing lies between.
  std::optional<size_t> Around(const MemoryEvent& event) const;
  bool IsParentOf(size_t step, const MemoryEvent& event) const {
    return rows_.rows()[step].parent == event.parent;
  }

  // Return the span's own time and memory, where steps are its children in place of what lies in
  // them.
  int64_t SelfNs(SpanId id, const Span& span) const;
  SpanMemory MemoryOf(SpanId id) const;
  const SpanMemory& MemoryOfStep(size_t step) const { return memory_[step]; }

  // Returns how much of a path in the step, as a cell has it without quotes around it, comes
  // before the step's name.
  size_t PathBytesBefore(size_t step) const { return path_bytes_[step]; }

 private:
  const Timeline& timeline_;
  const StepRows& rows_;
  std::vector<SpanMemory> memory_;
  std::vector<size_t> path_bytes_;
  struct Sums {
    int64_t self_ns = 0;
    SpanMemory memory;
  };
  absl::flat_hash_map<uint32_t, Sums> less_;  // what spans' own sums are short of, by SpanId
};

}  // namespace proftrace
