// What must hold of every timeline, whatever bytes it came from. Aborts where it does not.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "exporters/formats.h"
#include "nlohmann/json.hpp"
#include "userspace/model/timeline.h"

namespace proftrace {

inline void Require(bool condition, const char* what, uint32_t span = 0) {
  if (condition) return;
  std::fprintf(stderr, "invariant broken: %s (span %u)\n", what, span);
  std::abort();
}

inline void CheckTimeline(const Timeline& timeline) {
  const Ledger& ledger = timeline.ledger();
  Require(ledger.ConservationHolds(), "conservation");
  Require(ledger.begins == timeline.span_count(), "a span for each begin");
  std::vector<int64_t> children_ns(timeline.span_count());
  std::vector<bool> has_overlap(timeline.span_count());
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    Require(span.duration_ns >= 0 && span.self_ns >= 0 && span.self_ns <= span.duration_ns,
            "self <= duration", i);
    Require(Raw(span.thread) < timeline.threads().size(), "thread", i);
    Require(Raw(span.label) < timeline.labels().size(), "label", i);
    Require(Raw(span.path) < timeline.paths().size(), "path", i);
    if (span.parent == kNoSpan) {
      Require(span.depth == 0, "depth of a root", i);
      continue;
    }
    Require(Raw(span.parent) < i, "a parent before its children", i);
    const Span& parent = timeline.span(span.parent);
    Require(parent.thread == span.thread, "a parent on the same thread", i);
    Require(span.depth == parent.depth + 1 || span.depth == UINT16_MAX, "depth", i);
    if (ledger.late > 0) continue;
    Require(parent.start_ns <= span.start_ns, "a child begins later", i);
    if (span.overlaps) {
      has_overlap[Raw(span.parent)] = true;
    } else {
      Require(span.end_ns() <= parent.end_ns(), "a child ends earlier", i);
      children_ns[Raw(span.parent)] += span.duration_ns;
    }
  }
  for (uint32_t i = 0; ledger.late == 0 && i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    if (!has_overlap[i])
      Require(span.self_ns == span.duration_ns - children_ns[i], "self times add up", i);
  }
}

// Every output, and those that are JSON read back.
inline void ExportAll(const Timeline& timeline) {
  const Aggregates aggregates = Aggregate(timeline, {});
  const TableOptions table;
  for (const Format& format : Formats()) {
    // Refused, and rightly so, where memory was not recorded.
    if (format.needs_memory && !timeline.has_memory()) continue;
    StringSink sink;
    Require(format.write({timeline, aggregates, table}, sink).ok(),
            "an output without a disk cannot fail");
    const bool is_json = format.name == "chrome" || format.name == "summary";
    if (is_json) Require(nlohmann::json::accept(sink.text()), "JSON that parses");
  }
}

}  // namespace proftrace
