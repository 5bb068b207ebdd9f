#include "exporters/traces/chrome_system_rows.h"

#include <algorithm>

#include "exporters/args/args_text.h"
#include "exporters/args/system_args.h"
#include "exporters/traces/chrome_rows.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {

ChromeSystemRows::ChromeSystemRows(const Timeline& timeline,
                                   const std::vector<std::string>& thread_parts, int64_t offset_ns,
                                   uint64_t first_number, TextWriter* writer)
    : timeline_(timeline),
      thread_parts_(thread_parts),
      offset_ns_(offset_ns),
      first_number_(first_number),
      writer_(*writer),
      has_all_states_(timeline.ledger().system_lost + timeline.ledger().gaps == 0),
      states_(timeline.threads().size()) {}

void ChromeSystemRows::Write(uint32_t index, const OpenSlices::Slice& slice, int64_t clipped_ns) {
  const SystemEvent& event = timeline_.system_event(index);
  const uint64_t number = first_number_ + index;
  int64_t& seen_ns = states_[Raw(event.thread)].seen_ns;
  seen_ns = std::max(seen_ns, event.end_ns());
  JsonStream json(writer_);
  BeginRow("X", event, slice.ts_ns, &json);
  json.Key("dur").Microseconds(slice.duration_ns);
  json.Key("args").BeginObject();
  json.Key("Ev Idx").Integer(number);
  json.Members(SystemArgs(timeline_, event));
  if (clipped_ns > 0) json.Key("clipped_ns").Integer(clipped_ns);
  if (event.end != SpanEnd::kReturn) json.Key("end").Word(SpanEndName(event.end));
  json.EndObject();
  EndRow(&json);
  if (event.kind == SystemKind::kOffCpu) WriteStates(event);
}

// Requests are async events, because those of one thread overlap, and end when the thread is in
// other rows.
void ChromeSystemRows::WriteRequest(uint32_t index) {
  const SystemEvent& event = timeline_.system_event(index);
  const uint64_t number = first_number_ + index;
  JsonStream begin(writer_);
  BeginRow("b", event, Ts(event.start_ns), &begin);
  begin.Key("id").Integer(number + 1);
  begin.Key("args").BeginObject();
  begin.Key("Ev Idx").Integer(number);
  begin.Members(SystemArgs(timeline_, event));
  if (event.end != SpanEnd::kReturn) begin.Key("end").Word(SpanEndName(event.end));
  begin.EndObject();
  EndRow(&begin);
  JsonStream end(writer_);
  BeginRow("e", event, Ts(event.end_ns()), &end);
  end.Key("id").Integer(number + 1);
  EndRow(&end);
}

void ChromeSystemRows::WriteStates(const SystemEvent& event) {
  const OffCpuFacts& facts = event.off_cpu;
  ThreadState& state = states_[Raw(event.thread)];
  // Before its first time off the CPU a thread ran, unless that time began before the recording.
  if (!state.has_begun && !event.open_at_begin && facts.reason != WaitReason::kNew) {
    state.is_known = true;
    state.since_ns = timeline_.info().window.start_ns;
  }
  if (state.is_known) WriteRunning(event.thread, state.since_ns, event.start_ns, facts.from_cpu);
  const int64_t queued_ns =
      facts.reason == WaitReason::kPreempted ? event.end_ns() - event.start_ns : facts.run_queue_ns;
  ArgsText args;
  args.Number("io_wait", facts.disk ? 1 : 0);
  if (facts.call >= 0) {
    args.Text("blocked_function", SystemCallName(facts.abi, static_cast<uint64_t>(facts.call)));
  }
  const int64_t woken_ns = event.end_ns() - queued_ns;
  WriteState(event.thread, facts.uninterruptible ? "D" : "S", event.start_ns, woken_ns,
             args.Take());
  WriteState(event.thread, "R", woken_ns, event.end_ns(), "");
  state.has_begun = true;
  state.is_known = event.end == SpanEnd::kReturn;
  state.since_ns = event.end_ns();
  state.cpu = facts.to_cpu;
}

void ChromeSystemRows::WriteLastStates() {
  if (!timeline_.has_sched()) return;
  ForEachSpan(timeline_, [this](SpanId /*id*/, const Span& span) {
    int64_t& seen_ns = states_[Raw(span.thread)].seen_ns;
    seen_ns = std::max(seen_ns, span.end_ns());
  });
  for (uint32_t thread = 0; thread < states_.size(); ++thread) {
    const ThreadState& state = states_[thread];
    if (state.is_known) WriteRunning(ThreadIndex{thread}, state.since_ns, state.seen_ns, state.cpu);
  }
}

void ChromeSystemRows::WriteRunning(ThreadIndex thread, int64_t start_ns, int64_t end_ns,
                                    uint16_t cpu) {
  if (!has_all_states_) return;
  ArgsText args;
  args.Number("cpu", cpu);
  WriteState(thread, "Running", start_ns, end_ns, args.Take());
}

// States have no category, because HTA takes each row with a category for work of the CPU.
void ChromeSystemRows::WriteState(ThreadIndex thread, std::string_view state, int64_t start_ns,
                                  int64_t end_ns, std::string_view args) {
  if (end_ns <= start_ns) return;
  JsonStream json(writer_);
  json.BeginObject();
  json.Key("ph").Word("T");
  json.Key("name").Word(state);
  json.Members(thread_parts_[Raw(thread)]);
  json.Key("ts").Microseconds(Ts(start_ns));
  json.Key("dur").Microseconds(end_ns - start_ns);
  if (!args.empty()) {
    json.Key("args").BeginObject();
    json.Members(args);
    json.EndObject();
  }
  EndRow(&json);
}

void ChromeSystemRows::BeginRow(std::string_view phase, const SystemEvent& event, int64_t ts_ns,
                                JsonStream* json) const {
  json->BeginObject();
  json->Key("ph").Word(phase);
  json->Key("cat").Word(SystemCategoryName(event.kind));
  json->Key("name").String(SystemEventName(event));
  json->Members(thread_parts_[Raw(event.thread)]);
  json->Key("ts").Microseconds(ts_ns);
}

void ChromeSystemRows::EndRow(JsonStream* json) {
  json->EndObject();
  json->Done().Text(kChromeRowEnd);
}

}  // namespace proftrace
