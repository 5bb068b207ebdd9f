#include "exporters/tables/modules_csv.h"

#include <string>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

constexpr std::string_view kModulesHeader =
    "pid,module,module_class,calls,forward_us,self_forward_us,backward_us,self_backward_us,percent,"
    "operators,cpu_memory_bytes,instances\n";

}  // namespace

absl::Status ExportModulesCsv(const Timeline& timeline, const ModuleSums& sums, ByteSink& sink,
                              CsvText kind) {
  TextWriter writer(sink);
  writer.Text(kModulesHeader);
  for (const ModuleTimes& times : sums.modules) {
    const PythonModule& module = timeline.python_modules()[times.module];
    // The number is one instance's.
    const std::string text = times.instances > 1 ? module.class_name : PythonModuleText(module);
    writer.Unsigned(Raw(module.pid));
    writer.Text("," + CsvField(module.path, kind) + "," + CsvField(text, kind) + ",");
    writer.Unsigned(times.calls);
    for (const int64_t ns :
         {times.forward_ns, times.self_forward_ns, times.backward_ns, times.self_backward_ns}) {
      writer.Text(",");
      writer.Microseconds(ns);
    }
    writer.Text(",");
    if (sums.total_ns > 0) {
      const int64_t both_ns = SaturatingSum(times.forward_ns, times.backward_ns);
      writer.Decimal(static_cast<double>(both_ns) * 100.0 / static_cast<double>(sums.total_ns), 4);
    }
    writer.Text(",");
    writer.Unsigned(times.operators);
    writer.Text(",");
    if (timeline.has_memory()) writer.Integer(times.cpu_memory_bytes);
    writer.Text(",");
    writer.Unsigned(times.instances);
    writer.Text("\n");
  }
  return writer.Flush();
}

}  // namespace proftrace
