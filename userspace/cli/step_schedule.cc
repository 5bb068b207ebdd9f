#include "userspace/cli/step_schedule.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {

std::optional<uint64_t> StepSchedule::TotalSteps() const {
  if (repeat == 0) return std::nullopt;
  return skip_first + repeat * (wait + warmup + active) - ahead();
}

absl::StatusOr<StepSchedule> ParseSchedule(const std::string& text) {
  constexpr uint64_t kMost = 1'000'000'000;
  StepSchedule schedule;
  std::map<std::string_view, uint64_t*> fields = {
      {"skip_first", &schedule.skip_first}, {"wait", &schedule.wait},
      {"warmup", &schedule.warmup},         {"active", &schedule.active},
      {"repeat", &schedule.repeat},         {"skip_first_wait", &schedule.skip_first_wait}};
  const auto wrong = [&text] {
    return Fail(ExitCode::kUsage,
                "'" + text +
                    "' is not a schedule; write "
                    "skip_first=10,wait=5,warmup=1,active=3,repeat=2,skip_first_wait=1, with an "
                    "active of 1 at least");
  };
  for (const std::string_view part : SplitText(text, ",", /*skip_empty=*/false)) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) return wrong();
    const auto field = fields.find(part.substr(0, equals));
    if (field == fields.end()) return wrong();
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data() + equals + 1, end, *field->second);
    if (error != std::errc() || stop != end || *field->second > kMost) return wrong();
    fields.erase(field);
  }
  if (schedule.active == 0) return wrong();
  return schedule;
}

std::vector<CapturePart> Cycles(const StepSchedule& schedule, const RecordedSteps& steps) {
  std::vector<CapturePart> cycles;
  const uint64_t length = schedule.wait + schedule.warmup + schedule.active;
  for (uint64_t cycle = 0; schedule.repeat == 0 || cycle < schedule.repeat; ++cycle) {
    const uint64_t first =
        schedule.skip_first + cycle * length + schedule.wait + schedule.warmup - schedule.ahead();
    if (first >= steps.intervals.size()) break;
    const uint64_t last = std::min<uint64_t>(first + schedule.active, steps.intervals.size());
    CapturePart part;
    part.steps = steps;
    part.steps.first_number = static_cast<int64_t>(first);
    part.steps.intervals.assign(steps.intervals.begin() + static_cast<ptrdiff_t>(first),
                                steps.intervals.begin() + static_cast<ptrdiff_t>(last));
    part.start_ns = part.steps.intervals.front().first;
    part.end_ns = part.steps.intervals.back().second;
    cycles.push_back(std::move(part));
  }
  return cycles;
}

}  // namespace proftrace
