#include "userspace/wire/budget_metadata.h"

#include <optional>
#include <utility>

#include "userspace/wire/metadata_json.h"

namespace proftrace {
namespace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

// The most demoted operators that are read, which is more than any recording has.
constexpr size_t kMostDemoted = 1u << 16;

}  // namespace

json BudgetToJson(const Budget& budget) {
  json demoted = json::array();
  for (const DemotedOperator& one : budget.demoted) {
    demoted.push_back({{"pid", Raw(one.pid)},
                       {"site", one.site},
                       {"name", ToJsonText(one.name)},
                       {"since_ns", one.since_ns},
                       {"removed_ns", one.removed_ns},
                       {"until_ns", one.until_ns},
                       {"calls", one.calls}});
  }
  return {{"type", "budget"},
          {"max_overhead_percent", budget.max_overhead_percent},
          {"kept", budget.is_kept},
          {"before_percent", NumberOrNull(budget.before_percent)},
          {"after_percent", NumberOrNull(budget.after_percent)},
          {"step_before_us", NumberOrNull(budget.step_before_us)},
          {"step_after_us", NumberOrNull(budget.step_after_us)},
          {"demoted", std::move(demoted)}};
}

Budget BudgetFromJson(const json& entry) {
  Budget budget;
  budget.max_overhead_percent = Number<double>(entry, "max_overhead_percent");
  budget.is_kept = Flag(entry, "kept");
  budget.before_percent = RealNumber(Member(entry, "before_percent"));
  budget.after_percent = RealNumber(Member(entry, "after_percent"));
  budget.step_before_us = RealNumber(Member(entry, "step_before_us"));
  budget.step_after_us = RealNumber(Member(entry, "step_after_us"));
  for (const json& row : Member(entry, "demoted")) {
    if (!row.is_object()) continue;
    if (budget.demoted.size() >= kMostDemoted) break;
    budget.demoted.push_back({Pid{Number<uint32_t>(row, "pid")}, Number<uint16_t>(row, "site"),
                              Text(row, "name"), Nanoseconds(row, "since_ns"),
                              Nanoseconds(row, "removed_ns"), Nanoseconds(row, "until_ns"),
                              Number<uint64_t>(row, "calls")});
  }
  return budget;
}

}  // namespace proftrace
