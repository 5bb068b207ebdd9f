// The facts around a recording as JSON: used by summary.json, the trace's metadata and the table's
// JSON form.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/recording.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

// Keys in the order they are put in, so that outputs are the same byte for byte.
using OrderedJson = nlohmann::ordered_json;

OrderedJson LedgerJson(const Ledger& ledger);
// Returns what GPU agents recorded and lost: their own words, their ledger, devices and clocks.
OrderedJson GpuJson(const Timeline& timeline);
// Returns the cost; null when it is not known.
OrderedJson CostJson(const RecordingInfo& info);
OrderedJson UnsupportedJson(const RecordingInfo& info);
// Returns the steps of the process that stands for the recording, and those of each.
OrderedJson StepsJson(const Timeline& timeline, const Steps& steps);

// Returns the value of a text that is JSON, not too deep to be written again; nullopt for any other
// text.
std::optional<OrderedJson> ParseJson(const std::string& text);

// `text` as valid UTF-8; null when it is empty, which stands for "not known".
OrderedJson TextOrNull(const std::string& text);

// `json` with two blanks of indent and a line end.
absl::Status WriteJson(const OrderedJson& json, ByteSink& sink);

}  // namespace proftrace
