#include "exporters/tables/gpu_idle_csv.h"

#include <string>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

// A column a cause, in the order of IdleCause: names of columns keep their places.
constexpr std::string_view kGpuIdleHeader =
    "pid,device,start_ns,duration_ns,main_cause,operator_ns,synchronizing_ns,cuda_call_ns,"
    "dataloader_ns,outside_operators_ns,launched_ns,unknown_ns,tid,next_stream,next_name,next_"
    "operator,io_ns,lock_ns,run_queue_ns,system_ns,python_ns,python_function,stream\n";
// The causes that were added later are the last columns.
constexpr auto kFirstLateCause = static_cast<size_t>(IdleCause::kIo);

}  // namespace

absl::Status ExportGpuIdleCsv(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                              ByteSink& sink, CsvText kind) {
  TextWriter writer(sink);
  writer.Text(kGpuIdleHeader);
  for (const DeviceIdle& device : devices) {
    const std::string place =
        std::to_string(Raw(device.pid)) + "," + std::to_string(device.device) + ",";
    for (const IdleGap& gap : device.gaps) {
      writer.Text(place);
      writer.Integer(timeline.ToUnixNs(gap.start_ns));
      writer.Text(",");
      writer.Integer(gap.end_ns - gap.start_ns);
      writer.Text("," + CsvField(IdleCauseName(gap.main_cause())));
      for (size_t cause = 0; cause < kFirstLateCause; ++cause) {
        writer.Text(",");
        writer.Integer(gap.by_cause_ns[cause]);
      }
      const DeviceActivity& next = timeline.device_activities().at(gap.next_work);
      writer.Text(",");
      if (next.call != kNoSpan) writer.Unsigned(Raw(timeline.thread(gap.thread).tid));
      writer.Text(",");
      writer.Unsigned(next.stream);
      writer.Text("," + CsvField(timeline.device_name(next.name), kind) + ",");
      if (next.op != kNoSpan) {
        writer.Text(CsvField(timeline.label(timeline.span(next.op).label).name, kind));
      }
      for (size_t cause = kFirstLateCause; cause < kIdleCauses; ++cause) {
        writer.Text(",");
        writer.Integer(gap.by_cause_ns[cause]);
      }
      writer.Text(",");
      if (gap.python != kNoStack) {
        writer.Text(CsvField(PythonFrameText(timeline, gap.python), kind));
      }
      writer.Text(",");
      if (device.stream.has_value()) writer.Unsigned(*device.stream);
      writer.Text("\n");
    }
  }
  return writer.Flush();
}

}  // namespace proftrace
