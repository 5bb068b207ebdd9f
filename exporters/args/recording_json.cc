#include "exporters/args/recording_json.h"

#include <array>
#include <cmath>
#include <string>

#include "exporters/sinks/escape.h"
#include "userspace/base/dumped_json.h"

namespace proftrace {

OrderedJson LedgerJson(const Ledger& ledger) {
  OrderedJson json = OrderedJson::object();
  ForEachCounter(ledger,
                 [&](std::string_view name, uint64_t value) { json[std::string(name)] = value; });
  return json;
}

namespace {

// Returns a UUID as nvidia-smi writes it; empty: not known.
std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  if (uuid == std::array<uint8_t, 16>{}) return "";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

}  // namespace

OrderedJson GpuJson(const Timeline& timeline) {
  OrderedJson ledger = OrderedJson::object();
  ForEachDeviceCounter(timeline.device_ledger(), [&](std::string_view name, uint64_t value) {
    ledger[std::string(name)] = value;
  });
  const auto version_or_null = [](uint32_t version) {
    return version == 0 ? OrderedJson(nullptr) : OrderedJson(version);
  };
  OrderedJson agents = OrderedJson::array();
  for (const GpuAgent& agent : timeline.info().gpu_agents) {
    agents.push_back({{"pid", Raw(agent.pid)},
                      {"state", TextOrNull(agent.state)},
                      {"failure", TextOrNull(agent.failure)},
                      {"message", TextOrNull(agent.message)},
                      {"cupti_result", agent.cupti_result},
                      {"cupti_version", version_or_null(agent.cupti_version)},
                      {"cuda_driver_version", version_or_null(agent.driver_version)},
                      {"cuda_runtime_version", version_or_null(agent.runtime_version)},
                      {"cupti_records", agent.cupti_records},
                      {"ring_records", agent.ring_records},
                      {"ring_dropped", agent.ring_dropped},
                      {"unread_records", agent.unread_records},
                      {"cupti_dropped", agent.cupti_dropped},
                      {"buffers_refused", agent.buffers_refused},
                      {"incomplete_buffers", agent.incomplete_buffers},
                      {"incomplete_bytes", agent.incomplete_bytes}});
  }
  OrderedJson devices = OrderedJson::array();
  for (const GpuDevice& device : timeline.devices()) {
    devices.push_back({{"pid", Raw(device.pid)},
                       {"device", device.device},
                       {"name", TextOrNull(device.name)},
                       {"memory_bytes", device.memory_bytes},
                       {"compute_capability", std::to_string(device.compute_major) + "." +
                                                  std::to_string(device.compute_minor)},
                       {"multiprocessors", device.multiprocessors},
                       {"uuid", TextOrNull(UuidText(device.uuid))}});
  }
  OrderedJson clocks = OrderedJson::array();
  for (const DeviceClock& clock : timeline.device_clocks()) {
    clocks.push_back({{"pid", Raw(clock.pid)},
                      {"cupti_ahead_least_ns", clock.least_ns},
                      {"cupti_ahead_most_ns", clock.most_ns},
                      {"looks", clock.looks}});
  }
  return {{"ledger", std::move(ledger)},
          {"agents", std::move(agents)},
          {"devices", std::move(devices)},
          {"clocks", std::move(clocks)}};
}

namespace {

OrderedJson NumberOrNull(const std::optional<double>& number) {
  return number.has_value() ? OrderedJson(*number) : OrderedJson(nullptr);
}

void AddBudget(const RecordingInfo& info, OrderedJson* json) {
  const Budget& budget = *info.budget;
  const auto seconds = [&info](int64_t time_ns) {
    return static_cast<double>(time_ns - info.window.start_ns) * 1e-9;
  };
  (*json)["max_overhead_percent"] = budget.max_overhead_percent;
  (*json)["max_overhead_kept"] = budget.is_kept;
  (*json)["overhead_before_percent"] = NumberOrNull(budget.before_percent);
  (*json)["overhead_after_percent"] = NumberOrNull(budget.after_percent);
  (*json)["step_before_us"] = NumberOrNull(budget.step_before_us);
  (*json)["step_after_us"] = NumberOrNull(budget.step_after_us);
  OrderedJson demoted = OrderedJson::array();
  for (const DemotedOperator& one : budget.demoted) {
    demoted.push_back(
        {{"pid", Raw(one.pid)},
         {"name", ToValidUtf8(one.name)},
         {"calls", one.calls},
         {"since_s", seconds(one.since_ns)},
         {"counted_until_s",
          one.removed_ns != 0 ? OrderedJson(seconds(one.removed_ns)) : OrderedJson(nullptr)}});
  }
  (*json)["demoted"] = std::move(demoted);
}

}  // namespace

OrderedJson CostJson(const RecordingInfo& info) {
  if (!info.has_end) return nullptr;
  const Cost& cost = info.cost;
  OrderedJson json = {{"tracer_cpu_s", cost.tracer_cpu_s},
                      {"probe_hits", cost.probe_hits},
                      {"probe_ns_per_hit", cost.probe_ns_per_hit},
                      {"estimated_overhead_percent", cost.estimated_overhead_percent},
                      {"input_readings", cost.input_readings},
                      {"input_ns_per_reading", NumberOrNull(cost.input_ns_per_reading)},
                      {"basis", ToValidUtf8(cost.basis)}};
  if (cost.busiest_thread_percent.has_value()) {
    json["busiest_thread_percent"] = *cost.busiest_thread_percent;
  }
  if (cost.jumps > 0) {
    json["jumps"] = cost.jumps;
    json["ns_per_jump"] = cost.ns_per_jump;
  }
  if (info.budget.has_value()) AddBudget(info, &json);
  return json;
}

OrderedJson UnsupportedJson(const RecordingInfo& info) {
  OrderedJson list = OrderedJson::array();
  for (const Unsupported& entry : info.unsupported) {
    OrderedJson row = {{"feature", ToValidUtf8(entry.feature)},
                       {"reason", ToValidUtf8(entry.reason)}};
    if (entry.is_only_loaded) row["only_loaded"] = true;
    list.push_back(std::move(row));
  }
  return list;
}

std::optional<OrderedJson> ParseJson(const std::string& text) {
  constexpr int kDeepest = 100;
  // The parser would accept this byte order mark.
  if (text.starts_with("\xEF\xBB\xBF")) return std::nullopt;
  bool is_too_deep = false;
  const auto look = [&is_too_deep](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    is_too_deep |= depth > kDeepest;
    return !is_too_deep;
  };
  OrderedJson json = OrderedJson::parse(text, look, /*allow_exceptions=*/false);
  if (is_too_deep || json.is_discarded()) return std::nullopt;
  return json;
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(ToValidUtf8(text));
}

absl::Status WriteJson(const OrderedJson& json, ByteSink& sink) {
  return sink.Write(DumpedJson(json, 2) + "\n");
}

OrderedJson StepsJson(const Timeline& timeline, const Steps& steps) {
  const auto microseconds = [](int64_t ns) { return static_cast<double>(ns) / 1000.0; };
  const auto describe = [&](const ProcessSteps& process) -> OrderedJson {
    OrderedJson threads = OrderedJson::array();
    threads.push_back({{"tid", Raw(timeline.thread(process.thread).tid)},
                       {"count", process.steps.size()},
                       {"median_us", microseconds(process.own_median_ns)}});
    for (const ThreadSteps& other : process.others) {
      threads.push_back({{"tid", Raw(timeline.thread(other.thread).tid)},
                         {"count", other.steps.size()},
                         {"median_us", microseconds(other.median_ns)}});
    }
    return {{"count", process.count()},
            {"how", process.how},
            // The confidence is no more exact than two decimals.
            {"confidence", std::round(process.confidence * 100) / 100},
            {"median_us", microseconds(process.median_ns)},
            {"p99_us", microseconds(process.p99_ns)},
            {"pid", Raw(process.pid)},
            {"tid", Raw(timeline.thread(process.thread).tid)},
            {"threads", std::move(threads)}};
  };
  if (!steps.main.has_value()) {
    return {{"count", 0},           {"how", "not detected"}, {"confidence", 0},
            {"median_us", nullptr}, {"p99_us", nullptr},     {"processes", OrderedJson::array()}};
  }
  OrderedJson json = describe(steps.processes[*steps.main]);
  OrderedJson processes = OrderedJson::array();
  for (const ProcessSteps& process : steps.processes) processes.push_back(describe(process));
  json["processes"] = std::move(processes);
  return json;
}

}  // namespace proftrace
