#include "userspace/pipeline/build_timeline.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "userspace/base/saturating.h"
#include "userspace/decode/decoder.h"
#include "userspace/decode/device_decoder.h"
#include "userspace/merge/backward_stacks.h"
#include "userspace/merge/call_tree.h"
#include "userspace/merge/device_merger.h"
#include "userspace/merge/event_sorter.h"
#include "userspace/merge/python_modes.h"
#include "userspace/merge/sample_linker.h"
#include "userspace/merge/span_builder.h"
#include "userspace/merge/system_linker.h"
#include "userspace/merge/work_links.h"
#include "userspace/model/name_limits.h"
#include "userspace/wire/records_of_processes.h"

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

// Adds the operators that were only counted to `unsupported`. All entries get the same reason,
// because a table shows entries with equal reasons on one line.
void AddDemoted(RecordingInfo* info) {
  if (!info->budget.has_value()) return;
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(),
                "calls were only counted, to keep --max-overhead %g%%; their time is in the self "
                "times of their callers",
                info->budget->max_overhead_percent);
  const std::string reason = text.data();
  for (const DemotedOperator& demoted : info->budget->demoted) {
    std::snprintf(text.data(), text.size(), " calls%s from %.3f s on (PID %u)",
                  info->budget->is_of_longer ? " of the whole recording" : "",
                  static_cast<double>(demoted.since_ns - info->window.start_ns) * 1e-9,
                  Raw(demoted.pid));
    std::string feature =
        "times of " + demoted.name + ", " + std::to_string(demoted.calls) + text.data();
    if (demoted.removed_ns != 0) {
      std::snprintf(text.data(), text.size(), ", from %.3f s on not even counted",
                    static_cast<double>(demoted.removed_ns - info->window.start_ns) * 1e-9);
      feature += text.data();
    }
    info->unsupported.push_back({std::move(feature), reason});
  }
}

// Clears is_only_loaded for code that has rows in the timeline, because that code ran.
void TellWhatRan(const TimelineBuilder& timeline, RecordingInfo* info) {
  std::set<std::string_view> rows;
  for (const Label& label : timeline.labels()) rows.insert(label.name);
  for (Unsupported& entry : info->unsupported) {
    if (!entry.row.empty() && rows.contains(entry.row)) entry.is_only_loaded = false;
  }
}

// Adds a remark on own times that several rows share (call_tree.h).
void AddShared(TimelineBuilder& timeline, RecordingInfo* info) {
  const SpanColumn<int64_t>& column = timeline.columns().shared_ns;
  if (!column.exists()) return;
  int64_t shared_ns = 0;
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    shared_ns = SaturatingSum(shared_ns, column.at(SpanId{i}));
  }
  if (shared_ns <= 0) return;
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(),
                "annotations overlap: %.3f ms of own times are in several rows of the table and of "
                "events.csv, as in torch; stacks have them once",
                static_cast<double>(shared_ns) * 1e-6);
  info->unsupported.push_back({"own times that add up", text.data()});
}

// Finds the window of a damaged capture, or of one whose recorder was killed before its window
// began.
void FillWindow(const CaptureMetadata& metadata, RecordingInfo* info) {
  if (info->window.start_ns == 0) {
    // A window begins when all processes that were there from the start have their probes.
    for (const ProcessEntry& process : metadata.processes) {
      if (process.target.followed) continue;
      info->window.start_ns = std::max(info->window.start_ns, process.target.probes_on_ns);
    }
  }
  if (info->window.monotonic_to_unix_ns == 0) {
    info->unsupported.push_back(
        {"wall time", "the capture lost the block that tells it: times count from the boot"});
  }
}

RecordingInfo InfoOf(const CaptureMetadata& metadata) {
  RecordingInfo info = metadata.info;
  info.has_end = metadata.has_end;
  FillWindow(metadata, &info);
  if (info.budget.has_value()) info.budget->is_of_longer = metadata.is_part;
  info.targets = TargetsOf(metadata);
  return info;
}

