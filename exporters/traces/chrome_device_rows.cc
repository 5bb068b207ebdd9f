#include "exporters/traces/chrome_device_rows.h"

#include <algorithm>
#include <array>

#include "exporters/args/device_args.h"
#include "exporters/sinks/escape.h"
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

void ChromeDeviceRows::WriteProperties() {
  absl::flat_hash_set<uint32_t> written;
  for (const GpuDevice& device : timeline_.devices()) {
    const uint32_t number = numbers_.Of(device.pid, device.device);
    if (!has_(device.pid) || !written.insert(number).second) continue;
    writer_.Text(written.size() == 1 ? "\n  {" : ",\n  {");
    is_first_arg_ = true;
    Number("id", number);
    Key("name");
    writer_.Text(JsonQuoted(device.name));
    Number("totalGlobalMem",
           static_cast<int64_t>(std::min<uint64_t>(device.memory_bytes, uint64_t{1} << 62)));
    Number("computeMajor", device.compute_major);
    Number("computeMinor", device.compute_minor);
    Number("maxThreadsPerBlock", device.max_threads_a_block);
    Number("maxThreadsPerMultiprocessor",
           int64_t{device.max_warps_a_multiprocessor} * int64_t{device.warp_size});
    Number("regsPerBlock", device.max_registers_a_block);
    Number("warpSize", device.warp_size);
    Number("sharedMemPerBlock", device.max_shared_bytes_a_block);
    Number("numSms", device.multiprocessors);
    Number("regsPerMultiprocessor", device.max_registers_a_multiprocessor);
    if (device.max_shared_bytes_optin != 0) {
      Number("sharedMemPerBlockOptin", device.max_shared_bytes_optin);
    }
    Number("sharedMemPerMultiprocessor", device.max_shared_bytes_a_multiprocessor);
    writer_.Text("}");
  }
}

