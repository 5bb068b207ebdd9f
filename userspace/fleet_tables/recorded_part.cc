#include "userspace/fleet_tables/recorded_part.h"

#include <algorithm>

#include "userspace/fleet_sources/capture_source.h"

namespace proftrace {
namespace {

Aggregates AggregatesOf(const Timeline& timeline, const std::string& spill_directory) {
  AggregateOptions options;
  options.spill_directory = spill_directory;
  return Aggregate(timeline, options);
}

uint64_t LostRecords(const Timeline& timeline) {
  uint64_t lost = 0;
  ForEachLossRow(timeline, [&lost](const LossRow& row) {
    if (row.counter.ends_with("lost")) lost += row.count;
    return true;
  });
  return std::max<uint64_t>(lost, 1);
}

}  // namespace

RowKeys PlaceOf(const SourceFacts& source) {
  RowKeys keys;
  keys.job = source.job;
  keys.attempt = source.attempt;
  keys.host = source.host;
  if (source.rank) keys.rank = *source.rank;
  return keys;
}

RecordedPart::RecordedPart(const Timeline& timeline, const std::string& spill_directory)
    : timeline_(timeline),
      aggregates_(AggregatesOf(timeline, spill_directory)),
      calls_(FindCollectiveCalls(timeline)) {}

InputFacts RecordedPart::Facts(const std::string& path) const {
  const RecordingInfo& info = timeline_.info();
  InputFacts facts;
  SourceFacts& source = facts.source;
  source.kind = SourceKind::kCapture;
  source.clock = SourceClock::kMonotonic;
  source.path = path;
  TakeRecordingFacts(info, &source);
  for (const ProcessCalls& process : calls_) {
    // The first process with collectives is enough, because a part has one rank and its helper
    // processes are in the same groups.
    if (!source.calls.empty() || !source.groups.empty()) break;
    source.groups = process.facts.groups;
    source.group_descriptions = process.facts.group_descriptions;
    source.calls = process.facts.calls;
    source.calls_without_group = process.facts.calls_without_group;
    source.remarks = process.facts.remarks;
  }
  source.events = uint64_t{timeline_.span_count()} + timeline_.memory_events().size() +
                  timeline_.system_event_count() + timeline_.device_activities().size();
  source.first_ns = info.window.start_ns;
  source.last_ns = info.window.start_ns + info.window.duration_ns;
  facts.unix_offset_ns = info.window.monotonic_to_unix_ns;
  facts.kernel = info.host.kernel;
  facts.cpus = info.host.cpus;
  if (!timeline_.devices().empty()) facts.gpu = timeline_.devices().front().name;
  for (const Target& target : info.targets) {
    if (facts.torch_version.empty()) facts.torch_version = target.torch_version;
    if (facts.cuda_version.empty()) facts.cuda_version = target.cuda_version;
  }
  facts.proftrace_version = info.proftrace_version;
  if (info.has_end) {
    facts.lost = static_cast<int64_t>(timeline_.any_loss() ? LostRecords(timeline_) : 0);
    facts.overhead_percent = info.cost.estimated_overhead_percent;
  }
  for (const Unsupported& gap : info.unsupported) {
    if (gap.is_only_loaded) continue;
    facts.unsupported += (facts.unsupported.empty() ? "" : "; ") + gap.feature + ": " + gap.reason;
  }
  facts.steps = StepRowsOf(timeline_, aggregates_);
  return facts;
}

}  // namespace proftrace