// Reads all records of GPU agents, before any other record. The agents' records come late, and a
// device's work can be linked only when all calls have their place.
absl::Status ReadDeviceRecords(RecordSource* source, DeviceDecoder* decoder, DeviceMerger* merger,
                               DeviceLedger* ledger) {
  std::vector<DeviceEvent> events;
  bool end = source == nullptr;
  while (!end) {
    const absl::StatusOr<RecordBatch> batch = source->Next();
    if (!batch.ok()) return batch.status();
    if (batch->gap_before) ++ledger->gaps;
    events.clear();
    decoder->Decode(batch->records, &events);
    for (const DeviceEvent& event : events) {
      if (absl::Status status = merger->Add(event); !status.ok()) return status;
    }
    end = batch->end;
  }
  return merger->PrepareCalls();
}

// Counts what `agents` lost: by the totals that each agent reported at its end or, where those are
// missing, by its records.
void CountDeviceLosses(const CaptureMetadata& metadata, const std::vector<GpuAgent>& agents,
                       const DeviceMerger& merger, DeviceLedger* ledger) {
  std::map<uint32_t, uint64_t> cupti_dropped = merger.cupti_dropped();
  std::map<uint32_t, uint64_t> unread = merger.unread();
  uint64_t handed_over = 0;
  std::map<uint32_t, uint64_t> said_dropped;
  std::map<uint32_t, uint64_t> said_unread;
  const auto sum = [](uint64_t a, uint64_t b) {
    return b > std::numeric_limits<uint64_t>::max() - a ? std::numeric_limits<uint64_t>::max()
                                                        : a + b;
  };
  for (const GpuAgent& agent : agents) {
    uint64_t& dropped = said_dropped[Raw(agent.pid)];
    dropped = sum(dropped, agent.cupti_dropped);
    uint64_t& not_read = said_unread[Raw(agent.pid)];
    not_read = sum(not_read, agent.unread_records);
    ledger->ring_dropped = sum(ledger->ring_dropped, agent.ring_dropped);
    ledger->buffers_refused = sum(ledger->buffers_refused, agent.buffers_refused);
    ledger->incomplete_buffers = sum(ledger->incomplete_buffers, agent.incomplete_buffers);
    ledger->incomplete_bytes = sum(ledger->incomplete_bytes, agent.incomplete_bytes);
    handed_over = sum(handed_over, agent.ring_records);
  }
  for (const auto& [pid, count] : said_dropped) {
    cupti_dropped[pid] = std::max(cupti_dropped[pid], count);
  }
  for (const auto& [pid, count] : said_unread) unread[pid] = std::max(unread[pid], count);
  for (const auto& [pid, count] : cupti_dropped) {
    ledger->cupti_dropped = sum(ledger->cupti_dropped, count);
  }
  for (const auto& [pid, count] : unread) ledger->unread = sum(ledger->unread, count);
  if (metadata.has_end && !metadata.is_part && handed_over > ledger->records) {
    ledger->missing = handed_over - ledger->records;
  }
  // Without device records and agents, nothing says that a damaged block held device records.
  if (ledger->records == 0 && agents.empty()) ledger->gaps = 0;
}

// Adds remarks on rows that came after the most names that are kept, and so have no name of their
// own.
void AddOthers(const SampleDecoder::Tables& samples, const PythonDecoder::Tables& stacks,
               uint64_t other_files, uint64_t other_paths, RecordingInfo* info) {
  const auto add = [info](const char* feature, uint64_t count, size_t most, const char* what,
                          const std::string& then) {
    if (count == 0) return;
    info->unsupported.push_back(
        {feature, absl::StrCat(count, " came after the first ", most, " ", what, " and ", then,
                               "; record a shorter time, or make fewer functions by exec()")});
  };
  const std::string are_called = std::string("are called ") + kOtherNames;
  add("names of Python functions", stacks.group_codes, kMostNames, "functions",
      "are told as a group, in whose name each number is a *");
  add("names of Python functions", stacks.other_codes, kMostNames, "functions", are_called);
  add("modules", stacks.other_modules, kMostNames, "modules", "are not named");
  add("Python stacks", stacks.other_stacks, kMostPaths, "different ones", are_called);
  add("names of sampled functions", samples.other_functions, kMostNames, "functions", are_called);
  add("stacks of samples", samples.other_frames, kMostPaths, "frames", are_called);
  const auto add_files = [info](uint64_t count, const char* what) {
    if (count == 0) return;
    info->unsupported.push_back(
        {"names of files", absl::StrCat(count, what, " came after the first ", kMostPaths,
                                        " names or 64 MB of them, and are told as a group, in "
                                        "whose name each number is a *; record a shorter time")});
  };
  add_files(other_files, " files");
  add_files(other_paths, " system calls with a path");
}

