#include "userspace/merge/span_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "userspace/base/saturating.h"
#include "userspace/merge/thread_key.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr uint64_t SiteKey(Pid pid, uint16_t site) { return uint64_t{Raw(pid)} << 16 | site; }

// Returns the inner one of two annotations of one thread; the other one where one is null.
OpenFrame* Inner(OpenFrame* a, OpenFrame* b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return a->order > b->order ? a : b;
}

}  // namespace

SpanBuilder::SpanBuilder(const std::vector<Label>& labels, std::optional<int64_t> window_end_ns,
                         TimelineBuilder* timeline, Ledger* ledger)
    : labels_(labels),
      window_end_ns_(window_end_ns),
      timeline_(timeline),
      ledger_(ledger),
      forward_links_(timeline) {}

SpanBuilder::ThreadState& SpanBuilder::StateOf(Pid pid, Tid tid) {
  if (last_thread_ != nullptr && last_thread_->tid == tid && last_thread_->pid == pid) {
    return *last_thread_;
  }
  std::unique_ptr<ThreadState>& state = threads_[ThreadKey(pid, tid)];
  if (state == nullptr) {
    state = std::make_unique<ThreadState>();
    state->pid = pid;
    state->tid = tid;
  }
  last_thread_ = state.get();
  return *state;
}

bool SpanBuilder::IsOutside(const Event& event) const {
  return event.outside_window || (window_end_ns_.has_value() && event.time_ns > *window_end_ns_);
}

void SpanBuilder::SetDemoted(const std::vector<DemotedOperator>& demoted) {
  for (const DemotedOperator& one : demoted) {
    demoted_[SiteKey(one.pid, one.site)].push_back(one);
  }
}

bool SpanBuilder::IsOfCountedCall(const Event& end) const {
  if (demoted_.empty()) return false;
  const auto known = demoted_.find(SiteKey(end.pid, end.site));
  return known != demoted_.end() &&
         std::any_of(known->second.begin(), known->second.end(), [&end](const auto& demoted) {
           return end.time_ns >= demoted.since_ns &&
                  (demoted.until_ns == 0 || end.time_ns <= demoted.until_ns);
         });
}

LabelId SpanBuilder::TimelineLabel(EventLabel label) {
  if (label == kUnnamedLabel) {
    ++ledger_->unnamed;
    if (!unnamed_label_.has_value()) {
      Label unnamed;
      unnamed.name = "<unnamed>";
      unnamed_label_ = timeline_->InternLabel(unnamed);
    }
    return *unnamed_label_;
  }
  if (label_ids_.size() <= label) label_ids_.resize(labels_.size());
  std::optional<LabelId>& id = label_ids_[label];
  if (!id.has_value()) id = timeline_->InternLabel(labels_[label]);
  return *id;
}

absl::Status SpanBuilder::Add(const Event& event) {
  if (event.type == EventType::kGap) {
    for (auto& [key, state] : threads_) TruncateAll(*state, state->last_ns);
    for (Outliving* outliving : {&outliving_before_, &outliving_}) TruncateOutliving(outliving);
    memory_.OnGap();
    return column_status_;
  }
  ThreadState& thread = StateOf(event.pid, event.tid);
  absl::Status status;
  switch (event.type) {
    case EventType::kBegin:
      status = OnBegin(event, thread);
      break;
    case EventType::kEnd:
      OnEnd(event, thread);
      break;
    case EventType::kCatch:
      OnCatch(event, thread);
      break;
    case EventType::kAnnotationBegin:
      status = OnAnnotationBegin(event, thread);
      break;
    case EventType::kAnnotationHandle:
      OnAnnotationHandle(event, thread);
      break;
    case EventType::kAnnotationGuard:
      OnAnnotationGuard(event, thread);
      break;
    case EventType::kAnnotationEnd:
      OnAnnotationEnd(event, thread);
      break;
    case EventType::kGuardBegin:
    case EventType::kFrameBegin:
      status = OnGuardBegin(event, thread);
      break;
    case EventType::kGuardEnd:
      OnGuardEnd(event, thread);
      break;
    case EventType::kFrameEnd:
      OnFrameEnd(event, thread);
      break;
    case EventType::kLoss:
      OnLoss(event, thread);
      break;
    case EventType::kGap:
    case EventType::kWorkTitle:
      break;
    case EventType::kAllocation:
    case EventType::kFree:
    case EventType::kDeviceTotals:
    case EventType::kDeviceMemory:
    case EventType::kOutOfMemory:
      status = OnMemory(event, thread);
      break;
    case EventType::kSequence:
      OnSequence(event, thread);
      break;
    case EventType::kThreadNumber:
      forward_links_.SetThreadNumber(event.pid, event.tid, event.value);
      break;
    case EventType::kExec:
    case EventType::kThreadExit:
      if (event.type == EventType::kExec || event.value != 0) {
        TruncateProcess(event.pid, event.time_ns);
      } else {
        OnThreadExit(event, thread);
      }
      return status;
  }
  thread.last_ns = event.time_ns;
  last_ns_ = std::max(last_ns_, event.time_ns);
  return status.ok() ? column_status_ : status;
}

