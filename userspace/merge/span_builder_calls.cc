// CUDA calls that come whole, from a GPU agent.
#include <algorithm>

#include "userspace/merge/span_builder.h"

namespace proftrace {

absl::StatusOr<CallPlace> SpanBuilder::AddCall(const CompleteCall& call) {
  ThreadState& thread = StateOf(call.pid, call.tid);
  if (thread.last_call.row != kNoSpan && call.start_ns < thread.last_call_end_ns &&
      call.end_ns <= thread.last_call_end_ns) {
    return thread
        .last_call;  // the Driver does what the Runtime was called for: no row, as in Kineto
  }
  CallPlace place;
  if (!thread.stack.empty()) {
    const Frame& around = thread.stack.back();
    place = {around.visible, around.op, around.annotation};
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
      // The frame of the row that it lies in; hidden ones may be above.
      for (size_t i = thread.stack.size(); i-- > 0;) {
        if (thread.stack[i].span != place.row) continue;
        thread.stack[i].children_ns += span.duration_ns;
        thread.stack[i].last_call = *id;
        break;
      }
    }
    place.row = *id;
  } else if (!is_inner) {
    place.row = kNoSpan;
  }
  thread.last_call = place;
  thread.last_call_end_ns = call.end_ns;
  thread.last_ns = std::max(thread.last_ns, call.end_ns);
  last_ns_ = std::max(last_ns_, call.end_ns);
  if (!column_status_.ok()) return column_status_;
  return place;
}

void SpanBuilder::SettleCall(Frame* frame, int64_t time_ns) {
  if (frame->last_call == kNoSpan) return;
  Span& call = timeline_->span(frame->last_call);
  if (call.end_ns() <= time_ns) return;
  call.overlaps = true;
  frame->children_ns -= std::min(call.duration_ns, call.end_ns() - time_ns);
  ++ledger_->partial_overlap;
}

}  // namespace proftrace
