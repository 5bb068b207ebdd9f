#include "exporters/tables/sample_rows.h"

#include <vector>

#include "userspace/aggregate/event_order.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

std::string_view CutText(const Sample& sample) {
  if (sample.python_cut && sample.native_cut) return "both";
  return sample.python_cut ? "python" : sample.native_cut ? "native" : "";
}

std::string StackText(const Timeline& timeline, uint32_t frame) {
  std::vector<std::string> frames;
  for (; frame != 0; frame = timeline.sample_frames()[frame].parent) {
    frames.push_back(SampleLineText(timeline, timeline.sample_frames()[frame]));
  }
  std::string text;
  for (size_t i = frames.size(); i-- > 0;) text += frames[i] + (i > 0 ? ";" : "");
  return text;
}

}  // namespace

void ForEachSampleRow(const Timeline& timeline, const StepRows& steps, CellForm form,
                      absl::FunctionRef<bool(const SampleRow&)> add) {
  std::vector<std::string> stacks(timeline.sample_frames().size());
  const EventOrder order(timeline, steps);
  for (const Sample& sample : timeline.samples()) {
    const Thread& thread = timeline.thread(sample.thread);
    SampleRow row;
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    row.thread_name = thread.name;
    row.start_ns = timeline.ToUnixNs(sample.time_ns);
    row.samples = sample.count;
    row.period_ns = sample.period_ns;
    row.state = SampleStateName(sample.state);
    if (sample.call >= 0) {
      row.system_call = SystemCallName(SystemAbi::kX86_64, static_cast<uint64_t>(sample.call));
    }
    if (sample.span != kNoSpan) row.event_id = order.IdOfSpan(sample.span);
    std::string& stack = stacks[sample.frame];
    if (stack.empty()) stack = form.Cell(StackText(timeline, sample.frame));
    row.stack = {stack};
    row.cut = CutText(sample);
    if (!add(row)) return;
  }
}

}  // namespace proftrace