namespace {

// Returns whether the row comes from an at::RecordFunction. Others are of CUDA or the garbage
// collector.
bool TellsModules(const Label& label) {
  return (label.category == Category::kCpuOp || label.category == Category::kUserAnnotation) &&
         label.kind != SpanKind::kCollection;
}

}  // namespace

absl::StatusOr<OpenFrame*> SpanBuilder::Open(const Event& event, ThreadState& thread, Frame frame,
                                             bool is_below_top) {
  const Frame* around = is_below_top ? thread.open.top()->all.below : thread.open.top();
  Frame* parent_frame = around == nullptr ? nullptr : around->visible;
  const SpanId parent = parent_frame == nullptr ? kNoSpan : parent_frame->span;
  if (around != nullptr) {
    frame.op = around->op;
    frame.annotation = around->annotation;
  }
  frame.memory_at_begin = thread.memory;
  const bool outside = IsOutside(event);
  frame.is_dist_engine = IsDistEngine(event);
  const bool is_row = event.label != kHiddenLabel && !frame.is_dist_engine &&
                      !IsInnerCall(event, parent) && !IsBareNode(event, thread);
  if (outside && is_row) ++ledger_->outside_window;
  if (!outside && is_row) {
    Span span;
    span.start_ns = event.time_ns;
    span.label = TimelineLabel(event.label);
    span.is_async = timeline_->label(span.label).is_async;
    const absl::StatusOr<SpanId> id = AddRow(thread, parent, span);
    if (!id.ok()) return id.status();
    frame.span = *id;
    thread.opened_before = std::exchange(thread.opened, *id);
    const Category category = timeline_->label(span.label).category;
    if (category == Category::kCpuOp) frame.op = *id;
    if (category == Category::kUserAnnotation) frame.annotation = *id;
    if (const InputsId inputs = InputsOf(event, parent); inputs != kNoInputs) {
      column_status_.Update(timeline_->columns().inputs.Set(*id, inputs));
    }
    if (event.stack != kNoStack) {
      column_status_.Update(timeline_->columns().stack.Set(*id, event.stack));
    }
    if (event.script != kNoScript && TellsModules(timeline_->label(span.label))) {
      column_status_.Update(timeline_->columns().script.Set(*id, event.script));
    }
    if (event.type == EventType::kBegin && event.object != 0) {
      column_status_.Update(timeline_->columns().call_bytes.Set(*id, event.object));
    }
  }
  Frame* opened = thread.open.Push(frame, is_below_top);
  const bool is_visible = opened->span != kNoSpan;
  opened->visible = is_visible ? opened : parent_frame;
  if (is_visible && parent_frame != nullptr) {
    opened->parent = parent_frame;
    ++parent_frame->open_children;
  }
  return opened;
}

