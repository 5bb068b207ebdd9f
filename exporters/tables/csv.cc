#include "exporters/tables/csv.h"

#include <memory>
#include <string_view>

#include "exporters/tables/csv_table.h"
#include "exporters/tables/data_wait_rows.h"
#include "exporters/tables/event_rows.h"
#include "exporters/tables/gpu_idle_rows.h"
#include "exporters/tables/key_average_rows.h"
#include "exporters/tables/module_rows.h"
#include "exporters/tables/numbered_event_row.h"
#include "exporters/tables/python_cells.h"
#include "exporters/tables/sample_rows.h"
#include "exporters/tables/stack_row.h"

namespace proftrace {
namespace {

absl::Status WriteEventsAndStacks(const Timeline& timeline, const Steps& steps,
                                  const StepRows& rows, const OutputDirectory& folder,
                                  CsvText kind) {
  const absl::StatusOr<std::unique_ptr<ByteSink>> events_file = folder.Create("events.csv.gz");
  if (!events_file.ok()) return events_file.status();
  std::vector<bool> used;
  CsvTable<NumberedEventRow> events(**events_file, kind);
  ForEachEventRow(
      timeline, steps, rows, CellForm(kind),
      [&events](const EventRow& row) { return events.Add(NumberedEventRow{&row}); }, &used);
  absl::Status status = events.Finish();
  if (!status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<ByteSink>> stacks_file = folder.Create("stacks.csv.gz");
  if (!stacks_file.ok()) return stacks_file.status();
  CsvTable<StackRow> stacks(**stacks_file, kind);
  ForEachStackText(timeline, CellForm(kind), used, [&stacks](uint32_t id, std::string_view text) {
    return stacks.Add(StackRow{id, {text}});
  });
  status = stacks.Finish();
  if (status.ok()) status = (*stacks_file)->Finish();
  if (status.ok()) status = (*events_file)->Finish();
  return status;
}

}  // namespace

absl::Status ExportEventsCsv(const Timeline& timeline, const Steps& steps, const StepRows& rows,
                             ByteSink& sink, CsvText kind) {
  CsvTable<EventRow> table(sink, kind);
  ForEachEventRow(timeline, steps, rows, CellForm(kind),
                  [&table](const EventRow& row) { return table.Add(row); });
  return table.Finish();
}

absl::Status ExportEventsAndStacks(const Timeline& timeline, const Steps& steps,
                                   const StepRows& rows, const OutputDirectory& directory,
                                   const std::string& name, CsvText kind) {
  bool is_made = false;
  const absl::StatusOr<OutputDirectory> folder = directory.MakeFolder(name, &is_made);
  if (!folder.ok()) return folder.status();
  const absl::Status status = WriteEventsAndStacks(timeline, steps, rows, *folder, kind);
  if (!status.ok() && is_made) directory.RemoveFolder(name);
  return status;
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