void ChromeDeviceRows::WriteVersions() {
  for (const GpuAgent& agent : timeline_.info().gpu_agents) {
    if (!has_(agent.pid) || agent.cupti_version == 0) continue;
    const std::array<std::pair<const char*, uint32_t>, 3> versions = {
        {{"cupti_version", agent.cupti_version},
         {"cuda_runtime_version", agent.runtime_version},
         {"cuda_driver_version", agent.driver_version}}};
    for (const auto& [key, version] : versions) {
      if (version == 0) continue;
      writer_.Text("\"" + std::string(key) + "\": " + std::to_string(version) + ",\n");
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

void ChromeDeviceRows::BeginRow(std::string_view category, std::string_view quoted_name,
                                const Place& place, uint64_t id) {
  writer_.Text(place.nests ? "{\"ph\": \"X\", \"cat\": \"" : "{\"ph\": \"b\", \"cat\": \"");
  writer_.Text(category);
  writer_.Text("\", \"name\": ");
  writer_.Text(quoted_name);
  writer_.Text(", \"pid\": ");
  writer_.Integer(place.pid);
  writer_.Text(", \"tid\": ");
  writer_.Integer(place.tid);
  writer_.Text(", \"ts\": ");
  writer_.Microseconds(place.slice.ts_ns);
  if (place.nests) {
    writer_.Text(", \"dur\": ");
    writer_.Microseconds(place.slice.duration_ns);
  } else {
    writer_.Text(", \"id\": ");
    writer_.Unsigned(id);
  }
  writer_.Text(", \"args\": {");
  is_first_arg_ = true;
}

void ChromeDeviceRows::EndRow(std::string_view category, std::string_view quoted_name,
                              const Place& place, int64_t end_ns, uint64_t id) {
  writer_.Text("}},\n");
  if (place.nests) return;
  writer_.Text("{\"ph\": \"e\", \"cat\": \"");
  writer_.Text(category);
  writer_.Text("\", \"name\": ");
  writer_.Text(quoted_name);
  writer_.Text(", \"pid\": ");
  writer_.Integer(place.pid);
  writer_.Text(", \"tid\": ");
  writer_.Integer(place.tid);
  writer_.Text(", \"ts\": ");
  writer_.Microseconds(Ts(end_ns));
  writer_.Text(", \"id\": ");
  writer_.Unsigned(id);
  writer_.Text("},\n");
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
  const std::string_view category = DeviceCategoryName(kind);
  const std::string& name = quoted_names_[Raw(activity.name)];
  BeginRow(category, name, place, kOtherArrows + index);
  if (activity.op != kNoSpan) {
    Number("External id", static_cast<int64_t>(steps_.NumberOf(activity.op)) + 1);
  }
  const std::string args =
      DeviceArgs(timeline_, activity, {FirstCorrelation(activity.pid), &numbers_});
  if (!args.empty() && !is_first_arg_) writer_.Text(", ");
  writer_.Text(args);
  EndRow(category, name, place, activity.end_ns(), kOtherArrows + index);
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
  const uint64_t id = ++annotations_;
  BeginRow("gpu_user_annotation", name, place, id);
  const uint64_t number = annotation.step != kNowhere ? steps_.NumberOfRow(annotation.step)
                                                      : steps_.NumberOf(annotation.annotation);
  Number("External id", static_cast<int64_t>(number) + 1);
  EndRow("gpu_user_annotation", name, place, end_ns, id);
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
    const uint64_t id = kIdleRows + ++idle_rows_;
    BeginRow("gpu_idle", name, place, id);
    for (size_t cause = 0; cause < kIdleCauses; ++cause) {
      if (gap.by_cause_ns[cause] == 0) continue;
      Number(std::string(IdleCauseName(static_cast<IdleCause>(cause))) + " ns",
             gap.by_cause_ns[cause]);
    }
    if (gap.python != kNoStack) {
      Key("Python function");
      writer_.Text(JsonQuoted(PythonFrameText(timeline_, gap.python)));
    }
    EndRow("gpu_idle", name, place, gap.end_ns, id);
  }
}

void ChromeDeviceRows::Key(std::string_view key) {
  if (!is_first_arg_) writer_.Text(", ");
  is_first_arg_ = false;
  writer_.Text("\"");
  writer_.Text(key);
  writer_.Text("\": ");
}

void ChromeDeviceRows::Number(std::string_view key, int64_t value) {
  Key(key);
  writer_.Integer(value);
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
  WriteFlow("s", id, Raw(thread.pid), Raw(thread.tid), Ts(call.start_ns), "},\n");
  WriteFlow("f", id, place.pid, place.tid, place.slice.ts_ns, ", \"bp\": \"e\"},\n");
}

void ChromeDeviceRows::WriteFlow(std::string_view phase, uint64_t id, int64_t pid, int64_t tid,
                                 int64_t ts_ns, std::string_view end) {
  writer_.Text("{\"ph\": \"");
  writer_.Text(phase);
  writer_.Text("\", \"id\": ");
  writer_.Unsigned(id);
  writer_.Text(", \"pid\": ");
  writer_.Integer(pid);
  writer_.Text(", \"tid\": ");
  writer_.Integer(tid);
  writer_.Text(", \"ts\": ");
  writer_.Microseconds(ts_ns);
  writer_.Text(", \"cat\": \"ac2g\", \"name\": \"ac2g\"");
  writer_.Text(end);
}

void ChromeDeviceRows::WriteName(std::string_view what, int64_t pid, int64_t tid,
                                 const std::string& args) {
  writer_.Text("{\"name\": \"");
  writer_.Text(what);
  writer_.Text("\", \"ph\": \"M\", \"ts\": ");
  writer_.Microseconds(Ts(timeline_.info().window.start_ns));
  writer_.Text(", \"pid\": ");
  writer_.Integer(pid);
  writer_.Text(", \"tid\": ");
  writer_.Integer(tid);
  writer_.Text(", \"args\": {" + args + "}},\n");
}

void ChromeDeviceRows::WriteNames() {
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
      WriteName("process_name", track.pid, 0, "\"name\": " + JsonQuoted(name));
      if (!is_overhead) {
        WriteName("process_labels", track.pid, 0,
                  "\"labels\": \"" + numbers_.Label(key.device) + "\"");
      }
      const int64_t sort_index = is_overhead ? kOverheadSortIndex : kGpuSortIndex + key.device;
      WriteName("process_sort_index", track.pid, 0,
                "\"sort_index\": " + std::to_string(sort_index));
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
      WriteName("thread_name", track.pid, tid,
                "\"name\": " + JsonQuoted(i == 0 ? name : name + " (overlap)"));
      // The ranges are shown beside their thread.
      const int64_t sort_index = is_range ? int64_t{key.stream} : tid;
      WriteName("thread_sort_index", track.pid, tid,
                "\"sort_index\": " + std::to_string(sort_index));
    }
  }
}

}  // namespace proftrace