// Adds the module hierarchies of TorchScript's rows.
void AddScripts(Decoder* decoder, TimelineBuilder* timeline, RecordingInfo* info) {
  if (const uint64_t others = decoder->scripts().others(); others > 0) {
    info->unsupported.push_back(
        {"Module Hierarchy of TorchScript's rows",
         absl::StrCat(others, " rows came after too many different places in graphs")});
  }
  timeline->SetScripts(decoder->TakeScripts());
}

// Builds the timeline. `source` and `device_source` have the records of the processes in `info`
// alone.
absl::StatusOr<std::unique_ptr<Timeline>> Build(const CaptureMetadata& metadata, RecordingInfo info,
                                                RecordSource* source,
                                                const std::string& spill_directory,
                                                RecordSource* device_source) {
  Ledger ledger = metadata.kernel_ledger;
  TimelineBuilder timeline(spill_directory);
  Decoder decoder(metadata, &ledger, spill_directory);
  EventSorter sorter(&ledger);
  // Nullopt where the start was guessed, so that all records are shown.
  std::optional<int64_t> window_end_ns;
  if (metadata.has_end && metadata.info.window.start_ns > 0) {
    window_end_ns = metadata.info.window.start_ns + metadata.info.window.duration_ns;
  }
  SpanBuilder spans(decoder.labels(), window_end_ns, &timeline, &ledger);
  WorkLinks works(&timeline);
  spans.SetLastInput([&decoder](InputsId inputs) { return decoder.LastInput(inputs); });
  if (metadata.info.budget.has_value()) spans.SetDemoted(metadata.info.budget->demoted);

  DeviceLedger device_ledger;
  DeviceDecoder device_decoder(&device_ledger);
  DeviceMerger devices(device_decoder, spill_directory, &timeline, &device_ledger);
  devices.SetWindow({metadata.info.window.start_ns, window_end_ns});
  for (const ProcessEntry& process : metadata.processes) {
    devices.SetProcessStart(process.target.pid, process.target.probes_on_ns);
  }
  absl::Status status = ReadDeviceRecords(device_source, &device_decoder, &devices, &device_ledger);
  if (!status.ok()) return status;

  const auto add = [&](const Event& event, std::span<const Event> later) {
    if (GoesToPython(event, later, decoder.labels())) return true;
    if (event.type != EventType::kGap) status = devices.PlaceCallsBefore(event.time_ns, &spans);
    if (status.ok()) status = works.Add(event, &spans);
    return status.ok();
  };
  for (bool end = false; !end;) {
    absl::StatusOr<RecordBatch> batch = source->Next();
    if (!batch.ok()) return batch.status();
    if (batch->gap_before && !sorter.Drain(/*flush=*/true, add)) return status;
    if (batch->gap_before) {
      ++ledger.gaps;
      Event gap;
      gap.type = EventType::kGap;
      if (!add(gap, {})) return status;
    }
    decoder.Decode(batch->records, sorter.buffer());
    end = batch->end;
    if (end) decoder.Flush(sorter.buffer());
    if (!sorter.Drain(end, add)) return status;
  }
  status = devices.PlaceCallsBefore(std::numeric_limits<int64_t>::max(), &spans);
  if (status.ok()) status = spans.Finish();
  if (status.ok()) status = BuildCallTree(&timeline);
  if (status.ok()) status = devices.Finish();
  if (status.ok() && timeline.columns().stack.exists()) status = GiveForwardStacks(&timeline);
  if (!status.ok()) return status;
  SystemDecoder::Tables system = decoder.TakeSystem();
  const uint64_t other_files = system.other_files;
  const uint64_t other_paths = system.other_paths;
  status =
      LinkSystem(std::move(system), {metadata.info.window.start_ns, window_end_ns, spill_directory},
                 &timeline, &ledger);
  if (!status.ok()) return status;
  SampleDecoder::Tables samples = decoder.TakeSamples();
  PythonDecoder::Tables stacks = decoder.TakeStacks();
  AddOthers(samples, stacks, other_files, other_paths, &info);
  LinkSamples(std::move(samples), metadata.info.window.start_ns, window_end_ns, &timeline);
  CountDeviceLosses(metadata, info.gpu_agents, devices, &device_ledger);
  timeline.SetDeviceLedger(device_ledger);
  NameThreads(metadata, timeline.thread_count(), &timeline);
  timeline.SetInputs(decoder.TakeInputs());
  timeline.SetStacks(std::move(stacks.frames), std::move(stacks.codes), std::move(stacks.modules));
  AddScripts(&decoder, &timeline, &info);
  AddDemoted(&info);
  TellWhatRan(timeline, &info);
  AddShared(timeline, &info);
  for (const auto& [calls, reason] : decoder.unread_inputs()) {
    info.unsupported.push_back(
        {absl::StrCat("inputs of ", calls, calls == 1 ? " call" : " calls"), std::string(reason)});
  }
  if (const uint64_t rows = spans.rows_of_cut_paths(); rows > 0) {
    info.unsupported.push_back(
        {"paths of more than " + std::to_string(kMostPathLevels) + " levels",
         std::to_string(rows) +
             " rows lie deeper (annotations that never end?): their paths have "
             "the outermost names, " +
             std::string(kCutPathName) + " and their own"});
  }
  return timeline.Finish(std::move(info), ledger);
}

}  // namespace

