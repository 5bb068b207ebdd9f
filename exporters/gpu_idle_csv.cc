#include "exporters/gpu_idle_csv.h"

#include <string>

#include "exporters/escape.h"
#include "exporters/text_writer.h"

namespace proftrace {
namespace {

// A column a cause, in the order of IdleCause.
constexpr std::string_view kHeader =
    "pid,device,start_ns,duration_ns,main_cause,operator_ns,synchronizing_ns,cuda_call_ns,"
    "dataloader_ns,outside_operators_ns,launched_ns,unknown_ns,tid,next_stream,next_name,next_"
    "operator\n";

}  // namespace

absl::Status ExportGpuIdleCsv(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                              ByteSink& sink) {
  TextWriter writer(sink);
  writer.Text(kHeader);
  for (const DeviceIdle& device : devices) {
    const std::string place =
        std::to_string(Raw(device.pid)) + "," + std::to_string(device.device) + ",";
    for (const IdleGap& gap : device.gaps) {
      writer.Text(place);
      writer.Integer(timeline.ToUnixNs(gap.start_ns));
      writer.Text(",");
      writer.Integer(gap.end_ns - gap.start_ns);
      writer.Text("," + std::string(IdleCauseName(gap.main_cause())));
      for (const int64_t ns : gap.by_cause_ns) {
        writer.Text(",");
        writer.Integer(ns);
      }
      const DeviceActivity& next = timeline.device_activities().at(gap.next_work);
      writer.Text(",");
      if (next.call != kNoSpan) writer.Unsigned(Raw(timeline.thread(gap.thread).tid));
      writer.Text(",");
      writer.Unsigned(next.stream);
      writer.Text("," + CsvField(timeline.device_name(next.name)) + ",");
      if (next.op != kNoSpan) {
        writer.Text(CsvField(timeline.label(timeline.span(next.op).label).name));
      }
      writer.Text("\n");
    }
  }
  return writer.Flush();
}

}  // namespace proftrace
