#include "userspace/aggregate/backward_modules.h"

#include <string_view>

namespace proftrace {
namespace {

constexpr std::string_view kAccumulator = "::AccumulateGrad";

}  // namespace

BackwardModules::BackwardModules(const Timeline& timeline)
    : timeline_(timeline), threads_(timeline.threads().size()) {
  for (const Label& label : timeline.labels()) {
    const bool is_engines = label.kind == SpanKind::kAutograd && label.scope == Scope::kFunction;
    is_engines_.push_back(is_engines);
    is_accumulator_.push_back(is_engines && label.name.ends_with(kAccumulator));
  }
}

BackwardModules::Place BackwardModules::Of(SpanId id, const Span& span) {
  if (span.is_apart) return {Part::kNone, timeline_.stack_of(id)};
  ThreadState& thread = threads_[Raw(span.thread)];
  // The parent was the last one of its depth.
  const bool has_parent = span.parent != kNoSpan && span.depth > 0;
  thread.open.resize(span.depth + size_t{1});
  const Place around = has_parent ? thread.open[span.depth - size_t{1}] : Place();
  return thread.open[span.depth] = PlaceOf(id, span, around, &thread.last);
}

BackwardModules::Place BackwardModules::PlaceOf(SpanId id, const Span& span, const Place& around,
                                                Last* last) const {
  const bool is_engines = is_engines_[Raw(span.label)];
  const SpanSequence sequence = timeline_.columns().sequence.at(id);
  const bool is_node = timeline_.label(span.label).scope == Scope::kBackwardFunction;
  const bool begins = around.part == Part::kNone && (is_engines || is_node);
  if (!begins && around.part == Part::kNone) {
    if (span.parent == last->parent) *last = {};  // something else came in between
    return {Part::kNone, timeline_.stack_of(id)};
  }
  Place place{begins ? Part::kOutermost : Part::kInside, around.stack};
  if ((is_engines || is_node) && sequence.forward_plus_1 != 0) {
    // Where the row around this one has no known module, this row counts as the outermost one of
    // both.
    if (around.stack == kNoStack) place.part = Part::kOutermost;
    place.stack = timeline_.own_stack_of(SpanId{sequence.forward_plus_1 - 1});
  } else if (begins && is_accumulator_[Raw(span.label)] && last->parent == span.parent) {
    place.stack = last->stack;
  } else if (is_node && place.stack == kNoStack) {
    place.stack = timeline_.stack_of(id);
  }
  if (begins) *last = {span.parent, place.stack};
  return place;
}

}  // namespace proftrace
