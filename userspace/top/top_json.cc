#include "userspace/top/top_json.h"

#include <algorithm>
#include <cmath>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "exporters/text/why_text.h"
#include "userspace/base/dumped_json.h"

namespace proftrace {
namespace {

OrderedJson NumberOrNull(const std::optional<double>& value) {
  if (!value.has_value()) return nullptr;
  return *value;
}

OrderedJson TableJson(const TopTable& table, size_t most_rows) {
  OrderedJson rows = OrderedJson::array();
  const size_t count = std::min(most_rows, table.rows.size());
  for (size_t i = 0; i < count; ++i) {
    const TopRow& row = table.rows[i];
    OrderedJson shown = {{"name", ToValidUtf8(row.name)}};
    if (row.thread.has_value()) shown["pid"] = Raw(row.thread->first);
    if (row.thread.has_value()) shown["tid"] = Raw(row.thread->second);
    for (size_t j = 0; j < table.columns.size() && j < row.values.size(); ++j) {
      if (table.columns[j].unit == TopUnit::kNumber) continue;
      shown[std::string(table.columns[j].key)] = row.values[j];
    }
    rows.push_back(std::move(shown));
  }
  return {{"rows", std::move(rows)},
          {"rows_left_out", table.left_out + table.rows.size() - count},
          {"missing", TextOrNull(table.missing)}};
}

OrderedJson StepsJson(const TopModel& model, const TopStatus& status) {
  OrderedJson steps = {{"found", model.are_steps},  {"count", model.steps.size()},
                       {"seen", status.steps_seen}, {"per_s", nullptr},
                       {"last_ms", nullptr},        {"median_ms", nullptr},
                       {"p99_ms", nullptr},         {"is_guess", model.is_guess}};
  if (!model.are_steps) return steps;
  steps["per_s"] = model.steps_per_s;
  steps["last_ms"] = static_cast<double>(model.steps.back().duration_ns) * 1e-6;
  steps["median_ms"] = static_cast<double>(model.median_step_ns) * 1e-6;
  steps["p99_ms"] = static_cast<double>(model.p99_step_ns) * 1e-6;
  return steps;
}

OrderedJson PartsJson(const TopModel& model) {
  OrderedJson parts = OrderedJson::array();
  for (const TopPart& part : model.parts) {
    parts.push_back({{"part", StepPartName(part.part)}, {"ms", part.ms}, {"share", part.share}});
  }
  return parts;
}

OrderedJson DevicesJson(const TopModel& model) {
  OrderedJson devices = OrderedJson::array();
  for (const TopDevice& device : model.devices) {
    OrderedJson idle = OrderedJson::array();
    for (const auto& [cause, share] : device.idle) {
      idle.push_back({{"cause", ToValidUtf8(cause)}, {"share", share}});
    }
    devices.push_back({{"pid", Raw(device.pid)},
                       {"device", device.device},
                       {"busy_share", device.busy_share},
                       {"idle", std::move(idle)}});
  }
  return devices;
}

}  // namespace

std::string TopJson(const TopModel& model, const TopStatus& status, size_t most_rows) {
  OrderedJson tables = OrderedJson::object();
  for (size_t i = 0; i < kTopViews; ++i) {
    tables[std::string(TopViewName(static_cast<TopView>(i)))] =
        TableJson(model.tables[i], most_rows);
  }
  const OrderedJson json = {{"end_unix_ns", model.end_unix_ns},
                            {"window_s", static_cast<double>(model.window_ns) * 1e-9},
                            {"interval_s", status.interval_s},
                            {"refresh_s", status.refresh_s},
                            {"target", ToValidUtf8(model.target)},
                            {"processes", model.processes},
                            {"rank", TextOrNull(model.rank)},
                            {"torch_version", TextOrNull(model.torch_version)},
                            {"tier", model.tier},
                            {"per", model.are_steps ? "step" : "second"},
                            {"steps", StepsJson(model, status)},
                            {"parts", PartsJson(model)},
                            {"why", VerdictDocument(model.verdict)},
                            {"devices", DevicesJson(model)},
                            {"cost",
                             {{"overhead_percent", model.cost.overhead_percent},
                              {"ns_per_hit", model.cost.ns_per_hit},
                              {"hits", model.cost.hits},
                              {"recorder_cpu_percent", NumberOrNull(status.recorder_cpu_percent)},
                              {"viewer_cpu_percent", NumberOrNull(status.viewer_cpu_percent)}}},
                            {"lost", model.lost},
                            {"any_loss", model.has_loss},
                            {"tables", std::move(tables)}};
  return AsciiJson(json) + "\n";
}

}  // namespace proftrace
