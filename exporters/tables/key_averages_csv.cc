#include "exporters/tables/key_averages_csv.h"

#include <string>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"

namespace proftrace {
namespace {

constexpr std::string_view kKeyAveragesHeader =
    "name,overload_name,count,self_cpu_time_total_us,cpu_time_total_us,cpu_time_us,self_cpu_"
    "percent,"
    "cpu_percent,self_device_time_total_us,device_time_total_us,device_time_us,self_device_percent,"
    "self_cpu_memory_bytes,cpu_memory_bytes,self_device_memory_bytes,device_memory_bytes,"
    "self_on_cpu_us,self_off_cpu_us,flops,device_type,node_id,is_async,input_shapes,stack,"
    "self_syscalls,self_page_faults\n";
constexpr std::string_view kNoDeviceTimes = ",,,,";  // self_device_time_total_us to …_percent
constexpr std::string_view kNoMemory = ",,,,";       // self_cpu_memory_bytes to device_memory_bytes

void WriteMemory(const SpanMemory& memory, TextWriter& writer) {
  for (const int64_t bytes :
       {memory.self_cpu_bytes, memory.cpu_bytes, memory.self_device_bytes, memory.device_bytes}) {
    writer.Text(",");
    writer.Integer(bytes);
  }
}

// self_on_cpu_us and self_off_cpu_us, and the comma behind them.
void WriteCpuTimes(const KeyAverage& row, bool has_sched, TextWriter& writer) {
  const bool is_known = has_sched && !row.system.is_unknown && !row.is_device;
  writer.Text(",");
  if (is_known) writer.Microseconds(row.self_on_cpu_ns());
  writer.Text(",");
  if (is_known) writer.Microseconds(row.system.self_off_cpu_ns);
  writer.Text(",");
}

void WritePercent(int64_t ns, int64_t total_ns, TextWriter& writer) {
  if (total_ns == 0) return;
  writer.Decimal(static_cast<double>(ns) * 100.0 / static_cast<double>(total_ns), 4);
}

// As in events.csv: the innermost frame last.
std::string Stack(const KeyAverage& row) {
  std::string text;
  for (size_t i = row.stack.size(); i-- > 0;) text += row.stack[i] + (i > 0 ? ";" : "");
  return text;
}

void WriteDeviceTimes(const KeyAverage& row, int64_t total_ns, TextWriter& writer) {
  writer.Text(",");
  writer.Microseconds(row.self_device_time_total_ns);
  writer.Text(",");
  writer.Microseconds(row.device_time_total_ns);
  writer.Text(",");
  writer.Decimal(row.device_time_us(), 3);
  writer.Text(",");
  WritePercent(row.self_device_time_total_ns, total_ns, writer);
}

}  // namespace

absl::Status ExportKeyAveragesCsv(const KeyAverages& averages, ByteSink& sink, CsvText kind) {
  TextWriter writer(sink);
  writer.Text(kKeyAveragesHeader);
  const int64_t total_ns = averages.self_cpu_time_total_ns;
  for (const KeyAverage& row : averages.rows) {
    writer.Text(CsvField(row.name, kind));
    writer.Text(",");
    writer.Text(CsvField(row.overload_name, kind));
    writer.Text(",");
    writer.Unsigned(row.count);
    writer.Text(",");
    writer.Microseconds(row.self_cpu_time_total_ns);
    writer.Text(",");
    writer.Microseconds(row.cpu_time_total_ns);
    writer.Text(",");
    writer.Decimal(row.cpu_time_us(), 3);
    writer.Text(",");
    WritePercent(row.self_cpu_time_total_ns, total_ns, writer);
    writer.Text(",");
    // An async span has no place in the tree, so it has no share: 0, as in torch.
    WritePercent(row.is_async ? 0 : row.cpu_time_total_ns, total_ns, writer);
    if (averages.has_device_records) {
      WriteDeviceTimes(row, averages.self_device_time_total_ns, writer);
    } else {
      writer.Text(kNoDeviceTimes);
    }
    if (averages.has_memory) {
      WriteMemory(row.memory, writer);
    } else {
      writer.Text(kNoMemory);
    }
    WriteCpuTimes(row, averages.system.sched, writer);
    if (averages.has_flops) writer.Integer(row.flops);
    writer.Text(row.is_device ? ",CUDA,," : ",CPU,,");
    writer.Text(row.is_async ? "1" : "0");
    writer.Text(",");
    writer.Text(CsvField(row.input_shapes, kind));
    writer.Text(",");
    writer.Text(CsvField(Stack(row), kind));
    const bool is_known = !row.system.is_unknown && !row.is_device;
    writer.Text(",");
    if (averages.system.calls && is_known) writer.Integer(row.system.self_calls);
    writer.Text(",");
    if (averages.system.faults && is_known) writer.Integer(row.system.self_faults);
    writer.Text("\n");
  }
  return writer.Flush();
}

}  // namespace proftrace
