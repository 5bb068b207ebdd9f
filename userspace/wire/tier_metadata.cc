#include "userspace/wire/tier_metadata.h"

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

json TierChoiceToJson(const TierChoice& choice) {
  json entry = {{"type", "tier_choice"},
                {"limit_percent", choice.limit_percent},
                {"reason", ToJsonText(choice.reason)},
                {"jumps_refused", choice.are_jumps_refused}};
  if (choice.probes_percent.has_value()) {
    entry["probes_percent"] = *choice.probes_percent;
    entry["operators_per_s"] = choice.operators_per_s;
    entry["ns_per_operator"] = choice.ns_per_operator;
    entry["tid"] = Raw(choice.tid);
  }
  return entry;
}

TierChoice TierChoiceFromJson(const json& entry) {
  TierChoice choice;
  choice.limit_percent = Number<double>(entry, "limit_percent");
  choice.reason = Text(entry, "reason");
  choice.are_jumps_refused = Flag(entry, "jumps_refused");
  if (!entry.contains("probes_percent")) return choice;
  choice.probes_percent = Number<double>(entry, "probes_percent");
  choice.operators_per_s = Number<double>(entry, "operators_per_s");
  choice.ns_per_operator = Number<double>(entry, "ns_per_operator");
  choice.tid = Tid{Number<uint32_t>(entry, "tid")};
  return choice;
}

}  // namespace proftrace
