#include "userspace/aggregate/torch_parents.h"

#include <algorithm>

#include "userspace/aggregate/key_averages.h"

namespace proftrace {
namespace {

// Whether torch would take `parent` for a parent of `span`, by their times.
bool Contains(const Span& parent, const Span& span) {
  return span.start_ns < parent.end_ns() && span.end_ns() <= parent.end_ns();
}

}  // namespace

PartOfParent PartOfParentFor(const Timeline& timeline, SpanId id, const Span& span) {
  PartOfParent part;
  part.ns = std::min(span.end_ns(), timeline.span(span.parent).end_ns()) - span.start_ns;
  // Bytes only where it lies in its parent, and is not async.
  if (span.is_async || span.overlaps) return part;
  const SpanMemory memory = timeline.columns().memory.at(id);
  part.cpu_bytes = memory.cpu_bytes;
  part.device_bytes = memory.device_bytes;
  return part;
}

TorchParents::TorchParents(const Timeline& timeline) : timeline_(timeline) {
  for (const Label& label : timeline.labels()) is_left_out_.push_back(IsFilteredName(label.name));
  if (timeline.ledger().partial_overlap == 0) return;
  std::vector<bool> has_overlaps(timeline.threads().size());
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    if (span.overlaps) has_overlaps[Raw(span.thread)] = true;
  }
  std::vector<std::vector<SpanId>> open(timeline.threads().size());
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const SpanId id{i};
    const Span& span = timeline.span(id);
    if (!has_overlaps[Raw(span.thread)]) continue;
    const SpanId nearest = Nearest(span);
    if (nearest != span.parent) nearest_[i] = nearest;
    if (!IsInTree(span)) continue;
    std::vector<SpanId>& stack = open[Raw(span.thread)];
    while (!stack.empty() && !Contains(timeline.span(stack.back()), span)) stack.pop_back();
    const SpanId parent = stack.empty() ? kNoSpan : stack.back();
    if (parent != nearest) others_[i] = parent;
    stack.push_back(id);
  }
}

SpanId TorchParents::Nearest(const Span& span) const {
  SpanId parent = span.parent;
  while (parent != kNoSpan) {
    const Span& above = timeline_.span(parent);
    const bool contains = Contains(above, span);
    if (contains && IsInTree(above)) break;
    // What does not contain `above` does not contain what outlives it.
    const auto known = contains ? nearest_.end() : nearest_.find(Raw(parent));
    parent = known == nearest_.end() ? above.parent : known->second;
  }
  return parent;
}

SpanId TorchParents::Of(SpanId id, const Span& span) const {
  if (span.is_async) return kNoSpan;
  const auto found = others_.find(Raw(id));
  return found == others_.end() ? Nearest(span) : found->second;
}

std::optional<SpanId> TorchParents::OtherOf(SpanId id, const Span& span) const {
  const bool may_differ = others_.contains(Raw(id)) || nearest_.contains(Raw(id));
  if (!may_differ || !IsInTree(span)) return std::nullopt;
  SpanId plain = span.parent;
  while (plain != kNoSpan && !IsInTree(timeline_.span(plain))) plain = timeline_.span(plain).parent;
  const SpanId parent = Of(id, span);
  return parent == plain ? std::nullopt : std::optional(parent);
}

}  // namespace proftrace
