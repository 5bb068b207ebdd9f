#include "exporters/parquet/parquet_folder.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "exporters/parquet/parquet_table.h"
#include "exporters/tables/capture_rows.h"
#include "exporters/tables/cell_form.h"
#include "exporters/tables/clock_rows.h"
#include "exporters/tables/data_wait_rows.h"
#include "exporters/tables/event_rows.h"
#include "exporters/tables/gpu_idle_rows.h"
#include "exporters/tables/io_rows.h"
#include "exporters/tables/key_average_rows.h"
#include "exporters/tables/loss_rows.h"
#include "exporters/tables/module_rows.h"
#include "exporters/tables/process_rows.h"
#include "exporters/tables/sample_rows.h"
#include "exporters/tables/step_rows.h"
#include "exporters/tables/wait_rows.h"

namespace proftrace {
namespace {

// Writes tables, and gives their files names when all are whole.
class TableFolder {
 public:
  explicit TableFolder(const OutputDirectory& folder) : folder_(folder) {}

  // Writes a table; `rows` gives its rows to the function that it is called with.
  template <typename Row, typename Rows>
  void Add(std::string_view name, const Rows& rows) {
    if (!status_.ok()) return;
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = folder_.Create(std::string(name) + ".parquet");
    if (!sink.ok()) {
      status_ = sink.status();
      return;
    }
    ParquetTable<Row> table(**sink);
    rows([&table](const Row& row) { return table.Add(row); });
    status_ = table.Finish();
    sinks_.push_back(*std::move(sink));
  }

  absl::Status Finish() {
    for (const std::unique_ptr<ByteSink>& sink : sinks_) {
      if (status_.ok()) status_ = sink->Finish();
    }
    return status_;
  }

 private:
  const OutputDirectory& folder_;
  std::vector<std::unique_ptr<ByteSink>> sinks_;
  absl::Status status_;
};

// Calls `write` with the folder `name` of `directory`. A folder that was made for nothing goes.
template <typename Write>
absl::Status InFolder(const OutputDirectory& directory, const std::string& name,
                      const Write& write) {
  bool is_made = false;
  const absl::StatusOr<OutputDirectory> folder = directory.MakeFolder(name, &is_made);
  if (!folder.ok()) return folder.status();
  absl::Status status;
  {
    TableFolder tables(*folder);
    write(tables);
    status = tables.Finish();
  }
  if (!status.ok() && is_made) directory.RemoveFolder(name);
  return status;
}

}  // namespace

absl::Status ExportParquet(const Timeline& timeline, const Aggregates& aggregates,
                           const OutputDirectory& directory, const std::string& name) {
  if (!aggregates.python_rows.status().ok()) return aggregates.python_rows.status();
  return InFolder(directory, name, [&](TableFolder& tables) {
    tables.Add<CaptureRow>("captures", [&](auto add) { ForEachCaptureRow(timeline, add); });
    tables.Add<ClockRow>("clocks", [&](auto add) { ForEachClockRow(timeline, add); });
    tables.Add<ProcessRow>("processes", [&](auto add) { ForEachProcessRow(timeline, add); });
    tables.Add<StepRow>("steps", [&](auto add) { ForEachStepRow(timeline, aggregates, add); });
    tables.Add<KeyAverageRow>(
        "key_averages", [&](auto add) { ForEachKeyAverageRow(aggregates.key_averages, add); });
    tables.Add<ModuleRow>("modules",
                          [&](auto add) { ForEachModuleRow(timeline, aggregates.modules, add); });
    tables.Add<SampleRow>("samples", [&](auto add) {
      ForEachSampleRow(timeline, aggregates.step_rows, CellForm::Plain(), add);
    });
    tables.Add<GpuIdleRow>(
        "gpu_idle", [&](auto add) { ForEachGpuIdleRow(timeline, aggregates.device_idle, add); });
    tables.Add<DataWaitRow>(
        "data_waits", [&](auto add) { ForEachDataWaitRow(timeline, aggregates.data_waits, add); });
    tables.Add<IoRow>("io", [&](auto add) { ForEachIoRow(timeline, add); });
    tables.Add<WaitRow>("waits", [&](auto add) { ForEachWaitRow(timeline, add); });
    tables.Add<LossRow>("losses", [&](auto add) { ForEachLossRow(timeline, add); });
  });
}

absl::Status ExportParquetEvents(const Timeline& timeline, const Aggregates& aggregates,
                                 const OutputDirectory& directory, const std::string& name) {
  return InFolder(directory, name, [&](TableFolder& tables) {
    tables.Add<EventRow>("events", [&](auto add) {
      ForEachEventRow(timeline, aggregates.steps, aggregates.step_rows, CellForm::Plain(), add);
    });
  });
}

}  // namespace proftrace
