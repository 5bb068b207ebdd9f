// The part of SpanBuilder for rows that outlive the thread on which they began.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "userspace/base/saturating.h"
#include "userspace/merge/span_builder.h"
#include "userspace/merge/thread_key.h"

namespace proftrace {
namespace {

// Returns whether another thread may end the row. Ranges of ITT and NVTX end on their own thread:
// their handle is odd, which no pointer is.
bool MayEndElsewhere(const OpenFrame& frame) {
  const bool has_handle = frame.handle != 0 && frame.handle % 2 == 0;
  return frame.is_annotation && (has_handle || frame.object != 0);
}

}  // namespace

void SpanBuilder::OnThreadExit(const Event& event, ThreadState& thread) {
  std::vector<Frame> outliving;
  for (Frame* frame = thread.open.top(); frame != nullptr;) {
    Frame* below = frame->all.below;
    if (MayEndElsewhere(*frame)) {
      outliving.push_back(SetAside(event, thread, frame));
    } else {
      Close(thread, frame, event.time_ns, SpanEnd::kTruncated);
    }
    frame = below;
  }
  if (!outliving.empty()) {
    if (outliving_.count >= kMostOutliving / 2) {
      TruncateOutliving(&outliving_before_);
      std::swap(outliving_, outliving_before_);
    }
    std::unique_ptr<ThreadState>& state = outliving_.by_pid[event.pid];
    if (state == nullptr) state = std::make_unique<ThreadState>();
    for (size_t i = outliving.size(); i-- > 0;) {
      state->open.Push(outliving[i], /*is_below_top=*/false);
    }
    outliving_.count += outliving.size();
  }
  threads_.erase(ThreadKey(event.pid, event.tid));
  last_thread_ = nullptr;
}

OpenFrame SpanBuilder::SetAside(const Event& exit, ThreadState& thread, Frame* frame) {
  // The row around it ends with the thread, or separately, so this row's part in that row is known.
  if (Frame* parent = frame->parent; parent != nullptr && !frame->parent_is_over) {
    const int64_t start_ns = timeline_->span(frame->span).start_ns;
    const MemorySums memory = MemorySince(thread, *frame);
    MemorySums& children = parent->memory_of_children;
    --parent->open_children;
    parent->children_ns += std::max<int64_t>(0, exit.time_ns - start_ns);
    children.cpu = SaturatingSum(children.cpu, memory.cpu);
    children.device = SaturatingSum(children.device, memory.device);
  }
  if (frame->has_sequence) {
    column_status_.Update(forward_links_.OnClose(thread.pid, thread.tid, frame->span));
  }
  Frame facts = thread.open.Take(frame);
  MemorySums& at_begin = facts.memory_at_begin;
  at_begin.cpu = SaturatingDifference(at_begin.cpu, thread.memory.cpu);
  at_begin.device = SaturatingDifference(at_begin.device, thread.memory.device);
  facts.parent = facts.visible = nullptr;
  facts.parent_is_over = facts.has_sequence = false;
  facts.calls_end_ns = 0;
  facts.thread_end_ns = exit.time_ns;
  return facts;
}

SpanBuilder::Outlived SpanBuilder::FindOutliving(
    Pid pid, absl::FunctionRef<Frame*(const OpenFrames&)> find) {
  for (Outliving* where : {&outliving_, &outliving_before_}) {
    const auto found = where->by_pid.find(pid);
    if (found == where->by_pid.end()) continue;
    ThreadState* state = found->second.get();
    if (Frame* frame = find(state->open); frame != nullptr) return {where, state, frame};
  }
  return {};
}

void SpanBuilder::CloseOutlived(const Outlived& outlived, int64_t time_ns, SpanEnd end) {
  Close(*outlived.state, outlived.frame, time_ns, end);
  --outlived.where->count;
}

void SpanBuilder::OnAddressTaken(const Event& begin) {
  if (begin.value == 0 || (outliving_.count == 0 && outliving_before_.count == 0)) return;
  const auto find = [&begin](const OpenFrames& open) {
    if (begin.type == EventType::kAnnotationHandle) {
      return open.WithHandle(EventType::kAnnotationBegin, begin.value);
    }
    if (begin.type == EventType::kFrameBegin) return open.WithHandle(begin.type, begin.value);
    Frame* guard = open.WithHandle(EventType::kGuardBegin, begin.value);
    return guard != nullptr ? guard : open.WithObject(EventType::kAnnotationBegin, begin.value);
  };
  for (Outlived it = FindOutliving(begin.pid, find); it.frame != nullptr;
       it = FindOutliving(begin.pid, find)) {
    if (begin.type == EventType::kFrameBegin) {
      it.state->open.ForgetHandle(it.frame);  // the frame may have moved
    } else {
      CloseOutlived(it, it.frame->thread_end_ns, SpanEnd::kTruncated);
    }
  }
}

void SpanBuilder::TruncateOutliving(Outliving* outliving) {
  while (!outliving->by_pid.empty()) {
    const Pid pid = outliving->by_pid.begin()->first;
    TruncateOutliving(pid, outliving);
  }
}

void SpanBuilder::TruncateOutliving(Pid pid, Outliving* outliving) {
  const auto found = outliving->by_pid.find(pid);
  if (found == outliving->by_pid.end()) return;
  ThreadState* state = found->second.get();
  while (Frame* frame = state->open.top()) {
    CloseOutlived({outliving, state, frame}, frame->thread_end_ns, SpanEnd::kTruncated);
  }
  outliving->by_pid.erase(found);
}

}  // namespace proftrace
