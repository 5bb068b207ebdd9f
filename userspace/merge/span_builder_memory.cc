// The part of SpanBuilder for memory that rows allocate and free.
#include <optional>

#include "userspace/base/saturating.h"
#include "userspace/merge/span_builder.h"

namespace proftrace {

MemorySums SpanBuilder::MemorySince(const ThreadState& thread, const Frame& frame) {
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
  const Frame* around = thread.open.empty() ? nullptr : thread.open.top()->visible;
  memory->parent = around == nullptr ? kNoSpan : around->span;
  memory->is_inside = thread.open.has_rows();
  if (!thread.index.has_value()) thread.index = timeline_->AddThread(thread.pid, thread.tid, "");
  memory->thread = *thread.index;
  return timeline_->AddMemoryEvent(*memory);
}

void SpanBuilder::OnLoss(const Event& event, ThreadState& thread) {
  TruncateAll(thread, thread.last_ns);
  timeline_->AddLoss({event.pid, thread.last_ns, event.time_ns});
  thread.opened = kNoSpan;  // the next row need not be the one right after it
  if (!memory_.OnLoss(event.pid)) return;
  // The loss happened at some time since this thread's last record. Events of other threads since
  // then have totals without the lost ones.
  for (uint32_t i = timeline_->memory_event_count(); i-- > 0;) {
    MemoryEvent& memory = timeline_->memory_event(i);
    if (memory.time_ns <= thread.last_ns) return;
    if (memory.is_cpu() && timeline_->thread(memory.thread).pid == event.pid) {
      memory.total_known = false;
    }
  }
}

}  // namespace proftrace
