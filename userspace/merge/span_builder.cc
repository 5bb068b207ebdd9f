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
      TruncateProcess(event.pid, event.time_ns);
      return status;
    case EventType::kThreadExit:
      if (event.value != 0) {
        TruncateProcess(event.pid, event.time_ns);
      } else {
        TruncateAll(thread, event.time_ns);
        threads_.erase(ThreadKey(event.pid, event.tid));
        last_thread_ = nullptr;
      }
      return status;
  }
  thread.last_ns = event.time_ns;
  last_ns_ = std::max(last_ns_, event.time_ns);
  return status.ok() ? column_status_ : status;
}

absl::Status SpanBuilder::Open(const Event& event, ThreadState& thread, Frame frame) {
  const SpanId parent = thread.stack.empty() ? kNoSpan : thread.stack.back().visible;
  frame.visible = parent;
  if (!thread.stack.empty()) {
    frame.op = thread.stack.back().op;
    frame.annotation = thread.stack.back().annotation;
  }
  frame.memory_at_begin = thread.memory;
  const bool outside = IsOutside(event);
  const bool is_row = event.label != kHiddenLabel && !IsInnerCall(event, parent);
  if (outside && is_row) ++ledger_->outside_window;
  if (!outside && is_row) {
    Span span;
    span.start_ns = event.time_ns;
    span.label = TimelineLabel(event.label);
    const absl::StatusOr<SpanId> id = AddRow(thread, parent, span);
    if (!id.ok()) return id.status();
    frame.span = frame.visible = *id;
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
    if (event.type == EventType::kBegin && event.object != 0) {
      column_status_.Update(timeline_->columns().call_bytes.Set(*id, event.object));
    }
  }
  thread.stack.push_back(frame);
  return absl::OkStatus();
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
  absl::StatusOr<SpanId> id = timeline_->AddSpan(span);
  if (id.ok()) ++ledger_->begins;
  return id;
}

bool SpanBuilder::IsInnerCall(const Event& event, SpanId parent) const {
  if (parent == kNoSpan || event.label >= labels_.size()) return false;
  return labels_[event.label].category == Category::kCudaDriver &&
         IsCudaCall(timeline_->label(timeline_->span(parent).label).category);
}

InputsId SpanBuilder::InputsOf(const Event& event, SpanId parent) const {
  if (event.inputs != kNoInputs || parent == kNoSpan || event.label >= labels_.size()) {
    return event.inputs;
  }
  const std::string& name = labels_[event.label].name;
  if (!TakesParentsInputs(name)) return kNoInputs;
  const Span& above = timeline_->span(parent);
  if (timeline_->label(above.label).name != "aten::" + name) return kNoInputs;
  // Of an operator that is called boxed torch shows the whole Stack: its own arguments come last.
  const InputsId all = timeline_->columns().inputs.at(parent);
  return last_input_ ? last_input_(all) : all;
}

absl::Status SpanBuilder::OnBegin(const Event& event, ThreadState& thread) {
  CloseCallsWhere(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
  Frame frame;
  frame.sp = event.sp;
  frame.site = event.site;
  if (absl::Status status = Open(event, thread, frame); !status.ok()) return status;
  if (event.value != 0) SetSequence(event, &thread.stack.back());
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
  if (thread.stack.empty()) return;
  Frame& frame = thread.stack.back();
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
  for (size_t i = thread.stack.size(); i-- > 0;) {  // it is near the top, if it is open
    if (thread.stack[i].span == engine) return SetSequence(event, &thread.stack[i]);
  }
  NumberRow(event, engine);
  column_status_.Update(forward_links_.OnClose(thread.pid, thread.tid, engine));
}

bool SpanBuilder::IsEngineRow(SpanId span) const {
  const Label& label = timeline_->label(timeline_->span(span).label);
  return label.kind == SpanKind::kAutograd && label.scope == Scope::kFunction;
}

void SpanBuilder::OnEnd(const Event& event, ThreadState& thread) {
  CloseCallsWhere(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return StackIsBelow(frame.sp, event.sp); });
  for (size_t i = thread.stack.size(); i-- > 0;) {
    if (thread.stack[i].is_annotation) continue;
    if (thread.stack[i].site == event.site) {
      Close(thread, i, event.time_ns, SpanEnd::kReturn);
      return;
    }
    break;  // what is open encloses this call: its begin was not recorded
  }
  if (!IsOfCountedCall(event)) ++ledger_->unmatched_end;
}

