#include "userspace/fleet_sources/capture_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "exporters/traces/chrome_trace.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/base/exit_status.h"
#include "userspace/fleet_sources/json_splitter.h"
#include "userspace/fleet_sources/trace_facts.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_reader.h"

namespace proftrace {
namespace {

// A sink that passes an exporter's output on to a JsonSplitter.
class SplitterSink final : public ByteSink {
 public:
  explicit SplitterSink(JsonSplitter* splitter) : splitter_(*splitter) {}
  absl::Status Write(std::string_view bytes) override { return splitter_.Take(bytes); }
  absl::Status Finish() override { return splitter_.Finish(); }

 private:
  JsonSplitter& splitter_;
};

class CaptureSource final : public SourceInput {
 public:
  CaptureSource(const std::string& path, const ProcessChoice& choice, bool salvage,
                const std::string& scratch_directory)
      : choice_(choice), salvage_(salvage), scratch_directory_(scratch_directory) {
    facts_.path = path;
    facts_.kind = SourceKind::kCapture;
  }

  const SourceFacts& facts() const override { return facts_; }

  absl::Status ReadFacts() {
    TraceFacts collected;
    std::optional<RecordingInfo> info;
    absl::Status status = Replay(
        0, [&](std::string_view key, std::string_view value) { collected.TakeMember(key, value); },
        [&](const SourceEvent& event) {
          collected.TakeEvent(event);
          return absl::OkStatus();
        },
        &info);
    if (!status.ok()) return status;
    base_ns_ = collected.base_ns().value_or(0) - info->window.monotonic_to_unix_ns;
    for (const LossTime& loss : losses_) {
      collected.NoteLoss(loss.after_ns - base_ns_, loss.until_ns - base_ns_);
    }
    losses_.clear();
    // With this base the events' times are on the boot's clock, because base and offset to Unix
    // time cancel out.
    collected.set_base(base_ns_);
    collected.Finish(/*is_cut=*/false, &facts_);
    facts_.clock = SourceClock::kMonotonic;
    facts_.resolution_ns = 1;
    TakeRecordingFacts(*info, &facts_);
    return absl::OkStatus();
  }

  absl::Status ForEachEvent(const std::function<absl::Status(const SourceEvent&)>& take) override {
    std::optional<RecordingInfo> info;
    return Replay(
        base_ns_, [](std::string_view, std::string_view) {}, take, &info);
  }

 private:
  // Builds the timeline, and takes its rows from the exporter of Chrome's format.
  absl::Status Replay(int64_t base_ns,
                      const std::function<void(std::string_view, std::string_view)>& take_member,
                      const std::function<absl::Status(const SourceEvent&)>& take,
                      std::optional<RecordingInfo>* info) {
    CaptureReader::Options options;
    options.salvage = salvage_;
    absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
        CaptureReader::Open(facts_.path, options);
    if (!reader.ok()) return reader.status();
    const std::string scratch = scratch_directory_.empty() ? "/tmp" : scratch_directory_;
    const std::unique_ptr<RecordSource> device_records = (*reader)->DeviceRecords();
    absl::StatusOr<std::unique_ptr<Timeline>> timeline =
        BuildTimeline((*reader)->metadata(), reader->get(), scratch, device_records.get(), choice_);
    if (!timeline.ok()) return timeline.status();
    if (!(*reader)->damage().empty() && facts_.remarks.empty()) {
      facts_.remarks.push_back("it is damaged: " + (*reader)->damage() +
                               "; what is whole was taken");
    }
    *info = (*timeline)->info();
    losses_ = (*timeline)->losses();
    AggregateOptions aggregate;
    aggregate.spill_directory = scratch;
    const Aggregates aggregates = Aggregate(**timeline, aggregate);
    std::optional<TraceEvents> events;
    JsonSplitter splitter(
        facts_.path, JsonSplitter::Layout::kNotKnown,
        {[&](std::string_view key, std::string_view value, uint64_t) {
           take_member(key, value);
           return absl::OkStatus();
         },
         [&](std::string_view text, uint64_t offset) { return events->Read(text, offset, take); }});
    events.emplace(&splitter, TraceTimes{1000, base_ns});
    SplitterSink sink(&splitter);
    absl::Status status = ExportChromeTrace(**timeline, sink, aggregates.step_rows, std::nullopt,
                                            aggregates.device_idle, aggregates.python_rows,
                                            aggregates.cuda_sync_rows);
    if (status.ok()) status = sink.Finish();
    return status;
  }

  SourceFacts facts_;
  ProcessChoice choice_;
  bool salvage_;
  std::string scratch_directory_;
  int64_t base_ns_ = 0;
  std::vector<LossTime> losses_;  // losses of the last replay that are not noted yet
};

void TakeJob(const JobIdentity& job, SourceFacts* facts) {
  if (job.local_rank) facts->local_rank = static_cast<int32_t>(*job.local_rank);
  facts->attempt = AttemptOf(job);
  facts->job = JobNameOf(job);
}

}  // namespace

std::vector<ProcessChoice> ChoicesOf(const CaptureMetadata& metadata) {
  const std::vector<Target> targets = TargetsOf(metadata);
  std::set<int> ranks;
  for (const Target& target : targets) {
    if (target.rank) ranks.insert(*target.rank);
  }
  if (ranks.size() <= 1) return {ProcessChoice()};
  std::vector<ProcessChoice> choices;
  std::set<uint32_t> chosen;
  for (const int rank : ranks) {
    choices.push_back({std::nullopt, rank});
    const absl::StatusOr<std::set<uint32_t>> pids = ChoosePids(choices.back(), targets);
    if (pids.ok()) chosen.insert(pids->begin(), pids->end());
  }
  for (const Target& target : targets) {
    if (chosen.insert(Raw(target.pid)).second) choices.push_back({Raw(target.pid), std::nullopt});
  }
  return choices;
}

void TakeRecordingFacts(const RecordingInfo& info, SourceFacts* facts) {
  facts->host = info.host.name;
  const Target* target = nullptr;
  for (const Target& one : info.targets) {
    if (target == nullptr || (one.rank && !target->rank)) target = &one;
  }
  if (target != nullptr) {
    facts->pid = Raw(target->pid);
    if (target->rank) facts->rank = *target->rank;
    if (target->world_size) facts->world_size = *target->world_size;
    facts->namespace_pids.assign(target->namespace_pids.begin(), target->namespace_pids.end());
    TakeJob(target->job, facts);
  }
  if (!info.host.boot_id.empty()) facts->boot_id = info.host.boot_id;
  facts->snapshots = info.clocks;
  if (!facts->snapshots.empty()) return;
  // Older captures have this one snapshot only.
  ClockSnapshot snapshot;
  snapshot.monotonic_ns = info.window.start_ns;
  snapshot.realtime_ns = info.window.start_ns + info.window.monotonic_to_unix_ns;
  facts->snapshots = {snapshot};
}

absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenCaptureSources(
    const std::string& path, bool salvage, const std::string& scratch_directory) {
  CaptureReader::Options options;
  options.salvage = salvage;
  absl::StatusOr<std::unique_ptr<CaptureReader>> reader = CaptureReader::Open(path, options);
  if (!reader.ok()) return reader.status();
  const std::vector<ProcessChoice> choices = ChoicesOf((*reader)->metadata());
  std::vector<std::unique_ptr<SourceInput>> sources;
  for (const ProcessChoice& choice : choices) {
    auto source = std::make_unique<CaptureSource>(path, choice, salvage, scratch_directory);
    if (absl::Status status = source->ReadFacts(); !status.ok()) return status;
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace proftrace
