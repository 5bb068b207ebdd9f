#include "exporters/traces/perfetto_states.h"

namespace proftrace {

PerfettoStates::PerfettoStates(const Timeline& timeline, PerfettoPackets* packets)
    : timeline_(timeline),
      packets_(*packets),
      has_all_(timeline.ledger().system_lost + timeline.ledger().gaps == 0),
      states_(timeline.threads().size()),
      seen_ns_(timeline.threads().size()) {}

void PerfettoStates::Write(const SystemEvent& event) {
  if (!has_all_ || event.duration_ns <= 0) return;
  const OffCpuFacts& facts = event.off_cpu;
  State& state = states_[Raw(event.thread)];
  const int64_t window_start_ns = timeline_.info().window.start_ns;
  // Before its first time off the CPU a thread ran, unless that time began before the recording.
  if (!state.has_begun && !event.open_at_begin && facts.reason != WaitReason::kNew &&
      event.start_ns > window_start_ns) {
    Set(event.thread, window_start_ns, PerfettoTaskState::kRunning, facts.from_cpu);
  }
  const int64_t queued_ns =
      facts.reason == WaitReason::kPreempted ? event.duration_ns : facts.run_queue_ns;
  if (queued_ns < event.duration_ns) {
    Set(event.thread, event.start_ns,
        facts.uninterruptible ? PerfettoTaskState::kUninterruptibleSleep
                              : PerfettoTaskState::kInterruptibleSleep,
        facts.from_cpu);
  }
  if (queued_ns > 0) {
    Set(event.thread, event.end_ns() - queued_ns, PerfettoTaskState::kRunnable, facts.from_cpu);
  }
  state.has_begun = true;
  state.runs = event.end == SpanEnd::kReturn;
  if (state.runs) {
    Set(event.thread, event.end_ns(), PerfettoTaskState::kRunning, facts.to_cpu);
  }
}

// A thread has ended where its last call was cut off before the recording ended.
void PerfettoStates::WriteLast() {
  const Window& window = timeline_.info().window;
  for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
    const SystemEvent& event = timeline_.system_event(i);
    const State& state = states_[Raw(event.thread)];
    if (event.kind != SystemKind::kCall || event.end != SpanEnd::kTruncated || !state.runs ||
        event.end_ns() >= window.start_ns + window.duration_ns) {
      continue;
    }
    Set(event.thread, seen_ns_[Raw(event.thread)], PerfettoTaskState::kDead, state.cpu);
    states_[Raw(event.thread)].runs = false;
  }
}

void PerfettoStates::Set(ThreadIndex thread, int64_t time_ns, PerfettoTaskState state,
                         uint16_t cpu) {
  const Thread& of = timeline_.thread(thread);
  packets_.TaskState(Raw(of.tid), of.name, time_ns, state, cpu);
  states_[Raw(thread)].cpu = cpu;
}

}  // namespace proftrace
