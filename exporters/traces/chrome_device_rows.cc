#include "exporters/traces/chrome_device_rows.h"

#include <algorithm>
#include <array>

#include "exporters/args/device_args.h"
#include "exporters/sinks/escape.h"
#include "exporters/traces/chrome_rows.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr int64_t kGpuSortIndex = 5'000'000;  // Kineto's value: after every PID
constexpr int64_t kOverheadProcess = -1;
constexpr int64_t kOverheadSortIndex = 0x100000A;
// Numbers that are added to that of a stream: Kineto's for waits, and ours for rows that overlap
// others and for other processes.
constexpr int64_t kSyncTrack = 1'000'000;
constexpr int64_t kOverlapTrack = 2'000'000;
constexpr int64_t kProcessTracks = 10'000'000;
// A number that is added to that of a thread, for its NVTX ranges. No thread of Linux has so large
// a number.
constexpr int64_t kRangesTrack = 10'000'000;
constexpr size_t kMostLanes = 128;     // kernels that a device runs at once
constexpr int64_t kNoStreamTrack = 1;  // |-1|: where Kineto has rows of no stream
// The first id of arrows without a correlation id. No correlation id of any process is so large.
constexpr uint64_t kOtherArrows = uint64_t{1} << 44;
constexpr uint64_t kIdleRows = uint64_t{1} << 45;  // ids of idle rows, in the same way
// the shortest gap that is a row; gpu_idle.csv has all gaps
constexpr int64_t kShortestIdleNs = 10'000;
constexpr uint32_t kNoDevice = kNowhere;
// CUpti_ActivitySynchronizationType.
constexpr uint32_t kStreamSync = 3;

}  // namespace

ChromeDeviceRows::ChromeDeviceRows(const Timeline& timeline, const StepRows& steps,
                                   std::function<bool(Pid)> has, int64_t offset_ns, bool with_sync,
                                   TextWriter* writer)
    : timeline_(timeline),
      steps_(steps),
      has_(std::move(has)),
      numbers_(timeline),
      offset_ns_(offset_ns),
      with_sync_(with_sync),
      writer_(*writer) {
  for (const std::string& name : timeline.device_names()) quoted_names_.push_back(JsonQuoted(name));
  for (const Target& target : timeline.info().targets) pids_.insert(Raw(target.pid));
  for (const Thread& thread : timeline.threads()) pids_.insert(Raw(thread.pid));
}

void ChromeDeviceRows::WriteProperties(JsonStream* json) {
  json->Key("deviceProperties").BeginArray();
  absl::flat_hash_set<uint32_t> written;
  for (const GpuDevice& device : timeline_.devices()) {
    const uint32_t number = numbers_.Of(device.pid, device.device);
    if (!has_(device.pid) || !written.insert(number).second) continue;
    json->Line("  ").BeginObject();
    json->Key("id").Integer(number);
    json->Key("name").String(device.name);
    json->Key("totalGlobalMem").Integer(std::min<uint64_t>(device.memory_bytes, uint64_t{1} << 62));
    json->Key("computeMajor").Integer(device.compute_major);
    json->Key("computeMinor").Integer(device.compute_minor);
    json->Key("maxThreadsPerBlock").Integer(device.max_threads_a_block);
    json->Key("maxThreadsPerMultiprocessor")
        .Integer(int64_t{device.max_warps_a_multiprocessor} * int64_t{device.warp_size});
    json->Key("regsPerBlock").Integer(device.max_registers_a_block);
    json->Key("warpSize").Integer(device.warp_size);
    json->Key("sharedMemPerBlock").Integer(device.max_shared_bytes_a_block);
    json->Key("numSms").Integer(device.multiprocessors);
    json->Key("regsPerMultiprocessor").Integer(device.max_registers_a_multiprocessor);
    if (device.max_shared_bytes_optin != 0) {
      json->Key("sharedMemPerBlockOptin").Integer(device.max_shared_bytes_optin);
    }
    json->Key("sharedMemPerMultiprocessor").Integer(device.max_shared_bytes_a_multiprocessor);
    json->EndObject();
  }
  json->EndArray();
}

