#include "userspace/fleet_sources/trace_event.h"

#include <algorithm>

#include "exporters/sinks/json_writer.h"
#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"

namespace proftrace {
namespace {

// The most other members among which a repeated key is searched, so that a hostile event with a
// million keys takes no quadratic time.
constexpr size_t kMostSearched = 64;
// The phases whose `id` ties events to each other, in the words of the Trace Event Format: flows,
// asynchronous events, counters, samples, objects, memory dumps.
constexpr std::string_view kPhasesWithId = "stfbneSTpFCPNODvV(";
// DFTracer 2.2 and later (TracePhaseType): unknown, complete, counter, aggregated (which earlier
// ones wrote as counters), metadata.
constexpr std::string_view kNumberedPhases = "\0XCCM";
constexpr size_t kNumberedPhaseCount = 5;

std::string_view TextOrSource(std::string_view value) {
  if (value == "null") return {};
  return JsonStringSource(value).value_or(value);
}

SourceId IdOf(std::string_view value) {
  if (value.empty() || value == "null") return int64_t{0};
  if (const auto text = JsonStringSource(value)) return *text;
  if (const auto number = ParseNumber<int64_t>(value)) return *number;
  return value;
}

// Returns the phase; '\0' where the value is none.
char PhaseOf(std::string_view value) {
  if (const auto text = JsonStringSource(value)) return text->size() == 1 ? text->front() : '\0';
  const std::optional<uint32_t> number = ParseNumber<uint32_t>(value);
  return number && *number < kNumberedPhaseCount ? kNumberedPhases.data()[*number] : '\0';
}

}  // namespace

TraceEventReader::Outcome TraceEventReader::Read(std::string_view text, const TraceTimes& times,
                                                 SourceEvent* event, size_t* wrong_at) {
  JsonFlaws flaws;
  const auto take = [this](std::string_view key, std::string_view value) {
    std::string_view* known = nullptr;
    switch (key.size()) {
      case 2:
        if (key == "ph") known = &members_.phase;
        if (key == "ts") known = &members_.ts;
        if (key == "id") known = &members_.id;
        break;
      case 3:
        if (key == "cat") known = &members_.category;
        if (key == "pid") known = &members_.pid;
        if (key == "tid") known = &members_.tid;
        if (key == "dur") known = &members_.dur;
        break;
      case 4:
        if (key == "name") known = &members_.name;
        if (key == "args") known = &members_.args;
        break;
      default:
        break;
    }
    if (known != nullptr) {
      *known = value;
      return;
    }
    if (other_members_.size() < kMostSearched) {
      const auto same = std::find_if(other_members_.begin(), other_members_.end(),
                                     [key](const auto& member) { return member.first == key; });
      if (same != other_members_.end()) other_members_.erase(same);
    }
    other_members_.emplace_back(key, value);
  };
  members_ = {};
  other_members_.clear();
  const std::optional<size_t> end = ForEachJsonMember(text, 0, &flaws, wrong_at, take);
  if (!end) return Outcome::kWrong;
  if (*end != text.size()) {
    *wrong_at = *end;
    return Outcome::kWrong;
  }
  if (flaws.any()) {
    ++repaired_;
    repaired_text_ = RepairedJson(text);
    members_ = {};
    other_members_.clear();
    (void)ForEachJsonMember(repaired_text_, 0, &flaws, wrong_at, take);
  }
  return Build(times, event);
}

TraceEventReader::Outcome TraceEventReader::Build(const TraceTimes& times, SourceEvent* event) {
  *event = SourceEvent();
  event->phase = PhaseOf(members_.phase);
  if (event->phase == '\0') return Outcome::kUnplaced;
  event->name = TextOrSource(members_.name);
  event->category = TextOrSource(members_.category);
  event->pid = IdOf(members_.pid);
  event->tid = IdOf(members_.tid);
  if (members_.args.starts_with('{')) event->args = members_.args;
  if (const auto ticks = ScaledDecimal(members_.ts, times.unit_ns)) {
    int64_t begin_ns = 0;
    if (!__builtin_add_overflow(*ticks, times.base_ns, &begin_ns)) event->begin_ns = begin_ns;
  }
  if (event->phase != 'M' && !event->begin_ns) return Outcome::kUnplaced;
  event->duration_ns = ScaledDecimal(members_.dur, times.unit_ns).value_or(0);
  if (event->duration_ns < 0) {
    ++negative_;
    event->duration_ns = 0;
  }
  int64_t end_ns = 0;
  if (__builtin_add_overflow(event->begin_ns.value_or(0), event->duration_ns, &end_ns)) {
    return Outcome::kUnplaced;
  }
  if (!members_.id.empty()) {
    if (kPhasesWithId.find(event->phase) != std::string_view::npos) {
      event->id = IdOf(members_.id);
    } else {
      other_members_.emplace_back("id", members_.id);
    }
  }
  if (!members_.args.empty() && event->args.empty()) {
    other_members_.emplace_back("args", members_.args);
  }
  JsonText others(StringText(), JsonSpacing::kTight, JsonRoot::kMembers);
  for (const auto& [key, value] : other_members_) others.Key(key).Raw(value);
  others_ = others.Done().Take();
  event->others = others_;
  return Outcome::kEvent;
}

}  // namespace proftrace
