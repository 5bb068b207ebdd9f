#include "exporters/tables/samples_csv.h"

#include <string>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/event_order.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

constexpr std::string_view kSamplesHeader =
    "pid,tid,thread_name,start_ns,samples,period_ns,state,system_call,event_id,stack,cut\n";

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

absl::Status ExportSamplesCsv(const Timeline& timeline, const StepRows& rows, ByteSink& sink,
                              CsvText kind) {
  TextWriter writer(sink);
  writer.Text(kSamplesHeader);
  std::vector<std::string> stacks(timeline.sample_frames().size());
  const EventOrder order(timeline, rows);
  for (const Sample& sample : timeline.samples()) {
    const Thread& thread = timeline.thread(sample.thread);
    writer.Unsigned(Raw(thread.pid));
    writer.Text(",");
    writer.Unsigned(Raw(thread.tid));
    writer.Text("," + CsvField(thread.name, kind) + ",");
    writer.Integer(timeline.ToUnixNs(sample.time_ns));
    writer.Text(",");
    writer.Unsigned(sample.count);
    writer.Text(",");
    writer.Integer(sample.period_ns);
    writer.Text("," + std::string(SampleStateName(sample.state)) + ",");
    if (sample.call >= 0)
      writer.Text(SystemCallName(SystemAbi::kX86_64, static_cast<uint64_t>(sample.call)));
    writer.Text(",");
    if (sample.span != kNoSpan) writer.Unsigned(order.IdOfSpan(sample.span));
    std::string& stack = stacks[sample.frame];
    if (stack.empty()) stack = CsvField(StackText(timeline, sample.frame), kind);
    writer.Text("," + stack + "," + std::string(CutText(sample)) + "\n");
    if (!writer.ok()) break;
  }
  return writer.Flush();
}

}  // namespace proftrace