void ChromeDeviceRows::WriteVersions(JsonStream* json) {
  for (const GpuAgent& agent : timeline_.info().gpu_agents) {
    if (!has_(agent.pid) || agent.cupti_version == 0) continue;
    const std::array<std::pair<const char*, uint32_t>, 3> versions = {
        {{"cupti_version", agent.cupti_version},
         {"cuda_runtime_version", agent.runtime_version},
         {"cuda_driver_version", agent.driver_version}}};
    for (const auto& [key, version] : versions) {
      if (version != 0) json->Line().Key(key).Integer(version);
    }
    return;
  }
}

int64_t ChromeDeviceRows::Ts(int64_t time_ns) const {
  return std::max<int64_t>(time_ns + offset_ns_, 0);
}

// Returns the trace's process for a device: the device's number, as in Kineto, unless a process has
// this PID.
int64_t ChromeDeviceRows::ProcessOf(uint32_t device) const {
  return pids_.contains(device) ? kGpuSortIndex + device : int64_t{device};
}

uint32_t ChromeDeviceRows::NumberOfProcess(uint32_t pid, uint32_t device) {
  std::vector<uint32_t>& processes = processes_of_device_[device];
  const auto it = std::find(processes.begin(), processes.end(), pid);
  const auto number = static_cast<uint32_t>(it - processes.begin());
  if (it == processes.end()) processes.push_back(pid);
  return number;
}

ChromeDeviceRows::Track& ChromeDeviceRows::TrackOf(const TrackKey& key) {
  const auto [it, inserted] = tracks_.try_emplace(key);
  if (inserted) {
    it->second.pid = key.kind == TrackKind::kOverhead ? kOverheadProcess
                     : key.kind == TrackKind::kRanges ? int64_t{key.pid}
                                                      : ProcessOf(key.device);
    AddLane(key, &it->second);
  }
  return it->second;
}

ChromeDeviceRows::Lane& ChromeDeviceRows::AddLane(const TrackKey& key, Track* track) {
  int64_t tid = key.stream == kNowhere ? kNoStreamTrack : int64_t{key.stream};
  if (key.kind == TrackKind::kOverhead) tid = 0;
  if (key.kind == TrackKind::kSync) tid += kSyncTrack;
  if (key.kind == TrackKind::kRanges) tid += kRangesTrack;
  tid += kOverlapTrack * static_cast<int64_t>(track->lanes.size());
  if (key.kind != TrackKind::kRanges) {
    tid += kProcessTracks * int64_t{NumberOfProcess(key.pid, key.device)};
  }
  // A stream may have any number, so the next free one is taken: two tracks must never become one.
  while (!taken_.try_emplace({track->pid, tid}, key, track->lanes.size()).second) ++tid;
  return track->lanes.emplace_back(Lane{tid, {}});
}

ChromeDeviceRows::Place ChromeDeviceRows::PlaceOf(const TrackKey& key, int64_t start_ns,
                                                  int64_t end_ns) {
  Track& track = TrackOf(key);
  const int64_t ts_ns = Ts(start_ns);
  for (size_t i = 0; i < kMostLanes; ++i) {
    Lane& lane = i < track.lanes.size() ? track.lanes[i] : AddLane(key, &track);
    if (const auto slice = lane.open.Open(ts_ns, ts_ns + (end_ns - start_ns))) {
      return {track.pid, lane.tid, true, *slice};
    }
  }
  return {track.pid, track.lanes.front().tid, false, {ts_ns, end_ns - start_ns}};
}

void ChromeDeviceRows::WriteRows() {
  const DeviceActivityStore& activities = timeline_.device_activities();
  const std::vector<DeviceAnnotation>& annotations = steps_.DeviceAnnotations(timeline_);
  size_t next = 0;
  for (uint32_t index = 0; index < activities.size() && writer_.ok(); ++index) {
    const DeviceActivity& activity = activities.at(index);
    for (; next < annotations.size() && annotations[next].start_ns <= activity.start_ns; ++next) {
      if (has_(annotations[next].pid)) WriteAnnotation(annotations[next]);
    }
    if (has_(activity.pid)) WriteActivity(index, activity);
  }
  for (; next < annotations.size(); ++next) {
    if (has_(annotations[next].pid)) WriteAnnotation(annotations[next]);
  }
  WriteNames();
}

void ChromeDeviceRows::WriteHead(std::string_view phase, const Row& row, int64_t ts_ns,
                                 JsonStream* json) {
  json->BeginObject();
  json->Key("ph").Word(phase);
  json->Key("cat").Word(row.category);
  json->Key("name").Raw(row.quoted_name);
  json->Key("pid").Integer(row.place.pid);
  json->Key("tid").Integer(row.place.tid);
  json->Key("ts").Microseconds(ts_ns);
}

