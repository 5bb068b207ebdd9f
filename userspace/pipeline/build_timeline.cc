#include "userspace/pipeline/build_timeline.h"

#include <map>
#include <optional>
#include <utility>

#include "userspace/decode/decoder.h"
#include "userspace/merge/event_sorter.h"
#include "userspace/merge/span_builder.h"

namespace proftrace {
namespace {

void NameThreads(const CaptureMetadata& metadata, uint32_t thread_count,
                 TimelineBuilder* timeline) {
  std::map<std::pair<uint32_t, uint32_t>, const std::string*> names;
  for (const ThreadEntry& entry : metadata.threads) {
    names[{Raw(entry.pid), Raw(entry.tid)}] = &entry.name;
  }
  for (uint32_t i = 0; i < thread_count; ++i) {
    Thread& thread = timeline->thread(ThreadIndex{i});
    const auto it = names.find({Raw(thread.pid), Raw(thread.tid)});
    if (it != names.end()) thread.name = *it->second;
  }
}

RecordingInfo InfoOf(const CaptureMetadata& metadata) {
  RecordingInfo info = metadata.info;
  info.has_end = metadata.has_end;
  for (const ProcessEntry& process : metadata.processes) {
    Target& target = info.targets.emplace_back(process.target);
    const auto groups = metadata.process_groups.find(Raw(target.pid));
    if (groups == metadata.process_groups.end()) continue;
    target.process_groups = groups->second;
    // What the group itself says is true, whatever the environment had.
    if (const ProcessGroup* all = DefaultGroup(target.process_groups); all != nullptr) {
      target.rank = all->rank;
      target.world_size = all->size;
    }
  }
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Timeline>> BuildTimeline(const CaptureMetadata& metadata,
                                                        RecordSource* source,
                                                        const std::string& spill_directory) {
  Ledger ledger = metadata.kernel_ledger;
  TimelineBuilder timeline(spill_directory);
  Decoder decoder(metadata, &ledger);
  EventSorter sorter(&ledger);
  std::optional<int64_t> window_end_ns;
  if (metadata.has_end) {
    window_end_ns = metadata.info.window.start_ns + metadata.info.window.duration_ns;
  }
  SpanBuilder spans(decoder.labels(), window_end_ns, &timeline, &ledger);

  absl::Status status;
  const auto add = [&](const Event& event) {
    status = spans.Add(event);
    return status.ok();
  };
  bool end = false;
  while (!end) {
    absl::StatusOr<RecordBatch> batch = source->Next();
    if (!batch.ok()) return batch.status();
    if (batch->gap_before && !sorter.Drain(/*flush=*/true, add)) return status;
    if (batch->gap_before) {
      ++ledger.gaps;
      Event gap;
      gap.type = EventType::kGap;
      if (!add(gap)) return status;
    }
    decoder.Decode(batch->records, sorter.buffer());
    end = batch->end;
    if (end) decoder.Flush(sorter.buffer());
    if (!sorter.Drain(end, add)) return status;
  }
  if (absl::Status finished = spans.Finish(); !finished.ok()) return finished;
  NameThreads(metadata, timeline.thread_count(), &timeline);
  timeline.SetInputs(decoder.TakeInputs());
  return timeline.Finish(InfoOf(metadata), ledger);
}

}  // namespace proftrace
