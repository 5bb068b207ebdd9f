// The table of key averages, laid out as torch's EventList.table()
// (torch/autograd/profiler_util.py, 2.11), and below it facts that torch does not tell: the loss
// ledger and the cost of the recording.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

enum class TimeUnit { kAuto, kSeconds, kMilliseconds, kMicroseconds };

struct TableOptions {
  std::string sort_by;      // one of TableSortKeys(), descending; empty = by first occurrence
  int64_t row_limit = 100;  // negative = no limit, as in torch
  // In characters, as torch's parameters of these names; nullopt = no limit.
  std::optional<int> max_name_column_width = 55;    // at least 4
  std::optional<int> max_shapes_column_width = 80;  // at least 1
  std::optional<int> max_src_column_width = 75;     // at least 1
  std::string header;                               // a line above the table; empty = none
  bool top_level_events_only = false;
  // Whether the footer names each feature that is not recorded of code that may never have run
  // because it is only known to be loaded. Otherwise the footer only tells their number.
  bool is_verbose = false;
  TimeUnit time_unit = TimeUnit::kAuto;
};

// Returns the keys that sort_by takes.
std::vector<std::string> TableSortKeys();
// Checks the options. Fails with ExitCode::kUsage for an unknown key or an impossible width.
absl::Status CheckTableOptions(const TableOptions& options);

// Returns the same text as torch, byte for byte, except for control characters in names (escape.h,
// ShownText). Empty where there are no rows.
absl::StatusOr<std::string> FormatTable(const KeyAverages& averages, const TableOptions& options);

// Returns the rows that FormatTable shows, in its order; they point into `averages`. `options` must
// have passed the check.
std::vector<const KeyAverage*> ShownRows(const KeyAverages& averages, const TableOptions& options);

// Returns the lines below the table: steps, ledger, losses, spans left out, cost, and features that
// were not recorded.
std::string FormatTableFooter(const Timeline& timeline, const Aggregates& aggregates,
                              bool is_verbose = false);

// Writes the table and its footer, as in key_averages.txt.
absl::Status ExportTable(const Timeline& timeline, const Aggregates& aggregates,
                         const TableOptions& options, ByteSink& sink);

// Writes the same content as one JSON object: rows (sorted and limited as asked), totals, ledger,
// cost.
absl::Status ExportTableJson(const Timeline& timeline, const Aggregates& aggregates,
                             const TableOptions& options, ByteSink& sink);

}  // namespace proftrace
