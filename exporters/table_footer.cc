// What stands below the table, and the table as JSON.
#include <array>
#include <cstdio>

#include "exporters/escape.h"
#include "exporters/recording_json.h"
#include "exporters/table.h"

namespace proftrace {
namespace {

// Counters that are shown even when they are 0: they say how much there was to lose.
bool IsAlwaysShown(std::string_view counter) {
  return counter == "records" || counter == "begins" || counter == "closed";
}

std::string LedgerLine(const Ledger& ledger) {
  std::string line = "Ledger:";
  ForEachCounter(ledger, [&](std::string_view name, uint64_t value) {
    if (value == 0 && !IsAlwaysShown(name)) return;
    line += (line.back() == ':' ? " " : ", ") + std::string(name) + " " + std::to_string(value);
  });
  return line + "\n";
}

std::string LossLine(const Timeline& timeline) {
  if (timeline.ledger().AnyLoss()) {
    return "Losses: yes; counts and times above may be too small (see the ledger)\n";
  }
  if (!timeline.info().has_end) {
    return "Losses: not known; the recorder was ended before it could tell\n";
  }
  return "Losses: none\n";
}

std::string CostLine(const Cost& cost) {
  std::array<char, 256> text;
  std::snprintf(
      text.data(), text.size(),
      "Cost: estimated overhead %.2f %% (%llu probe hits at %.0f ns), tracer CPU time %.2f s",
      cost.estimated_overhead_percent, static_cast<unsigned long long>(cost.probe_hits),
      cost.probe_ns_per_hit, cost.tracer_cpu_s);
  std::string line(text.data());
  if (!cost.basis.empty()) line += "; " + TableText(cost.basis);
  return line + "\n";
}

}  // namespace

std::string FormatTableFooter(const Timeline& timeline, const KeyAverages& averages) {
  std::string text = LedgerLine(timeline.ledger());
  text += LossLine(timeline);
  if (averages.incomplete_spans > 0) {
    const bool is_one = averages.incomplete_spans == 1;
    text += std::to_string(averages.incomplete_spans) +
            (is_one ? " truncated span is" : " truncated spans are") +
            " not in the table: the end was not seen\n";
  }
  text += timeline.info().has_end ? CostLine(timeline.info().cost) : "Cost: not known\n";
  for (const Unsupported& entry : timeline.info().unsupported) {
    text += "Not recorded: " + TableText(entry.feature) + ": " + TableText(entry.reason) + "\n";
  }
  return text;
}

absl::Status ExportTable(const Timeline& timeline, const KeyAverages& averages,
                         const TableOptions& options, ByteSink& sink) {
  const absl::StatusOr<std::string> table = FormatTable(averages, options);
  if (!table.ok()) return table.status();
  const std::string gap = table->empty() ? "No complete operator in the recorded window\n\n" : "\n";
  return sink.Write(*table + gap + FormatTableFooter(timeline, averages));
}

absl::Status ExportTableJson(const Timeline& timeline, const KeyAverages& averages,
                             const TableOptions& options, ByteSink& sink) {
  if (absl::Status status = CheckTableOptions(options); !status.ok()) return status;
  const auto microseconds = [](int64_t ns) { return static_cast<double>(ns) / 1000.0; };
  const double total_us = microseconds(averages.self_cpu_time_total_ns);
  const auto percent = [&](int64_t ns) {
    return total_us == 0 ? OrderedJson(nullptr) : OrderedJson(microseconds(ns) * 100.0 / total_us);
  };
  OrderedJson rows = OrderedJson::array();
  for (const KeyAverage* row : ShownRows(averages, options)) {
    OrderedJson entry = {{"name", ToValidUtf8(row->name)}};
    if (averages.grouped_by_overload_name) entry["overload_name"] = ToValidUtf8(row->overload_name);
    entry["count"] = row->count;
    entry["self_cpu_time_total_us"] = microseconds(row->self_cpu_time_total_ns);
    entry["cpu_time_total_us"] = microseconds(row->cpu_time_total_ns);
    entry["cpu_time_us"] = row->cpu_time_us();
    entry["self_cpu_percent"] = percent(row->self_cpu_time_total_ns);
    entry["cpu_percent"] = row->is_async ? OrderedJson(0) : percent(row->cpu_time_total_ns);
    entry["is_async"] = row->is_async;
    rows.push_back(std::move(entry));
  }
  const OrderedJson json = {{"rows", std::move(rows)},
                            {"total_rows", averages.rows.size()},
                            {"sort_by", TextOrNull(options.sort_by)},
                            {"self_cpu_time_total_us", total_us},
                            {"spans_without_end", averages.incomplete_spans},
                            {"ledger", LedgerJson(timeline.ledger())},
                            {"cost", CostJson(timeline.info())},
                            {"unsupported", UnsupportedJson(timeline.info())}};
  return WriteJson(json, sink);
}

}  // namespace proftrace