absl::StatusOr<SpanId> SpanBuilder::AddRow(ThreadState& thread, SpanId parent, Span span) {
  span.parent = parent;
  if (!thread.index.has_value()) thread.index = timeline_->AddThread(thread.pid, thread.tid, "");
  span.thread = *thread.index;
  PathId parent_path = kRootPath;
  if (parent != kNoSpan) {
    Span& above = timeline_->span(parent);
    if (above.child_count < std::numeric_limits<uint16_t>::max()) ++above.child_count;
    span.depth = static_cast<uint16_t>(
        std::min<uint32_t>(above.depth + 1u, std::numeric_limits<uint16_t>::max()));
    parent_path = above.path;
  }
  span.path = timeline_->InternPath(parent_path, span.label);
  if (timeline_->path(span.path).is_cut()) ++rows_of_cut_paths_;
  absl::StatusOr<SpanId> id = timeline_->AddSpan(span);
  if (id.ok()) ++ledger_->begins;
  return id;
}

bool SpanBuilder::IsInnerCall(const Event& event, SpanId parent) const {
  if (parent == kNoSpan || event.label >= labels_.size()) return false;
  if (labels_[event.label].kind == SpanKind::kCollection) {
    // CPython 3.13 enters the collector again, and leaves it at once, where what is collected asks
    // for a collection.
    SpanId above = parent;
    while (above != kNoSpan && !IsCollection(above)) above = timeline_->span(above).parent;
    return above != kNoSpan;
  }
  return labels_[event.label].category == Category::kCudaDriver &&
         IsCudaCall(timeline_->label(timeline_->span(parent).label).category);
}

bool SpanBuilder::IsCollection(SpanId span) const {
  return timeline_->label(timeline_->span(span).label).kind == SpanKind::kCollection;
}

bool SpanBuilder::IsEnginesLabel(EventLabel label) const {
  return label < labels_.size() && labels_[label].kind == SpanKind::kAutograd &&
         labels_[label].scope == Scope::kFunction;
}

bool SpanBuilder::IsDistEngine(const Event& event) const {
  return IsEnginesLabel(event.label) && labels_[event.label].name == kDistEngineName;
}

bool SpanBuilder::IsBareNode(const Event& event, const ThreadState& thread) const {
  const Frame* around = thread.open.top_call();
  return around != nullptr && around->is_dist_engine && IsEnginesLabel(event.label);
}

InputsId SpanBuilder::InputsOf(const Event& event, SpanId parent) const {
  if (event.inputs != kNoInputs || parent == kNoSpan || event.label >= labels_.size()) {
    return event.inputs;
  }
  const std::string& name = labels_[event.label].name;
  if (!TakesParentsInputs(name)) return kNoInputs;
  const Span& above = timeline_->span(parent);
  if (timeline_->label(above.label).name != "aten::" + name) return kNoInputs;
  // torch shows the whole Stack of an operator that is called boxed: its own arguments come last.
  const InputsId all = timeline_->columns().inputs.at(parent);
  return last_input_ ? last_input_(all) : all;
}

absl::Status SpanBuilder::OnBegin(const Event& event, ThreadState& thread) {
  CloseCallsWhile(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
  Frame frame;
  frame.sp = event.sp;
  frame.site = event.site;
  const absl::StatusOr<Frame*> opened = Open(event, thread, frame);
  if (!opened.ok()) return opened.status();
  if (event.value != 0) SetSequence(event, *opened);
  return absl::OkStatus();
}

void SpanBuilder::SetSequence(const Event& event, Frame* frame) {
  if (frame->span == kNoSpan || frame->has_sequence || event.value == 0) return;
  NumberRow(event, frame->span);
  frame->has_sequence = true;
}

void SpanBuilder::NumberRow(const Event& event, SpanId span) {
  SpanSequence sequence;
  sequence.number_plus_1 = static_cast<int64_t>(event.value);
  sequence.forward_number =
      event.type == EventType::kSequence ? static_cast<uint32_t>(event.object) : 0;
  column_status_.Update(timeline_->columns().sequence.Set(span, sequence));
}

void SpanBuilder::OnSequence(const Event& event, ThreadState& thread) {
  if (thread.open.empty()) return;
  Frame& frame = *thread.open.top();
  // One that began before the window, or whose begin was lost, is not there to get it.
  const bool is_it =
      frame.is_annotation ? frame.family == EventType::kGuardBegin : frame.sp == event.sp;
  if (!is_it) return;
  SetSequence(event, &frame);
  if (event.object == 0 || frame.span == kNoSpan || frame.span != thread.opened) return;
  // torch copies a node's number to the engine's row, if that is the row before it: one whose hooks
  // run operators first has none (torch/csrc/profiler/collection.cpp, materialize). It need not be
  // around the node's: what autograd.grad() is asked for is taken where its node would be called.
  const SpanId engine = thread.opened_before;
  if (engine == kNoSpan || !IsEngineRow(engine) || event.value == 0) return;
  for (Frame* open = thread.open.top(); open != nullptr; open = open->all.below) {
    if (open->span == engine) return SetSequence(event, open);
    if (open->span != kNoSpan && Raw(open->span) < Raw(engine)) break;  // it is over
  }
  NumberRow(event, engine);
  column_status_.Update(forward_links_.OnClose(thread.pid, thread.tid, engine));
}

bool SpanBuilder::IsEngineRow(SpanId span) const {
  const Label& label = timeline_->label(timeline_->span(span).label);
  return label.kind == SpanKind::kAutograd && label.scope == Scope::kFunction;
}

void SpanBuilder::OnEnd(const Event& event, ThreadState& thread) {
  CloseCallsWhile(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return StackIsBelow(frame.sp, event.sp); });
  Frame* call = thread.open.top_call();
  if (call != nullptr && call->site == event.site) {
    return Close(thread, call, event.time_ns, SpanEnd::kReturn);
  }
  // What is open encloses this call: its begin was not recorded.
  if (!IsOfCountedCall(event)) ++ledger_->unmatched_end;
}

