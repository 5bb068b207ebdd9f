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

// JSON whose keys stay in the order in which they were added, so that outputs are the same byte for
// byte.
using OrderedJson = nlohmann::ordered_json;

OrderedJson LedgerJson(const Ledger& ledger);
// Returns the state that each GPU agent reported, and their counters of losses, devices and clocks.
OrderedJson GpuJson(const Timeline& timeline);
// Returns the cost; null when it is not known.
OrderedJson CostJson(const RecordingInfo& info);
OrderedJson UnsupportedJson(const RecordingInfo& info);
// Returns the steps of the process that stands for the recording, and those of each process.
OrderedJson StepsJson(const Timeline& timeline, const Steps& steps);

// Parses JSON. nullopt: the text is no JSON, or is nested too deeply to be written again.
std::optional<OrderedJson> ParseJson(const std::string& text);

// Returns `text` as valid UTF-8, and JSON's null where it is empty, which means "not known".
OrderedJson TextOrNull(const std::string& text);

// Writes `json` with an indent of two blanks and a line end.
absl::Status WriteJson(const OrderedJson& json, ByteSink& sink);

}  // namespace proftrace
