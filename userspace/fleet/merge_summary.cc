// Makes the summary of a merge: FleetMerge::SummaryJson().
#include <nlohmann/json.hpp>

#include "userspace/base/dumped_json.h"
#include "userspace/fleet/fleet_merge.h"

namespace proftrace {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename T>
OrderedJson ValueOrNull(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

OrderedJson TextOrNull(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson ClockSummary(const ClockStatement& clock) {
  OrderedJson hosts = OrderedJson::array();
  for (const ClockStatement::Host& host : clock.of_hosts) {
    hosts.push_back({{"host", host.host},
                     {"boot_id", host.boot_id},
                     {"aligned", host.is_aligned},
                     {"offset_ns", host.offset_ns},
                     {"at_unix_ns", host.at_unix_ns},
                     {"drift_ppb", host.drift_ppb},
                     {"bound_ns", ValueOrNull(host.bound_ns)},
                     {"no_bound_because", TextOrNull(host.no_bound_because)},
                     {"likely_error_ns", ValueOrNull(host.likely_error_ns)}});
  }
  return {{"statement", clock.Line()},
          {"mode", std::string(NameOf(clock.mode))},
          {"reference", clock.reference},
          {"collectives", clock.collectives},
          {"matched_by_order", clock.matched_by_order},
          {"bound_ns", ValueOrNull(clock.bound_ns)},
          {"worst_bound_ns", ValueOrNull(clock.worst_bound_ns)},
          {"likely_error_ns", ValueOrNull(clock.likely_error_ns)},
          {"not_aligned", clock.not_aligned},
          {"contradicted", clock.contradicted},
          {"worst_contradiction_ns", clock.worst_contradiction_ns},
          {"findings", clock.findings},
          {"hosts", hosts}};
}

}  // namespace

std::string FleetMerge::ClockJson() const { return DumpedJson(ClockSummary(clock())); }

std::string FleetMerge::SummaryJson() const {
  OrderedJson processes = OrderedJson::array();
  for (const JoinedProcess& process : joined_.processes) {
    OrderedJson inputs = OrderedJson::array();
    for (const uint32_t input : process.inputs) inputs.push_back(facts_[input]->path);
    processes.push_back({{"rank", ValueOrNull(process.rank)},
                         {"attempt", process.attempt},
                         {"host", process.host},
                         {"pid", ValueOrNull(process.pid)},
                         {"inputs", inputs}});
  }
  OrderedJson waits = OrderedJson::array();
  for (const MergedCollectives::RankSums& sums : collectives_->SumsByRank()) {
    waits.push_back({{"rank", sums.rank},
                     {"attempt", sums.attempt},
                     {"collectives", sums.collectives},
                     {"entered_last", sums.entered_last},
                     {"wait_ns", sums.wait_ns}});
  }
  OrderedJson json = {{"clock", ClockSummary(clock())},
                      {"world_size", ValueOrNull(joined_.world_size)},
                      {"missing_ranks", joined_.missing_ranks},
                      {"lanes", is_summary() ? "summary" : "full"},
                      {"processes", processes},
                      {"collectives", waits},
                      {"remarks", remarks_}};
  if (counts_.in > 0) {
    json["events"] = {{"in", counts_.in},
                      {"out", counts_.out},
                      {"filtered", counts_.filtered},
                      {"refused", counts_.refused},
                      {"added", counts_.added}};
  }
  return DumpedJson(json);
}

}  // namespace proftrace
