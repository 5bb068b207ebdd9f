#include "exporters/parquet/parquet_folder.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "exporters/parquet/parquet_table.h"
#include "exporters/parquet/summary_tables.h"
#include "exporters/tables/capture_rows.h"
#include "exporters/tables/cell_form.h"
#include "exporters/tables/clock_rows.h"
#include "exporters/tables/event_rows.h"
#include "exporters/tables/key_average_rows.h"
#include "exporters/tables/module_rows.h"
#include "exporters/tables/sample_rows.h"
#include "exporters/tables/table_keys.h"

namespace proftrace {
namespace {

// Writes tables, and gives their files names when all tables are whole.
class TableFolder {
 public:
  TableFolder(const Timeline& timeline, const OutputDirectory& folder)
      : keys_(timeline), folder_(folder) {}

  // Writes a table; `rows` calls its argument, a function, with each row.
  template <typename Row, typename Rows>
  void Add(std::string_view name, const Rows& rows) {
    if (!status_.ok()) return;
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = folder_.Create(std::string(name) + ".parquet");
    if (!sink.ok()) {
      status_ = sink.status();
      return;
    }
    using Keyed = KeyedRow<Row, /*kWithInput=*/false>;
    ParquetTable<Keyed> table(**sink);
    rows([&](const Row& row) { return table.Add(Keyed{&row, keys_.Of(row)}); });
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
  const TableKeys keys_;
  const OutputDirectory& folder_;
  std::vector<std::unique_ptr<ByteSink>> sinks_;
  absl::Status status_;
};

// Calls `write` with the folder `name` of `directory`. Removes the folder again where it was made
// and `write` failed.
template <typename Write>
absl::Status InFolder(const Timeline& timeline, const OutputDirectory& directory,
                      const std::string& name, const Write& write) {
  bool is_made = false;
  const absl::StatusOr<OutputDirectory> folder = directory.MakeFolder(name, &is_made);
  if (!folder.ok()) return folder.status();
  absl::Status status;
  {
    TableFolder tables(timeline, *folder);
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
  return InFolder(timeline, directory, name, [&](TableFolder& tables) {
    tables.Add<CaptureRow>("captures", [&](auto add) { ForEachCaptureRow(timeline, add); });
    tables.Add<ClockRow>("clocks", [&](auto add) { ForEachClockRow(timeline, add); });
    AddSummaryTables(timeline, aggregates, FindCollectiveCalls(timeline),
                     StepRowsOf(timeline, aggregates), tables);
    tables.Add<KeyAverageRow>(
        "key_averages", [&](auto add) { ForEachKeyAverageRow(aggregates.key_averages, add); });
    tables.Add<ModuleRow>("modules",
                          [&](auto add) { ForEachModuleRow(timeline, aggregates.modules, add); });
    tables.Add<SampleRow>("samples", [&](auto add) {
      ForEachSampleRow(timeline, aggregates.step_rows, CellForm::Plain(), add);
    });
  });
}

absl::Status ExportParquetEvents(const Timeline& timeline, const Aggregates& aggregates,
                                 const OutputDirectory& directory, const std::string& name) {
  return InFolder(timeline, directory, name, [&](TableFolder& tables) {
    tables.Add<EventRow>("events", [&](auto add) {
      ForEachEventRow(timeline, aggregates.steps, aggregates.step_rows, CellForm::Plain(), add);
    });
  });
}

}  // namespace proftrace
