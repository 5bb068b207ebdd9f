#include "userspace/fleet_sources/trace_facts.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "exporters/sinks/json_writer.h"
#include "userspace/base/text.h"
#include "userspace/collectives/json_text.h"

namespace proftrace {
namespace {

constexpr int64_t kMicrosecondNs = 1000;
// Times from September 2001 on are taken to count from 1970. Kineto's times, which count from its
// base, are below a quarter of a year.
constexpr int64_t kEarliestUnixNs = int64_t{1'000'000'000} * 1'000'000'000;
// The longest head that is kept. A hostile one would take memory for as long as the input is open.
constexpr size_t kLongestHead = size_t{16} << 20;

// Returns whether rows of the category are made by the process itself: their pid is its PID,
// whereas rows on a GPU have the GPU's number as pid.
bool IsOfProcess(std::string_view category) {
  for (const std::string_view one : {"cpu_op", "cuda_runtime", "cuda_driver", "python_function",
                                     "user_annotation", "Operator", "Runtime"}) {
    if (category == one) return true;
  }
  return false;
}

std::optional<int64_t> BaseOf(std::string_view key, std::string_view value) {
  if (key == "baseTimeNanoseconds" || key == "baseTimeNanosecond") return JsonInteger(value);
  if (key != "viztracer_metadata" || !value.starts_with('{')) return std::nullopt;
  std::optional<int64_t> base_ns;
  ForEachJsonMember(value, [&base_ns](std::string_view inner, std::string_view of) {
    if (inner == "baseTimeNanoseconds") base_ns = JsonInteger(of);
  });
  return base_ns;
}

// A row of DFTracer that defines a name.
struct Definition {
  std::string name;
  std::string value;
};

Definition DefinitionIn(std::string_view args) {
  Definition definition;
  ForEachJsonMember(args, [&definition](std::string_view key, std::string_view value) {
    const auto text = JsonStringSource(value);
    if (key == "name" && text) definition.name = UnescapedJson(*text);
    if (key == "value" && text) definition.value = UnescapedJson(*text);
  });
  return definition;
}

std::optional<int64_t> UnitOf(std::string_view metric) {
  if (metric == "US") return kMicrosecondNs;
  if (metric == "NS") return 1;
  if (metric == "MS" || metric == "MSEC") return kMicrosecondNs * 1000;
  if (metric == "SEC") return kMicrosecondNs * 1'000'000;
  return std::nullopt;
}

}  // namespace

void TraceEvents::AddRemarks(std::vector<std::string>* remarks) const {
  if (unplaced_ > 0) {
    remarks->push_back(OneOrMore(unplaced_, "row has", "rows have") +
                       " no time or no phase that can be read, the first at byte " +
                       std::to_string(first_unplaced_) + ": left out");
  }
  if (reader_.repaired() > 0) {
    remarks->push_back(OneOrMore(reader_.repaired(), "row has", "rows have") +
                       " what JSON does not allow (NaN, Infinity, text that is no UTF-8): mended");
  }
  if (reader_.negative() > 0) {
    remarks->push_back(OneOrMore(reader_.negative(), "row ends", "rows end") +
                       " before it begins: its duration is taken for 0");
  }
}

void TraceFacts::TakeMember(std::string_view key, std::string_view value) {
  if (const std::optional<int64_t> base_ns = BaseOf(key, value)) {
    base_ns_ = base_ns;
    if (key != "viztracer_metadata") return;
  }
  JsonFlaws flaws;
  size_t wrong_at = 0;
  std::string mended;
  if (JsonValueEnd(value, 0, &flaws, &wrong_at) && flaws.any()) {
    mended = RepairedJson(value);
    value = mended;
  }
  if (key == "distributedInfo") job_ = ReadDistributedInfo(value);
  if (key == "host_name" || key == "hostname") {
    host_ = UnescapedJson(JsonStringSource(value).value_or(""));
  }
  if (head_.size() + key.size() + value.size() > kLongestHead) return;
  JsonText member(StringText(), JsonSpacing::kTight, JsonRoot::kMembers);
  member.Members(head_);
  member.Key(key).Raw(value);
  head_ = member.Done().Take();
}

void TraceFacts::TakeMetadata(const SourceEvent& event) {
  const auto* pid = std::get_if<int64_t>(&event.pid);
  if (event.name == "process_labels" && pid != nullptr && !process_pid_) {
    if (Contains(event.args, "\"CPU\"")) process_pid_ = *pid;
  } else if (event.name == "HH" && host_.empty()) {
    host_ = DefinitionIn(event.args).name;
  } else if (event.name == "CM" || event.name == "time_metric") {
    const Definition definition = DefinitionIn(event.args);
    if (definition.name == "time_metric") unit_ns_ = UnitOf(definition.value);
  }
}

void TraceFacts::TakeEvent(const SourceEvent& event) {
  ++events_;
  const auto* pid = std::get_if<int64_t>(&event.pid);
  if (pid != nullptr && event.phase != 'M') {
    if (!first_pid_) first_pid_ = *pid;
    if (!process_pid_ && IsOfProcess(event.category)) process_pid_ = *pid;
  }
  if (event.phase == 'M') {
    TakeMetadata(event);
    return;
  }
  collectives_.Take(event);
  const int64_t begin_ns = *event.begin_ns;
  const int64_t end_ns = begin_ns + event.duration_ns;
  if (!first_ns_ || begin_ns < *first_ns_) first_ns_ = begin_ns;
  if (!last_ns_ || end_ns > *last_ns_) last_ns_ = end_ns;
  has_fractions_ =
      has_fractions_ || begin_ns % kMicrosecondNs != 0 || event.duration_ns % kMicrosecondNs != 0;
}

// Finds the host in the file's name: tensorboard_trace_handler calls its files
// HOST_PID.TIME.pt.trace.json.gz.
void TraceFacts::FindHostInPath(SourceFacts* facts) const {
  const std::string name = std::filesystem::path(facts->path).filename().string();
  const size_t end = name.find(".pt.trace.json");
  if (end == std::string::npos || !facts->pid) return;
  std::string_view worker = std::string_view(name).substr(0, end);
  worker = worker.substr(0, worker.rfind('.'));
  const std::string pid = "_" + std::to_string(*facts->pid);
  if (!worker.ends_with(pid)) return;
  facts->host = std::string(worker.substr(0, worker.size() - pid.size()));
}

void TraceFacts::Finish(bool is_cut, SourceFacts* facts) {
  facts->events = events_;
  facts->pid = process_pid_ ? process_pid_ : first_pid_;
  facts->host = host_;
  if (facts->host.empty()) FindHostInPath(facts);
  facts->rank = job_.rank;
  facts->world_size = job_.world_size;
  facts->head = head_;
  facts->resolution_ns = has_fractions_ || events_ == 0 ? 1 : kMicrosecondNs;
  facts->clock = SourceClock::kRealtime;
  if (!base_ns_ && last_ns_.value_or(kEarliestUnixNs) < kEarliestUnixNs) {
    facts->clock = SourceClock::kOwn;
    facts->remarks.push_back(
        is_cut ? "its base time stood behind the events and was cut off: its times count from a "
                 "moment that is not known"
               : "it has no base time: its times count from a moment that is not known");
  }
  const int64_t base_ns = base_ns_.value_or(0);
  facts->first_ns = first_ns_;
  facts->last_ns = last_ns_;
  for (std::optional<int64_t>* time : {&facts->first_ns, &facts->last_ns}) {
    int64_t moved_ns = 0;
    if (*time && !__builtin_add_overflow(**time, base_ns, &moved_ns)) *time = moved_ns;
  }
  collectives_.Finish(job_, base_ns, facts);
}

}  // namespace proftrace