void SpanBuilder::OnCatch(const Event& event, ThreadState& thread) {
  CloseCallsWhile(thread, event.time_ns, SpanEnd::kException,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
}

absl::Status SpanBuilder::OnAnnotationBegin(const Event& event, ThreadState& thread) {
  Frame frame;
  frame.is_annotation = true;
  frame.family = EventType::kAnnotationBegin;
  // The enter itself is an open hidden call. It returns before the annotation ends, so the
  // annotation goes below it.
  Frame* enter = thread.open.top();
  if (enter != nullptr && (enter->span != kNoSpan || enter->is_annotation)) enter = nullptr;
  const absl::StatusOr<Frame*> opened = Open(event, thread, frame, enter != nullptr);
  if (!opened.ok()) return opened.status();
  if (enter != nullptr) {
    enter->visible = (*opened)->visible;
    enter->annotation = (*opened)->annotation;
  }
  return absl::OkStatus();
}

void SpanBuilder::OnAnnotationHandle(const Event& event, ThreadState& thread) {
  OnAddressTaken(event);
  Frame* frame = thread.open.TopOf(EventType::kAnnotationBegin);
  if (frame != nullptr && frame->handle == 0) thread.open.SetHandle(frame, event.value);
}

void SpanBuilder::OnAnnotationGuard(const Event& event, ThreadState& thread) {
  OnAddressTaken(event);
  Frame* frame = thread.open.TopOf(EventType::kAnnotationBegin);
  if (frame != nullptr && frame->object == 0) thread.open.SetObject(frame, event.value);
}

void SpanBuilder::OnAnnotationEnd(const Event& event, ThreadState& thread) {
  constexpr EventType kFamily = EventType::kAnnotationBegin;
  Frame* frame = event.value == 0 ? thread.open.TopOf(kFamily)
                                  : Inner(thread.open.WithHandle(kFamily, event.value),
                                          thread.open.WithHandle(kFamily, 0));
  if (frame != nullptr) return Close(thread, frame, event.time_ns, SpanEnd::kReturn);
  const auto find = [&event](const OpenFrames& open) {
    return open.WithHandle(kFamily, event.value);
  };
  if (event.value == 0 || !CloseElsewhere(event, find)) ++ledger_->unmatched_end;
}

absl::Status SpanBuilder::OnGuardBegin(const Event& event, ThreadState& thread) {
  OnAddressTaken(event);
  // Two objects cannot be at one address: the earlier one has moved, or its end was lost.
  Frame* stale = nullptr;
  Frame* next = nullptr;
  for (Frame* other = thread.open.WithHandle(event.type, event.value); other != nullptr;
       other = next) {
    next = other->of_handle.below;
    // Frames of TorchScript move when another one begins after them.
    const bool may_have_moved =
        event.type == EventType::kFrameBegin && other->number < thread.script_frames;
    if (may_have_moved && other->object != event.object) {
      thread.open.ForgetHandle(other);
    } else {
      stale = other;
    }
  }
  if (event.type == EventType::kFrameBegin) ++thread.script_frames;
  if (stale != nullptr) Close(thread, stale, event.time_ns, SpanEnd::kLost);
  CloseCallsWhile(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
  Frame frame;
  frame.is_annotation = true;
  frame.family = event.type;
  frame.handle = event.value;
  frame.object = event.object;
  frame.number = thread.script_frames;
  return Open(event, thread, frame).status();
}

void SpanBuilder::OnGuardEnd(const Event& event, ThreadState& thread) {
  const SpanEnd end = event.unwound ? SpanEnd::kException : SpanEnd::kReturn;
  const auto find = [&event](const OpenFrames& open) {
    return Inner(open.WithHandle(EventType::kGuardBegin, event.value),
                 open.WithObject(EventType::kAnnotationBegin, event.value));
  };
  if (Frame* frame = find(thread.open); frame != nullptr) {
    // Calls from the function that the object belongs to are over, and so are theirs.
    CloseCallsWhile(thread, event.time_ns, event.unwound ? SpanEnd::kException : SpanEnd::kLost,
                    [&event](const Frame& call) { return StackIsBelow(call.sp, event.sp); });
    return Close(thread, frame, event.time_ns, end);
  }
  // Most objects that are destroyed made no row that we know of: their begin has other probes.
  CloseElsewhere(event, find);
}

void SpanBuilder::OnFrameEnd(const Event& event, ThreadState& thread) {
  if (event.object == 0) return;  // a frame that was moved from
  const auto by_place = [&event](const OpenFrames& open) {
    Frame* frame = open.WithHandle(EventType::kFrameBegin, event.value);
    while (frame != nullptr && frame->object != event.object) frame = frame->of_handle.below;
    return frame;
  };
  // A frame moves when the interpreter's vector grows: then the last one with its code is meant.
  const auto by_code = [&event](const OpenFrames& open) {
    return open.WithObject(EventType::kFrameBegin, event.object);
  };
  for (const bool moved : {false, true}) {
    Frame* frame = moved ? by_code(thread.open) : by_place(thread.open);
    if (frame != nullptr) return Close(thread, frame, event.time_ns, SpanEnd::kReturn);
    if (moved ? CloseElsewhere(event, by_code) : CloseElsewhere(event, by_place)) return;
  }
}

template <typename Find>
bool SpanBuilder::CloseElsewhere(const Event& event, Find find) {
  // A handle is an address that may be used again where an end was lost: the thread that began
  // something last has it.
  ThreadState* owner = nullptr;
  Frame* frame = nullptr;
  for (auto it = threads_.lower_bound(ThreadKey(event.pid, Tid{0}));
       it != threads_.end() && it->second->pid == event.pid; ++it) {
    ThreadState& other = *it->second;
    if (other.tid == event.tid) continue;
    Frame* found = find(other.open);
    if (found == nullptr || (owner != nullptr && other.last_ns <= owner->last_ns)) continue;
    owner = &other;
    frame = found;
  }
  const Outlived outlived = FindOutliving(event.pid, find);
  if (outlived.frame != nullptr &&
      (owner == nullptr || outlived.frame->thread_end_ns > owner->last_ns)) {
    frame = outlived.frame;
    owner = nullptr;
  }
  if (frame == nullptr) return false;
  if (frame->span != kNoSpan) {
    Span& span = timeline_->span(frame->span);
    span.is_async = span.ended_elsewhere = true;
  }
  if (owner == nullptr) {
    CloseOutlived(outlived, event.time_ns, SpanEnd::kReturn);
  } else {
    Close(*owner, frame, event.time_ns, SpanEnd::kReturn);
  }
  return true;
}

template <typename Predicate>
void SpanBuilder::CloseCallsWhile(ThreadState& thread, int64_t time_ns, SpanEnd end,
                                  Predicate is_over) {
  // Entry stack pointers fall from the bottom of the stack to its top: calls that are over are on
  // top.
  for (Frame* call = thread.open.top_call(); call != nullptr && is_over(*call);
       call = thread.open.top_call()) {
    Close(thread, call, time_ns, end);
  }
}

void SpanBuilder::Close(ThreadState& thread, Frame* frame, int64_t time_ns, SpanEnd end) {
  if (frame->all.above != nullptr) SettleChildren(frame, time_ns);
  SettleCalls(thread, frame, time_ns);
  if (frame->span == kNoSpan) return thread.open.Remove(frame);
  Span& span = timeline_->span(frame->span);
  span.end = end;
  span.duration_ns = std::max<int64_t>(0, time_ns - span.start_ns);
  span.self_ns = std::max<int64_t>(0, span.duration_ns - frame->children_ns);
  CountEnd(end);
  SetMemory(thread, *frame);
  if (frame->has_sequence) {
    column_status_.Update(forward_links_.OnClose(thread.pid, thread.tid, frame->span));
  }
  if (Frame* parent = frame->parent; parent != nullptr && !frame->parent_is_over) {
    --parent->open_children;
    parent->children_ns += span.duration_ns;
    if (!span.is_async) {  // torch has no place for those in its tree
      MemorySums& children = parent->memory_of_children;
      const MemorySums own = MemorySince(thread, *frame);
      children.cpu = SaturatingSum(children.cpu, own.cpu);
      children.device = SaturatingSum(children.device, own.device);
    }
  }
  thread.open.Remove(frame);
}

// A frame ends while some above it are still open: those outlive it.
void SpanBuilder::SettleChildren(Frame* ending, int64_t time_ns) {
  if (ending->span == kNoSpan) return;
  // One that was finished before, by the end of a row below it, finishes nothing (the same).
  const bool was_finished = ending->visible != ending;
  Frame* below = ending->all.below == nullptr ? nullptr : ending->all.below->visible;
  for (Frame* frame = ending->all.above; frame != nullptr; frame = frame->all.above) {
    if (was_finished && ending->open_children == 0) return;
    // torch.profiler finishes what is above an event that ends: what begins from here on belongs to
    // what lies below it (torch/csrc/profiler/collection.cpp, build_tree).
    if (!was_finished) frame->visible = below;
    if (frame->span == kNoSpan || frame->parent != ending || frame->parent_is_over) continue;
    Span& span = timeline_->span(frame->span);
    span.overlaps = true;
    frame->parent_is_over = true;
    --ending->open_children;
    ending->children_ns += std::max<int64_t>(0, time_ns - span.start_ns);
    ++ledger_->partial_overlap;
  }
}

void SpanBuilder::TruncateAll(ThreadState& thread, int64_t time_ns) {
  while (!thread.open.empty()) Close(thread, thread.open.top(), time_ns, SpanEnd::kTruncated);
}

void SpanBuilder::TruncateProcess(Pid pid, int64_t time_ns) {
  const auto first = threads_.lower_bound(ThreadKey(pid, Tid{0}));
  auto last = first;
  for (; last != threads_.end() && last->second->pid == pid; ++last) {
    TruncateAll(*last->second, time_ns);
  }
  for (Outliving* outliving : {&outliving_before_, &outliving_}) TruncateOutliving(pid, outliving);
  memory_.OnProcessEnd(pid);
  column_status_.Update(forward_links_.OnProcessEnd(pid));
  threads_.erase(first, last);
  last_thread_ = nullptr;
}

absl::Status SpanBuilder::Finish() {
  const int64_t end_ns = std::max(last_ns_, window_end_ns_.value_or(0));
  for (auto& [key, state] : threads_) TruncateAll(*state, end_ns);
  for (Outliving* outliving : {&outliving_before_, &outliving_}) TruncateOutliving(outliving);
  column_status_.Update(forward_links_.Finish());
  timeline_->SetMemorySummary(memory_.summary());
  return column_status_;
}

void SpanBuilder::CountEnd(SpanEnd end) {
  switch (end) {
    case SpanEnd::kReturn:
      ++ledger_->closed;
      break;
    case SpanEnd::kException:
      ++ledger_->end_by_exception;
      break;
    case SpanEnd::kLost:
      ++ledger_->end_lost;
      break;
    case SpanEnd::kTruncated:
      ++ledger_->truncated;
      break;
  }
}

}  // namespace proftrace