std::vector<Target> TargetsOf(const CaptureMetadata& metadata) {
  std::vector<Target> targets = metadata.info.targets;
  for (const ProcessEntry& process : metadata.processes) {
    // The same process ran another program before, without any operator: that entry is replaced.
    const bool is_again = !targets.empty() && targets.back().pid == process.target.pid &&
                          targets.back().operator_count == 0;
    if (is_again) targets.pop_back();
    Target& target = targets.emplace_back(process.target);
    if (const auto job = metadata.jobs.find(Raw(target.pid)); job != metadata.jobs.end()) {
      if (job->second.rank) target.rank = job->second.rank;
      if (job->second.world_size) target.world_size = job->second.world_size;
      target.job = job->second.identity;
    }
    const auto groups = metadata.process_groups.find(Raw(target.pid));
    if (groups == metadata.process_groups.end()) continue;
    target.process_groups = groups->second;
    const auto count = metadata.process_group_counts.find(Raw(target.pid));
    if (count != metadata.process_group_counts.end()) target.process_group_count = count->second;
    // The process group itself knows rank and size best, whatever the environment said.
    if (const ProcessGroup* all = DefaultGroup(target.process_groups); all != nullptr) {
      target.rank = all->rank;
      target.world_size = all->size;
    }
  }
  return targets;
}

absl::StatusOr<std::unique_ptr<Timeline>> BuildTimeline(const CaptureMetadata& metadata,
                                                        RecordSource* source,
                                                        const std::string& spill_directory,
                                                        RecordSource* device_source,
                                                        const ProcessChoice& choice) {
  RecordingInfo info = InfoOf(metadata);
  if (choice.is_all()) {
    return Build(metadata, std::move(info), source, spill_directory, device_source);
  }
  absl::StatusOr<std::set<uint32_t>> pids = ChoosePids(choice, info.targets);
  if (!pids.ok()) return pids.status();
  KeepProcesses(*pids, &info);
  RecordsOfProcesses records(source, *pids);
  RecordsOfProcesses device_records(device_source, *pids);
  return Build(metadata, std::move(info), &records, spill_directory, &device_records);
}

}  // namespace proftrace
