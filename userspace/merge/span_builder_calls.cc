// The part of SpanBuilder for CUDA calls, which come from a GPU agent with begin and end.
#include <algorithm>
#include <vector>

#include "userspace/merge/span_builder.h"

namespace proftrace {

absl::StatusOr<CallPlace> SpanBuilder::AddCall(const CompleteCall& call) {
  ThreadState& thread = StateOf(call.pid, call.tid);
  if (thread.last_call.row != kNoSpan && call.start_ns < thread.last_call_end_ns &&
      call.end_ns <= thread.last_call_end_ns) {
    return thread
        .last_call;  // the Driver's call does the Runtime's work, so it is no row, as in Kineto
  }
  CallPlace place;
  Frame* parent = nullptr;
  if (const Frame* around = thread.open.top(); around != nullptr) {
    parent = around->visible;
    place = {parent == nullptr ? kNoSpan : parent->span, around->op, around->annotation};
  }
  const bool is_inner = place.row != kNoSpan &&
                        IsCudaCall(timeline_->label(timeline_->span(place.row).label).category);
  if (call.is_shown && !is_inner) {
    Span span;
    span.start_ns = call.start_ns;
    span.duration_ns = span.self_ns = call.end_ns - call.start_ns;
    span.label = call.label;
    span.end = SpanEnd::kReturn;
    const absl::StatusOr<SpanId> id = AddRow(thread, place.row, span);
    if (!id.ok()) return id.status();
    CountEnd(SpanEnd::kReturn);
    column_status_.Update(timeline_->columns().cuda_call.Set(*id, call.facts));
    if (place.row != kNoSpan) {
      if (const StackId stack = timeline_->columns().stack.at(place.row); stack != kNoStack) {
        column_status_.Update(timeline_->columns().stack.Set(*id, stack));
      }
      // A thread makes one call at a time. Should they overlap all the same, no time counts twice.
      const int64_t from_ns = std::max(call.start_ns, parent->calls_end_ns);
      parent->children_ns += std::max<int64_t>(0, call.end_ns - from_ns);
      parent->calls_end_ns = std::max(parent->calls_end_ns, call.end_ns);
    }
    std::erase_if(thread.calls, [this, &call](SpanId other) {
      return timeline_->span(other).end_ns() <= call.start_ns;
    });
    thread.calls.push_back(*id);
    place.row = *id;
  } else if (!is_inner) {
    place.row = kNoSpan;
  } else if (timeline_->columns().cuda_call.at(place.row) == CudaCall{}) {
    // The call also has probes, because the agent came later than these did. Both make one row.
    column_status_.Update(timeline_->columns().cuda_call.Set(place.row, call.facts));
  }
  thread.last_call = place;
  thread.last_call_end_ns = call.end_ns;
  thread.last_ns = std::max(thread.last_ns, call.end_ns);
  last_ns_ = std::max(last_ns_, call.end_ns);
  if (!column_status_.ok()) return column_status_;
  return place;
}

void SpanBuilder::SettleCalls(const ThreadState& thread, Frame* frame, int64_t time_ns) {
  if (frame->calls_end_ns <= time_ns) return;
  // All these calls began before `time_ns`, so they share the time after it.
  frame->children_ns = std::max<int64_t>(0, frame->children_ns - (frame->calls_end_ns - time_ns));
  for (const SpanId id : thread.calls) {
    Span& call = timeline_->span(id);
    if (call.parent != frame->span || call.end_ns() <= time_ns) continue;
    call.overlaps = true;
    ++ledger_->partial_overlap;
  }
}

}  // namespace proftrace
