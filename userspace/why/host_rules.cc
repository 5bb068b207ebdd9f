// What slowed the whole host down while it was recorded: processors that were too hot or had too
// little power, a limit of their frequency, memory on another node. None of these is an event of a
// thread: the same work only takes longer. So no time of the steps is given to them, and a remark
// tells what the kernel counted.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// Less than this part of the time is no reason for slow steps.
constexpr int64_t kLeastThrottledPart = 50;
// Fewer pages than this say nothing about a host, which has millions.
constexpr uint64_t kFewestHints = 1000;

// The states of the host around the window: the last one at or before its begin, and the first one
// at or after its end.
struct Around {
  const HostState* first = nullptr;
  const HostState* last = nullptr;
};

std::optional<Around> StatesAround(const RecordingInfo& info) {
  const int64_t end_ns = info.window.start_ns + info.window.duration_ns;
  Around around;
  for (const HostState& state : info.host_states) {
    if (around.first == nullptr || state.time_ns <= info.window.start_ns) around.first = &state;
    if (around.last == nullptr || around.last->time_ns < end_ns) around.last = &state;
  }
  if (around.first == nullptr || around.first->time_ns >= around.last->time_ns) return std::nullopt;
  return around;
}

std::string ThrottledText(const Around& around) {
  if (!around.first->throttled_ns.has_value() || !around.last->throttled_ns.has_value()) return "";
  const int64_t ns = *around.last->throttled_ns - *around.first->throttled_ns;
  const int64_t passed_ns = around.last->time_ns - around.first->time_ns;
  if (ns < passed_ns / kLeastThrottledPart) return "";
  return "The host's processors were slowed down because of heat or power for " + DurationText(ns) +
         " of " + DurationText(passed_ns) +
         ", the packages' times added up (the kernel's thermal_throttle): all computing takes "
         "longer then. Look at cooling, at the limit of power, and at what else runs there.";
}

std::string FrequencyText(const Around& around) {
  const std::optional<FrequencyLimit>& limit = around.last->frequency;
  if (!limit.has_value() || limit->limited == 0) return "";
  return absl::StrFormat(
      "%d of the host's %d CPUs may not run at their full speed: the lowest limit is %.2f GHz of "
      "%.2f GHz (scaling_max_freq; cpupower frequency-info shows it).",
      limit->limited, limit->cpus, static_cast<double>(limit->limit_khz) * 1e-6,
      static_cast<double>(limit->able_khz) * 1e-6);
}

std::string NumaText(const Around& around) {
  if (!around.first->numa.has_value() || !around.last->numa.has_value()) return "";
  const NumaHints &first = *around.first->numa, &last = *around.last->numa;
  if (last.all < first.all || last.local < first.local) return "";
  const uint64_t all = last.all - first.all;
  const uint64_t local = std::min(all, last.local - first.local);
  if (all < kFewestHints || 2 * local > all) return "";
  return absl::StrFormat(
      "%s of the memory that processes of this host used was on another node than the CPU that "
      "used "
      "it (%d of %d pages that automatic NUMA balancing looked at): reading it takes longer. "
      "numactl --cpunodebind and --membind keep a process's threads and memory together.",
      PercentText(static_cast<int64_t>(all - local), static_cast<int64_t>(all)), all - local, all);
}

}  // namespace

std::vector<std::string> HostRemarks(const RecordingInfo& info) {
  std::vector<std::string> remarks;
  const std::optional<Around> around = StatesAround(info);
  if (!around.has_value()) return remarks;
  for (std::string text : {ThrottledText(*around), FrequencyText(*around), NumaText(*around)}) {
    if (!text.empty()) remarks.push_back(std::move(text));
  }
  return remarks;
}

}  // namespace proftrace
