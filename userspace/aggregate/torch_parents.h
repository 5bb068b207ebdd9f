// Parents of rows in torch's own tree of events (torch/autograd/profiler_util.py,
// _populate_cpu_children), which differ from the Timeline's for rows that events() leaves out, and
// where annotations overlap.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

// What the parent of a span in the Timeline, which has one, has less of its own for it.
struct PartOfParent {
  int64_t ns = 0;  // of the span, what lies in its parent
  int64_t cpu_bytes = 0;
  int64_t device_bytes = 0;
};
PartOfParent PartOfParentFor(const Timeline& timeline, SpanId id, const Span& span);

class TorchParents {
 public:
  // `timeline` must outlive this.
  explicit TorchParents(const Timeline& timeline);

  // kNoSpan: it has none.
  SpanId Of(SpanId id, const Span& span) const;
  // The same where that is another one than the Timeline has, because rows overlap.
  std::optional<SpanId> OtherOf(SpanId id, const Span& span) const;

 private:
  bool IsInTree(const Span& span) const { return !is_left_out_[Raw(span.label)] && !span.is_async; }
  // The nearest ancestor that is in the tree and contains the span.
  SpanId Nearest(const Span& span) const;

  const Timeline& timeline_;
  std::vector<bool> is_left_out_;  // by LabelId: rows that events() does not have
  // Of rows that lie in one that has outlived what it began in: it takes the other's place.
  absl::flat_hash_map<uint32_t, SpanId> others_;
  // Nearest() where that is not the parent, of threads on which rows overlap.
  absl::flat_hash_map<uint32_t, SpanId> nearest_;
};

}  // namespace proftrace
