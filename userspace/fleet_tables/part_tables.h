// Writes the tables of one process or rank of an input into a fleet's directory.
//
//   PartTables tables(directory, keys, id);
//   tables.Add<StepRow>("steps", [&](auto add) { … add(row) … });
//   tables.files();             // where they will be; nothing is there yet
//   status = tables.Finish();   // all are
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "exporters/parquet/parquet_table.h"
#include "exporters/tables/table_keys.h"
#include "userspace/fleet_tables/fleet_directory.h"
#include "userspace/fleet_tables/input_facts.h"

namespace proftrace {

class PartTables {
 public:
  // `directory` and `keys` must outlive this object. `place`: the part's job, host and rank.
  PartTables(const FleetDirectory& directory, const TableKeys& keys, const RowKeys& place,
             std::string id)
      : directory_(directory), keys_(keys), id_(std::move(id)) {
    const auto number = [](const std::optional<int64_t>& value) {
      return value ? std::to_string(*value) : std::string();
    };
    folder_ = absl::StrCat(PartitionFolder("of_job", place.job), "/",
                           PartitionFolder("of_attempt", number(place.attempt)), "/",
                           PartitionFolder("of_host", place.host), "/",
                           PartitionFolder("of_rank", number(place.rank)), "/");
  }

  // From here on, no file is made for a table without rows, and none for a table whose rows `align`
  // writes from the facts. Summaries use this, because a day has 1440 of them.
  void KeepSmall() { is_small_ = true; }

  template <typename Row, typename Rows>
  void Add(std::string_view name, const Rows& rows) {
    if (!status_.ok() || (is_small_ && (name == "steps" || name == "collectives"))) return;
    files_.push_back(absl::StrCat(std::string(name), "/", folder_, id_, ".parquet"));
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory_.Create(files_.back());
    if (!sink.ok()) {
      status_ = sink.status();
      return;
    }
    using Keyed = KeyedRow<Row, /*kWithInput=*/true>;
    ParquetTable<Keyed> table(**sink);
    bool has_rows = false;
    rows([&](const Row& row) {
      has_rows = true;
      return table.Add(Keyed{&row, keys_.Of(row)});
    });
    status_ = table.Finish();
    if (!has_rows && is_small_) {
      files_.pop_back();
      return;
    }
    sinks_.push_back(*std::move(sink));
  }

  // Adds the facts as a further file.
  void AddFacts(const InputFacts& facts) {
    if (!status_.ok()) return;
    files_.push_back(directory_.FactsPath(id_));
    absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory_.Create(files_.back());
    status_ = sink.ok() ? WriteInputFacts(facts, **sink) : sink.status();
    if (sink.ok()) sinks_.push_back(*std::move(sink));
  }

  const absl::Status& status() const { return status_; }
  const std::vector<std::string>& files() const { return files_; }
  absl::Status Finish() {
    for (const std::unique_ptr<ByteSink>& sink : sinks_) {
      if (status_.ok()) status_ = sink->Finish();
    }
    return status_;
  }

 private:
  const FleetDirectory& directory_;
  const TableKeys& keys_;
  std::string id_;
  std::string folder_;
  bool is_small_ = false;
  std::vector<std::string> files_;
  std::vector<std::unique_ptr<ByteSink>> sinks_;
  absl::Status status_;
};

}  // namespace proftrace
