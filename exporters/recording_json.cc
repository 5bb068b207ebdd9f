#include "exporters/recording_json.h"

#include "exporters/escape.h"

namespace proftrace {

OrderedJson LedgerJson(const Ledger& ledger) {
  OrderedJson json = OrderedJson::object();
  ForEachCounter(ledger,
                 [&](std::string_view name, uint64_t value) { json[std::string(name)] = value; });
  return json;
}

OrderedJson CostJson(const RecordingInfo& info) {
  if (!info.has_end) return nullptr;
  const Cost& cost = info.cost;
  return {{"tracer_cpu_s", cost.tracer_cpu_s},
          {"probe_hits", cost.probe_hits},
          {"probe_ns_per_hit", cost.probe_ns_per_hit},
          {"estimated_overhead_percent", cost.estimated_overhead_percent},
          {"basis", ToValidUtf8(cost.basis)}};
}

OrderedJson UnsupportedJson(const RecordingInfo& info) {
  OrderedJson list = OrderedJson::array();
  for (const Unsupported& entry : info.unsupported) {
    list.push_back(
        {{"feature", ToValidUtf8(entry.feature)}, {"reason", ToValidUtf8(entry.reason)}});
  }
  return list;
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(ToValidUtf8(text));
}

absl::Status WriteJson(const OrderedJson& json, ByteSink& sink) {
  return sink.Write(json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace proftrace
