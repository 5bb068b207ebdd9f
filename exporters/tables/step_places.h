// Finds the place of the rows of steps in the tree of events. The parent of a step is the innermost
// annotation around it, and the step becomes the parent of the annotation's children that it
// encloses.
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

  // Returns the step that is the parent of the span, or of a span that encloses it, as an index
  // into rows(); nullopt: there is none.
  std::optional<size_t> Around(const Span& span) const { return rows_.Around(timeline_, span); }
  // Return the step around the event (nullopt: there is none), and whether the step is the event's
  // parent.
  std::optional<size_t> Around(const MemoryEvent& event) const;
  bool IsParentOf(size_t step, const MemoryEvent& event) const {
    return rows_.rows()[step].parent == event.parent;
  }

  // Return the span's self time and memory, where steps are its children instead of the rows in the
  // steps.
  int64_t SelfNs(SpanId id, const Span& span) const;
  SpanMemory MemoryOf(SpanId id) const;
  const SpanMemory& MemoryOfStep(size_t step) const { return memory_[step]; }

  // Returns how many bytes of a path in the step come before the step's name, in a cell without the
  // quotes around it.
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
  // What is to be taken off the sums of spans, by SpanId.
  absl::flat_hash_map<uint32_t, Sums> less_;
};

}  // namespace proftrace