void ChromeDeviceRows::BeginRow(const Row& row, JsonStream* json) {
  WriteHead(row.place.nests ? "X" : "b", row, row.place.slice.ts_ns, json);
  if (row.place.nests) {
    json->Key("dur").Microseconds(row.place.slice.duration_ns);
  } else {
    json->Key("id").Integer(row.id);
  }
  json->Key("args").BeginObject();
}

void ChromeDeviceRows::EndRow(const Row& row, JsonStream* json) {
  json->EndObject();
  json->EndObject();
  json->Done().Text(kChromeRowEnd);
  if (row.place.nests) return;
  JsonStream end(writer_);
  WriteHead("e", row, Ts(row.end_ns), &end);
  end.Key("id").Integer(row.id);
  end.EndObject();
  end.Done().Text(kChromeRowEnd);
}

void ChromeDeviceRows::WriteActivity(uint32_t index, const DeviceActivity& activity) {
  const DeviceActivityKind kind = activity.kind;
  // Memory and pools are only in events.csv.
  if (kind == DeviceActivityKind::kMemory || kind == DeviceActivityKind::kPool) return;
  const bool is_sync = kind == DeviceActivityKind::kSync || kind == DeviceActivityKind::kEvent;
  if (is_sync && !with_sync_) return;
  const bool is_overhead = kind == DeviceActivityKind::kOverhead;
  const bool is_range = kind == DeviceActivityKind::kMarker;
  if (!is_overhead && !is_range && activity.device == kNoDevice) return;
  TrackKey key{Raw(activity.pid), numbers_.Of(activity.pid, activity.device), activity.stream,
               TrackKind::kStream};
  if (is_overhead) key = {key.pid, kNoDevice, 0, TrackKind::kOverhead};
  if (is_range) key = {key.pid, kNoDevice, Raw(activity.tid), TrackKind::kRanges};
  if (kind == DeviceActivityKind::kSync &&
      (activity.code == kStreamSync || activity.stream == kNowhere)) {
    key.kind = TrackKind::kSync;
  }
  // An event, like a mark of NVTX, is an instant, which Kineto draws as a nanosecond.
  const bool is_instant =
      kind == DeviceActivityKind::kEvent || (is_range && activity.duration_ns == 0);
  const int64_t duration_ns = is_instant ? 1 : activity.duration_ns;
  const Place place = PlaceOf(key, activity.start_ns, activity.start_ns + duration_ns);
  const Row row = {DeviceCategoryName(kind), quoted_names_[Raw(activity.name)], place,
                   activity.end_ns(), kOtherArrows + index};
  JsonStream json(writer_);
  BeginRow(row, &json);
  if (activity.op != kNoSpan) json.Key("External id").Integer(steps_.NumberOf(activity.op) + 1);
  json.Members(DeviceArgs(timeline_, activity, {FirstCorrelation(activity.pid), &numbers_}));
  EndRow(row, &json);
  const bool has_arrow = IsDeviceWork(kind) || kind == DeviceActivityKind::kSync;
  if (has_arrow && place.nests && duration_ns > 0) WriteArrow(index, activity, place);
}

void ChromeDeviceRows::WriteAnnotation(const DeviceAnnotation& annotation) {
  // As in Kineto, the row encloses all its work.
  const int64_t start_ns = annotation.start_ns - 1;
  const int64_t end_ns = annotation.end_ns + 1;
  const Place place = PlaceOf({Raw(annotation.pid), numbers_.Of(annotation.pid, annotation.device),
                               annotation.stream, TrackKind::kStream},
                              start_ns, end_ns);
  const std::string name = JsonQuoted(steps_.NameOf(timeline_, annotation));
  const Row row = {"gpu_user_annotation", name, place, end_ns, ++annotations_};
  JsonStream json(writer_);
  BeginRow(row, &json);
  const uint64_t number = annotation.step != kNowhere ? steps_.NumberOfRow(annotation.step)
                                                      : steps_.NumberOf(annotation.annotation);
  json.Key("External id").Integer(number + 1);
  EndRow(row, &json);
}

