#include "exporters/tables/csv.h"

#include "exporters/tables/csv_table.h"
#include "exporters/tables/data_wait_rows.h"
#include "exporters/tables/event_rows.h"
#include "exporters/tables/gpu_idle_rows.h"
#include "exporters/tables/key_average_rows.h"
#include "exporters/tables/module_rows.h"
#include "exporters/tables/sample_rows.h"

namespace proftrace {

absl::Status ExportEventsCsv(const Timeline& timeline, const Steps& steps, const StepRows& rows,
                             ByteSink& sink, CsvText kind) {
  CsvTable<EventRow> table(sink, kind);
  ForEachEventRow(timeline, steps, rows, CellForm(kind),
                  [&table](const EventRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportKeyAveragesCsv(const KeyAverages& averages, ByteSink& sink, CsvText kind) {
  CsvTable<KeyAverageRow> table(sink, kind);
  ForEachKeyAverageRow(averages, [&table](const KeyAverageRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportModulesCsv(const Timeline& timeline, const ModuleSums& sums, ByteSink& sink,
                              CsvText kind) {
  CsvTable<ModuleRow> table(sink, kind);
  ForEachModuleRow(timeline, sums, [&table](const ModuleRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportSamplesCsv(const Timeline& timeline, const StepRows& rows, ByteSink& sink,
                              CsvText kind) {
  CsvTable<SampleRow> table(sink, kind);
  ForEachSampleRow(timeline, rows, CellForm(kind),
                   [&table](const SampleRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportGpuIdleCsv(const Timeline& timeline, const std::vector<DeviceIdle>& devices,
                              ByteSink& sink, CsvText kind) {
  CsvTable<GpuIdleRow> table(sink, kind);
  ForEachGpuIdleRow(timeline, devices, [&table](const GpuIdleRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportDataWaitsCsv(const Timeline& timeline, const std::vector<DataWait>& waits,
                                ByteSink& sink, CsvText kind) {
  CsvTable<DataWaitRow> table(sink, kind);
  ForEachDataWaitRow(timeline, waits, [&table](const DataWaitRow& row) { return table.Add(row); });
  return table.Finish();
}

}  // namespace proftrace