void SpanBuilder::OnCatch(const Event& event, ThreadState& thread) {
  CloseCallsWhere(thread, event.time_ns, SpanEnd::kException,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
}

absl::Status SpanBuilder::OnAnnotationBegin(const Event& event, ThreadState& thread) {
  Frame frame;
  frame.is_annotation = true;
  frame.family = EventType::kAnnotationBegin;
  // The enter itself is an open hidden call. It returns before the annotation ends, so the
  // annotation goes below it.
  std::optional<Frame> enter;
  if (!thread.stack.empty() && thread.stack.back().span == kNoSpan &&
      !thread.stack.back().is_annotation) {
    enter = thread.stack.back();
    thread.stack.pop_back();
  }
  if (absl::Status status = Open(event, thread, frame); !status.ok()) return status;
  if (enter.has_value()) {
    enter->visible = thread.stack.back().visible;
    enter->annotation = thread.stack.back().annotation;
    thread.stack.push_back(*enter);
  }
  return absl::OkStatus();
}

void SpanBuilder::OnAnnotationHandle(const Event& event, ThreadState& thread) {
  for (size_t i = thread.stack.size(); i-- > 0;) {
    Frame& frame = thread.stack[i];
    if (frame.family != EventType::kAnnotationBegin) continue;
    if (frame.handle == 0) frame.handle = event.value;
    return;
  }
}

void SpanBuilder::OnAnnotationGuard(const Event& event, ThreadState& thread) {
  for (size_t i = thread.stack.size(); i-- > 0;) {
    Frame& frame = thread.stack[i];
    if (frame.family != EventType::kAnnotationBegin) continue;
    if (frame.object == 0) frame.object = event.value;
    return;
  }
}

void SpanBuilder::OnAnnotationEnd(const Event& event, ThreadState& thread) {
  const auto find = [&event](const std::vector<Frame>& stack) -> std::optional<size_t> {
    for (size_t i = stack.size(); i-- > 0;) {
      if (stack[i].family != EventType::kAnnotationBegin) continue;
      if (stack[i].handle == event.value || stack[i].handle == 0 || event.value == 0) return i;
    }
    return std::nullopt;
  };
  if (const std::optional<size_t> position = find(thread.stack)) {
    Close(thread, *position, event.time_ns, SpanEnd::kReturn);
    return;
  }
  const auto is_it = [&event](const Frame& frame) {
    return frame.family == EventType::kAnnotationBegin && frame.handle == event.value;
  };
  if (event.value == 0 || !CloseElsewhere(event, is_it)) ++ledger_->unmatched_end;
}

absl::Status SpanBuilder::OnGuardBegin(const Event& event, ThreadState& thread) {
  // Two objects cannot be at one address: the earlier one has moved, or its end was lost.
  size_t stale = thread.stack.size();
  for (size_t i = thread.stack.size(); i-- > 0;) {
    Frame& other = thread.stack[i];
    if (other.family != event.type) continue;
    const bool is_same = other.handle == event.value;
    if (is_same && other.may_have_moved && other.object != event.object) {
      other.handle = 0;
    } else if (is_same) {
      stale = i;
    }
    other.may_have_moved |= event.type == EventType::kFrameBegin;
  }
  if (stale < thread.stack.size()) Close(thread, stale, event.time_ns, SpanEnd::kLost);
  CloseCallsWhere(thread, event.time_ns, SpanEnd::kLost,
                  [&event](const Frame& frame) { return !StackIsBelow(event.sp, frame.sp); });
  Frame frame;
  frame.is_annotation = true;
  frame.family = event.type;
  frame.handle = event.value;
  frame.object = event.object;
  return Open(event, thread, frame);
}

void SpanBuilder::OnGuardEnd(const Event& event, ThreadState& thread) {
  const SpanEnd end = event.unwound ? SpanEnd::kException : SpanEnd::kReturn;
  const auto is_it = [&event](const Frame& frame) {
    return (frame.family == EventType::kGuardBegin && frame.handle == event.value) ||
           (frame.family == EventType::kAnnotationBegin && frame.object == event.value);
  };
  for (size_t i = thread.stack.size(); i-- > 0;) {
    if (!is_it(thread.stack[i])) continue;
    // Calls from the function that the object belongs to are over, and so are theirs.
    CloseCallsWhere(thread, event.time_ns, event.unwound ? SpanEnd::kException : SpanEnd::kLost,
                    [&event](const Frame& frame) { return StackIsBelow(frame.sp, event.sp); });
    for (size_t j = std::min(i + 1, thread.stack.size()); j-- > 0;) {
      if (is_it(thread.stack[j])) return Close(thread, j, event.time_ns, end);
    }
    return;
  }
  // Most objects that are destroyed made no row that we know of: their begin has other probes.
  CloseElsewhere(event, is_it);
}

void SpanBuilder::OnFrameEnd(const Event& event, ThreadState& thread) {
  if (event.object == 0) return;  // a frame that was moved from
  const auto has_code = [&event](const Frame& frame) {
    return frame.family == EventType::kFrameBegin && frame.object == event.object;
  };
  const auto is_it = [&](const Frame& frame) {
    return has_code(frame) && frame.handle == event.value;
  };
  // A frame moves when the interpreter's vector grows: then the last one with its code is meant.
  for (const bool moved : {false, true}) {
    for (size_t i = thread.stack.size(); i-- > 0;) {
      if (!(moved ? has_code(thread.stack[i]) : is_it(thread.stack[i]))) continue;
      return Close(thread, i, event.time_ns, SpanEnd::kReturn);
    }
    if (moved ? CloseElsewhere(event, has_code) : CloseElsewhere(event, is_it)) return;
  }
}

template <typename Predicate>
bool SpanBuilder::CloseElsewhere(const Event& event, Predicate is_it) {
  // A handle is an address that may be used again where an end was lost: the thread that began
  // something last has it.
  ThreadState* owner = nullptr;
  size_t position = 0;
  const auto is_later = [](const ThreadState& a, const ThreadState& b) {
    return a.last_ns != b.last_ns ? a.last_ns > b.last_ns : a.tid < b.tid;
  };
  for (auto& [key, other] : threads_) {
    if (other->pid != event.pid || other->tid == event.tid) continue;
    for (size_t i = other->stack.size(); i-- > 0;) {
      if (!is_it(other->stack[i])) continue;
      if (owner == nullptr || is_later(*other, *owner)) {
        owner = other.get();
        position = i;
      }
      break;
    }
  }
  if (owner == nullptr) return false;
  const SpanId span = owner->stack[position].span;
  if (span != kNoSpan) timeline_->span(span).is_async = true;
  Close(*owner, position, event.time_ns, SpanEnd::kReturn);
  return true;
}

template <typename Predicate>
void SpanBuilder::CloseCallsWhere(ThreadState& thread, int64_t time_ns, SpanEnd end,
                                  Predicate is_over) {
  // Entry stack pointers fall from the bottom of the stack to its top: calls that are over are on
  // top.
  size_t lowest = thread.stack.size();
  for (size_t i = thread.stack.size(); i-- > 0;) {
    if (thread.stack[i].is_annotation) continue;
    if (!is_over(thread.stack[i])) break;
    lowest = i;
  }
  for (size_t i = thread.stack.size(); i-- > lowest;) {
    if (!thread.stack[i].is_annotation) Close(thread, i, time_ns, end);
  }
}

void SpanBuilder::Close(ThreadState& thread, size_t position, int64_t time_ns, SpanEnd end) {
  if (position + 1 < thread.stack.size()) SettleChildren(thread, position, time_ns);
  SettleCalls(thread, &thread.stack[position], time_ns);
  const Frame frame = thread.stack[position];
  thread.stack.erase(thread.stack.begin() + static_cast<ptrdiff_t>(position));
  if (frame.span == kNoSpan) return;
  Span& span = timeline_->span(frame.span);
  span.end = end;
  span.duration_ns = std::max<int64_t>(0, time_ns - span.start_ns);
  span.self_ns = std::max<int64_t>(0, span.duration_ns - frame.children_ns);
  CountEnd(end);
  SetMemory(thread, frame);
  if (frame.has_sequence) {
    column_status_.Update(forward_links_.OnClose(thread.pid, thread.tid, frame.span));
  }
  if (frame.parent_is_over || span.parent == kNoSpan) return;
  // The parent's frame is below; hidden frames lie between at most.
  for (size_t i = position; i-- > 0;) {
    if (thread.stack[i].span != span.parent) continue;
    thread.stack[i].children_ns += span.duration_ns;
    if (!span.is_async) {  // torch has no place for those in its tree
      MemorySums& children = thread.stack[i].memory_of_children;
      const MemorySums own = MemorySince(thread, frame);
      children.cpu = SaturatingSum(children.cpu, own.cpu);
      children.device = SaturatingSum(children.device, own.device);
    }
    return;
  }
}

SpanBuilder::MemorySums SpanBuilder::MemorySince(const ThreadState& thread, const Frame& frame) {
  return {SaturatingDifference(thread.memory.cpu, frame.memory_at_begin.cpu),
          SaturatingDifference(thread.memory.device, frame.memory_at_begin.device)};
}

void SpanBuilder::SetMemory(const ThreadState& thread, const Frame& frame) {
  const MemorySums sums = MemorySince(thread, frame);
  SpanMemory memory;
  memory.cpu_bytes = sums.cpu;
  memory.self_cpu_bytes = SaturatingDifference(sums.cpu, frame.memory_of_children.cpu);
  memory.device_bytes = sums.device;
  memory.self_device_bytes = SaturatingDifference(sums.device, frame.memory_of_children.device);
  if (memory == SpanMemory()) return;
  column_status_.Update(timeline_->columns().memory.Set(frame.span, memory));
}

absl::Status SpanBuilder::OnMemory(const Event& event, ThreadState& thread) {
  if (IsOutside(event)) return absl::OkStatus();
  std::optional<MemoryEvent> memory = memory_.Observe(event);
  if (!memory) return absl::OkStatus();
  if (memory->kind == MemoryEventKind::kUsage) {
    if (memory->is_cpu()) thread.memory.cpu = SaturatingSum(thread.memory.cpu, memory->bytes);
    if (memory->is_device()) {
      thread.memory.device = SaturatingSum(thread.memory.device, memory->bytes);
    }
  }
  memory->parent = thread.stack.empty() ? kNoSpan : thread.stack.back().visible;
  memory->is_inside = std::any_of(thread.stack.begin(), thread.stack.end(),
                                  [](const Frame& frame) { return frame.span != kNoSpan; });
  if (!thread.index.has_value()) thread.index = timeline_->AddThread(thread.pid, thread.tid, "");
  memory->thread = *thread.index;
  return timeline_->AddMemoryEvent(*memory);
}

void SpanBuilder::OnLoss(const Event& event, ThreadState& thread) {
  TruncateAll(thread, thread.last_ns);
  thread.opened = kNoSpan;  // what comes next need not be the row after it
  if (!memory_.OnLoss(event.pid)) return;
  // It happened at some time since this thread's last record: what other threads did meanwhile has
  // totals without what was lost.
  for (uint32_t i = timeline_->memory_event_count(); i-- > 0;) {
    MemoryEvent& memory = timeline_->memory_event(i);
    if (memory.time_ns <= thread.last_ns) return;
    if (memory.is_cpu() && timeline_->thread(memory.thread).pid == event.pid) {
      memory.total_known = false;
    }
  }
}

// stack[position] ends while frames above it are still open: those outlive it.
void SpanBuilder::SettleChildren(ThreadState& thread, size_t position, int64_t time_ns) {
  const SpanId ending = thread.stack[position].span;
  if (ending == kNoSpan) return;
  // One that was finished before, by the end of a row below it, finishes nothing (the same).
  const bool was_finished = thread.stack[position].visible != ending;
  const SpanId below = position == 0 ? kNoSpan : thread.stack[position - 1].visible;
  for (size_t i = position + 1; i < thread.stack.size(); ++i) {
    Frame& frame = thread.stack[i];
    // torch.profiler finishes what is above an event that ends: what begins from here on belongs to
    // what lies below it (torch/csrc/profiler/collection.cpp, build_tree).
    if (!was_finished) frame.visible = below;
    if (frame.span == kNoSpan) continue;
    Span& span = timeline_->span(frame.span);
    if (span.parent != ending || frame.parent_is_over) continue;
    span.overlaps = true;
    frame.parent_is_over = true;
    thread.stack[position].children_ns += std::max<int64_t>(0, time_ns - span.start_ns);
    ++ledger_->partial_overlap;
  }
}

void SpanBuilder::TruncateAll(ThreadState& thread, int64_t time_ns) {
  while (!thread.stack.empty()) {
    Close(thread, thread.stack.size() - 1, time_ns, SpanEnd::kTruncated);
  }
}

void SpanBuilder::TruncateProcess(Pid pid, int64_t time_ns) {
  for (auto& [key, state] : threads_) {
    if (state->pid == pid) TruncateAll(*state, time_ns);
  }
  memory_.OnProcessEnd(pid);
  column_status_.Update(forward_links_.OnProcessEnd(pid));
  absl::erase_if(threads_, [pid](const auto& entry) { return entry.second->pid == pid; });
  last_thread_ = nullptr;
}

absl::Status SpanBuilder::Finish() {
  const int64_t end_ns = std::max(last_ns_, window_end_ns_.value_or(0));
  for (auto& [key, state] : threads_) TruncateAll(*state, end_ns);
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
