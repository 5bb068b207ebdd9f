#include "userspace/cli/record_events.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "exporters/text/summary_json.h"
#include "userspace/cli/events.h"

namespace proftrace {
namespace {

using nlohmann::ordered_json;

template <typename... Arguments>
using Callback = std::function<void(Arguments...)>;

// Returns a callback that calls `before`, if there is one, and writes the event that `event` makes
// of the arguments.
template <typename... Arguments, typename Event>
Callback<Arguments...> WithEvent(Callback<Arguments...> before, Event event) {
  return [before = std::move(before), event](Arguments... arguments) {
    if (before) before(arguments...);
    WriteEvent(event(arguments...));
  };
}

std::function<ordered_json(const std::string&)> TextEvent(const char* name) {
  return [name](const std::string& text) {
    return ordered_json{{"event", name}, {"message", text}};
  };
}

template <typename T>
ordered_json NumberOrNull(const std::optional<T>& number) {
  return number.has_value() ? ordered_json(*number) : ordered_json();
}

ordered_json ReadyEvent(const RecordedTargets& targets, const Ready& ready) {
  ordered_json pids = ordered_json::array();
  for (const Pid pid : targets.pids) {
    if (!targets.refused.contains(pid)) pids.push_back(Raw(pid));
  }
  return {{"event", "ready"},
          {"pids", std::move(pids)},
          {"processes", ready.processes},
          {"operators", ready.operator_count},
          {"attach_s", ready.attach_s}};
}

ordered_json ProgressEvent(const Progress& progress) {
  ordered_json event = {{"event", "progress"},         {"elapsed_s", progress.elapsed_s},
                        {"records", progress.records}, {"records_per_s", progress.records_per_s},
                        {"lost", progress.lost},       {"step_ms", NumberOrNull(progress.step_ms)}};
  event["step_tid"] = progress.step_ms.has_value() ? ordered_json(Raw(progress.step_tid)) : nullptr;
  event["steps"] = progress.steps > 0 ? ordered_json(progress.steps) : nullptr;
  return event;
}

}  // namespace

void AddEvents(const std::shared_ptr<RecordedTargets>& targets, RecordCallbacks* callbacks) {
  const auto add = [](auto* callback, auto event) {
    *callback = WithEvent(std::move(*callback), event);
  };
  add(&callbacks->on_ready, [targets](const Ready& ready) { return ReadyEvent(*targets, ready); });
  add(&callbacks->on_tier, [](const std::string& tier, const TierChoice& choice) {
    return ordered_json{{"event", "tier"}, {"tier", tier}, {"reason", choice.reason}};
  });
  add(&callbacks->on_refused, [](Pid pid, const absl::Status& why) {
    return ordered_json{
        {"event", "refused"}, {"pid", Raw(pid)}, {"message", std::string(why.message())}};
  });
  add(&callbacks->on_import, [](Pid pid) {
    return ordered_json{{"event", "importing"}, {"pid", Raw(pid)}};
  });
  add(&callbacks->on_follow, [](Pid child, int64_t after_ns) {
    return ordered_json{{"event", "child"},
                        {"pid", Raw(child)},
                        {"after_ms", static_cast<double>(after_ns) * 1e-6}};
  });
  add(&callbacks->on_awaited, [](Pid pid, uint32_t operators) {
    return ordered_json{{"event", "process"}, {"pid", Raw(pid)}, {"operators", operators}};
  });
  add(&callbacks->on_budget, [](const BudgetNews& news, double after_s) {
    return ordered_json{{"event", "budget"},
                        {"pid", Raw(news.pid)},
                        {"after_s", after_s},
                        {"demoted", news.demoted},
                        {"overhead_percent", NumberOrNull(news.measured_percent)}};
  });
  add(&callbacks->on_without_bpf, TextEvent("without_bpf"));
  add(&callbacks->on_anothers_jumps, TextEvent("warning"));
  add(&callbacks->on_missing, TextEvent("warning"));
  add(&callbacks->on_left_behind, TextEvent("warning"));
  add(&callbacks->on_progress, ProgressEvent);
}

void WriteFinished(const std::string& place, const std::vector<std::string>& files,
                   const Results& results) {
  WriteEvent({{"event", "finished"},
              {"result", place},
              {"files", files},
              {"summary", SummaryJson(*results.timeline, results.aggregates)}});
}

}  // namespace proftrace