void ChromeDeviceRows::WriteIdle(const DeviceIdle& device) {
  if (!has_(device.pid) || device.device == kNoDevice) return;
  for (const IdleGap& gap : device.gaps) {
    if (gap.end_ns - gap.start_ns < kShortestIdleNs) continue;
    const uint32_t stream = timeline_.device_activities().at(gap.next_work).stream;
    const Track& track = TrackOf(
        {Raw(device.pid), numbers_.Of(device.pid, device.device), stream, TrackKind::kStream});
    const Place place{
        track.pid, track.lanes.front().tid, false, {Ts(gap.start_ns), gap.end_ns - gap.start_ns}};
    const std::string what = device.stream.has_value() ? "stream idle: " : "idle: ";
    const std::string name = JsonQuoted(what + std::string(IdleCauseName(gap.main_cause())));
    const Row row = {"gpu_idle", name, place, gap.end_ns, kIdleRows + ++idle_rows_};
    JsonStream json(writer_);
    BeginRow(row, &json);
    for (size_t cause = 0; cause < kIdleCauses; ++cause) {
      if (gap.by_cause_ns[cause] == 0) continue;
      json.Key(std::string(IdleCauseName(static_cast<IdleCause>(cause))) + " ns")
          .Integer(gap.by_cause_ns[cause]);
    }
    if (gap.python != kNoStack) {
      json.Key("Python function").String(PythonFrameText(timeline_, gap.python));
    }
    EndRow(row, &json);
  }
}

// Writes Kineto's flow from a call to the work that it asked for.
void ChromeDeviceRows::WriteArrow(uint32_t index, const DeviceActivity& activity,
                                  const Place& place) {
  if (activity.call == kNoSpan || unnested_calls_.contains(Raw(activity.call))) return;
  const uint64_t id = activity.is_first_of_call
                          ? FirstCorrelation(activity.pid) + activity.correlation
                          : kOtherArrows + index;
  const Span& call = timeline_.span(activity.call);
  const Thread& thread = timeline_.thread(call.thread);
  WriteFlow("ac2g", id, /*is_start=*/true, {Raw(thread.pid), Raw(thread.tid), Ts(call.start_ns)},
            &writer_);
  WriteFlow("ac2g", id, /*is_start=*/false, {place.pid, place.tid, place.slice.ts_ns}, &writer_);
}

void ChromeDeviceRows::WriteNames() {
  const int64_t ts_ns = Ts(timeline_.info().window.start_ns);
  absl::flat_hash_set<int64_t> named;
  for (const auto& [key, track] : tracks_) {
    const bool is_overhead = key.kind == TrackKind::kOverhead;
    const bool is_range = key.kind == TrackKind::kRanges;
    // A recorded process already has its name.
    if (!is_range && named.insert(track.pid).second) {
      std::string name = is_overhead ? "CUPTI Overhead" : "python";
      for (const Target& target : timeline_.info().targets) {
        if (!is_overhead && Raw(target.pid) == key.pid && !target.comm.empty()) name = target.comm;
      }
      const ChromePlace place = {track.pid, 0, ts_ns};
      WriteTrackText("process_name", "name", name, place, &writer_);
      if (!is_overhead) {
        WriteTrackText("process_labels", "labels", numbers_.Label(key.device), place, &writer_);
      }
      const int64_t sort_index = is_overhead ? kOverheadSortIndex : kGpuSortIndex + key.device;
      WriteTrackNumber("process_sort_index", "sort_index", sort_index, place, &writer_);
    }
    if (is_overhead && track.lanes.size() == 1 && track.lanes.front().tid == 0) continue;
    std::string name = is_overhead ? "overhead" : "stream " + std::to_string(key.stream);
    if (key.stream == kNowhere) name = "Device " + std::to_string(key.device);
    if (key.kind == TrackKind::kSync && key.stream != kNowhere) name += " (sync)";
    if (is_range) {
      name = "NVTX of thread " + std::to_string(key.stream);
    } else if (NumberOfProcess(key.pid, key.device) > 0) {
      name += " (PID " + std::to_string(key.pid) + ")";
    }
    for (size_t i = 0; i < track.lanes.size(); ++i) {
      const int64_t tid = track.lanes[i].tid;
      const ChromePlace place = {track.pid, tid, ts_ns};
      WriteTrackText("thread_name", "name", i == 0 ? name : name + " (overlap)", place, &writer_);
      // The ranges are shown beside their thread.
      const int64_t sort_index = is_range ? int64_t{key.stream} : tid;
      WriteTrackNumber("thread_sort_index", "sort_index", sort_index, place, &writer_);
    }
  }
}

}  // namespace proftrace
