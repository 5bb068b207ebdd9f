// Visits all spans of a recording, of which there may be more than fit in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "userspace/model/timeline.h"

namespace proftrace {

// Calls visit(SpanId, const Span&) for each span, in the order of their start; the memory of spans
// that lie in a file is released again.
template <typename Visitor>
void ForEachSpan(const Timeline& timeline, Visitor&& visit) {
  const SpanStore& spans = timeline.spans();
  for (uint32_t chunk = 0; chunk < spans.chunk_count(); ++chunk) {
    const uint32_t first = chunk * SpanStore::kChunkItems;
    const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
    for (uint32_t index = first; index < last; ++index) visit(SpanId{index}, spans.at(index));
    spans.Release(chunk);
  }
}

}  // namespace proftrace
