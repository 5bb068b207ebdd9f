#include "exporters/traces/perfetto_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "exporters/args/args_text.h"
#include "exporters/args/collective_args.h"
#include "exporters/args/device_args.h"
#include "exporters/args/recording_json.h"
#include "exporters/args/system_args.h"
#include "exporters/traces/perfetto_packets.h"
#include "exporters/traces/perfetto_states.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/dumped_json.h"

namespace proftrace {
namespace {

// Ids of tracks and arrows have their kind in the upper half, and the number of the thing in the
// lower half.
enum class IdKind : uint64_t {
  kProcess = 1,  // by PID
  kThread,       // by ThreadIndex
  kOther,        // in the order in which they are needed
  kForward,      // by the forward's SpanId
  kLaunch,       // by the index of the activity
  kWaking,       // by the index of the system event
};
uint64_t IdOf(IdKind kind, uint32_t which) { return static_cast<uint64_t>(kind) << 32 | which; }

// A track whose slices nest.
struct Lane {
  uint64_t track = 0;
  std::vector<int64_t> open_ends_ns;  // outermost first
};

class PerfettoWriter {
 public:
  PerfettoWriter(const Timeline& timeline, const StepRows& steps, const PythonRows& python,
                 ByteSink& sink)
      : timeline_(timeline),
        steps_(steps),
        python_(python),
        threads_(timeline),
        packets_(sink),
        states_(timeline, &packets_) {}

  absl::Status Run() {
    const RecordingInfo& info = timeline_.info();
    packets_.BeginTrace(info.window.start_ns, timeline_.ToUnixNs(info.window.start_ns));
    WriteMetadata();
    DescribeThreads();
    FindArrows();
    ForEachSpan(timeline_, [this](SpanId id, const Span& span) {
      if (!packets_.ok()) return;
      WriteStepsBefore(Raw(id));
      WriteSystemEventsBefore(span.start_ns);
      WriteSpan(id, span);
    });
    WriteStepsBefore(timeline_.span_count());
    WriteSystemEventsBefore(std::numeric_limits<int64_t>::max());
    for (Lane& lane : lanes_) CloseAll(&lane);
    states_.WriteLast();
    WriteMemory();
    WriteDeviceActivities();
    return packets_.Flush();
  }

 private:
  void WriteMetadata() {
    const RecordingInfo& info = timeline_.info();
    packets_.Metadata("proftrace.version", info.proftrace_version);
    packets_.Metadata("proftrace.tier", info.tier);
    packets_.Metadata("proftrace.gpu", info.gpu);
    packets_.Metadata("proftrace.ledger", DumpedJson(LedgerJson(timeline_.ledger())));
    packets_.Metadata("proftrace.cost", DumpedJson(CostJson(info)));
    packets_.Metadata("proftrace.unsupported", DumpedJson(UnsupportedJson(info)));
    if (timeline_.has_device_records()) {
      packets_.Metadata("proftrace.gpu_agent", DumpedJson(GpuJson(timeline_)));
    }
    for (const auto& [key, value] : info.metadata) packets_.Metadata(key, value);
    for (const auto& [key, value] : info.metadata_json) packets_.Metadata(key, value);
  }

  void DescribeThreads() {
    std::map<uint32_t, std::string> processes;
    for (const Target& target : timeline_.info().targets) {
      processes.try_emplace(Raw(target.pid), target.comm);
    }
    for (const Thread& thread : timeline_.threads()) {
      processes.try_emplace(Raw(thread.pid), thread.name);
    }
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size(); ++i) {
      processes.try_emplace(Raw(activities.at(i).pid), "");
    }
    for (const auto& [pid, name] : processes) {
      packets_.DescribeProcess(IdOf(IdKind::kProcess, pid), pid, name);
    }
    for (uint32_t i = 0; i < timeline_.threads().size(); ++i) {
      const Thread& thread = timeline_.threads()[i];
      lanes_.push_back({IdOf(IdKind::kThread, i), {}});
      packets_.DescribeThread(lanes_[i].track, Raw(thread.pid), Raw(thread.tid), thread.name);
    }
  }

  // Finds the slices at which arrows begin.
  void FindArrows() {
    if (timeline_.columns().sequence.exists()) {
      for (uint32_t i = 0; i < timeline_.span_count(); ++i) {
        const SpanSequence sequence = timeline_.columns().sequence.at(SpanId{i});
        if (sequence.has_arrow) forwards_.push_back(sequence.forward_plus_1 - 1);
      }
      std::sort(forwards_.begin(), forwards_.end());
    }
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size(); ++i) {
      if (HasArrow(activities.at(i))) launches_.emplace_back(Raw(activities.at(i).call), i);
    }
    std::sort(launches_.begin(), launches_.end());
  }

  bool HasArrow(const DeviceActivity& activity) const {
    return IsDeviceWork(activity.kind) && activity.call != kNoSpan && IsDrawn(activity) &&
           timeline_.span(activity.call).start_ns <= activity.start_ns;
  }

  // Returns whether the activity is drawn. Memory and pools are only in events.csv.
  static bool IsDrawn(const DeviceActivity& activity) {
    return activity.kind < DeviceActivityKind::kMemory ||
           activity.kind == DeviceActivityKind::kMarker;
  }

  void Close(Lane* lane, int64_t until_ns) {
    std::vector<int64_t>& open = lane->open_ends_ns;
    for (; !open.empty() && open.back() <= until_ns; open.pop_back()) {
      packets_.End(lane->track, open.back());
    }
  }
  void CloseAll(Lane* lane) { Close(lane, std::numeric_limits<int64_t>::max()); }

  // Writes a slice of the lane. A slice that does not nest gets a track of its own below the lane.
  void WriteSlice(Lane* lane, int64_t start_ns, int64_t end_ns, std::string_view category,
                  std::string_view name, std::string_view args, const PerfettoArrows& arrows) {
    Close(lane, start_ns);
    if (lane->open_ends_ns.empty() || end_ns <= lane->open_ends_ns.back()) {
      packets_.Begin(lane->track, start_ns, category, name, args, arrows);
      lane->open_ends_ns.push_back(end_ns);
      return;
    }
    const uint64_t track = NewTrack(lane->track, name);
    packets_.Begin(track, start_ns, category, name, args, arrows);
    packets_.End(track, end_ns);
  }

  uint64_t NewTrack(uint64_t parent, std::string_view name) {
    const uint64_t track = IdOf(IdKind::kOther, other_tracks_++);
    packets_.DescribeTrack(track, parent, name);
    return track;
  }

  void WritePythonRowsBefore(uint64_t number) {
    for (; next_python_ < python_.size() && python_.at(next_python_).before_row <= number;
         ++next_python_) {
      const PythonRow& row = python_.at(next_python_);
      WriteSystemEventsBefore(row.start_ns);
      WriteSlice(&lanes_[Raw(row.thread)], row.start_ns, row.end_ns, "python_function",
                 PythonFrameText(timeline_, row.frame), "", {});
    }
  }

  void WriteStepsBefore(uint32_t index) {
    const std::vector<StepRows::Row>& rows = steps_.rows();
    for (; next_step_ < rows.size() && rows[next_step_].before_span <= index; ++next_step_) {
      const StepRows::Row& row = rows[next_step_];
      WritePythonRowsBefore(steps_.NumberOfRow(next_step_));
      WriteSystemEventsBefore(row.step.start_ns);
      WriteSlice(&lanes_[Raw(row.thread)], row.step.start_ns, row.step.end_ns, "user_annotation",
                 "ProfilerStep#" + std::to_string(row.step.number), "", {});
    }
  }

  void WriteSpan(SpanId id, const Span& span) {
    const uint64_t number = steps_.NumberOf(id);
    WritePythonRowsBefore(number);
    const SpanSequence sequence = timeline_.columns().sequence.at(id);
    PerfettoArrows arrows;
    if (sequence.has_arrow) {
      arrows.to_here.push_back(IdOf(IdKind::kForward, sequence.forward_plus_1 - 1));
    }
    if (std::binary_search(forwards_.begin(), forwards_.end(), Raw(id))) {
      arrows.from_here.push_back(IdOf(IdKind::kForward, Raw(id)));
    }
    for (auto launch = std::lower_bound(launches_.begin(), launches_.end(),
                                        std::pair<uint32_t, uint32_t>(Raw(id), 0));
         launch != launches_.end() && launch->first == Raw(id); ++launch) {
      arrows.from_here.push_back(IdOf(IdKind::kLaunch, launch->second));
    }
    const Label& label = timeline_.label(span.label);
    Lane* const lane = &lanes_[Raw(span.thread)];
    const std::string args = SpanArgs(id, span, number, sequence);
    if (!span.ended_elsewhere) {
      return WriteSlice(lane, span.start_ns, span.end_ns(), CategoryName(label.category),
                        label.name, args, arrows);
    }
    const uint64_t track = NewTrack(lane->track, label.name);
    packets_.Begin(track, span.start_ns, CategoryName(label.category), label.name, args, arrows);
    packets_.End(track, span.end_ns());
  }

  // Returns the args of a span, with the keys of the chrome trace.
  std::string SpanArgs(SpanId id, const Span& span, uint64_t number,
                       const SpanSequence& sequence) const {
    ArgsText args;
    args.Unsigned("Ev Idx", number);
    if (sequence.number_plus_1 != 0) args.Number("Sequence number", sequence.number_plus_1 - 1);
    if (span.end != SpanEnd::kReturn) args.Text("end", SpanEndName(span.end));
    if (const ScriptId script = timeline_.script_of(id); script != kNoScript) {
      args.Text(kScriptArg, timeline_.scripts()[Raw(script)]);
    }
    if (const OperatorInputs* inputs = timeline_.inputs_of(id); inputs != nullptr) {
      args.Json("Concrete Inputs", inputs->concrete);
      args.Json("Input type", inputs->types);
      args.Json("Input Strides", inputs->strides);
      args.Json("Input Dims", inputs->dims);
      args.Members(RowKeywordArgs(timeline_, id, *inputs));
    }
    return args.Take();
  }

  void WriteSystemEventsBefore(int64_t until_ns) {
    for (; next_system_ < timeline_.system_event_count() && packets_.ok(); ++next_system_) {
      const SystemEvent& event = timeline_.system_event(next_system_);
      if (event.start_ns >= until_ns) return;
      WriteSystemEvent(next_system_, event);
    }
  }

  void WriteSystemEvent(uint32_t index, const SystemEvent& event) {
    Lane* const lane = &lanes_[Raw(event.thread)];
    ArgsText text;
    text.Members(SystemArgs(timeline_, event));
    if (event.end != SpanEnd::kReturn) text.Text("end", SpanEndName(event.end));
    const std::string args = text.Take();
    const std::string_view category = SystemCategoryName(event.kind);
    const std::string name = SystemEventName(event);
    // Requests of one thread overlap, and end when the thread is in other rows.
    if (event.kind == SystemKind::kRequest) {
      const uint64_t track = NewTrack(lane->track, "io_uring");
      packets_.Begin(track, event.start_ns, category, name, args, {});
      packets_.End(track, event.end_ns());
      return;
    }
    Close(lane, event.start_ns);
    int64_t end_ns = event.end_ns();
    if (!lane->open_ends_ns.empty()) end_ns = std::min(end_ns, lane->open_ends_ns.back());
    WriteSlice(lane, event.start_ns, end_ns, category, name, args, {});
    states_.See(event.thread, event.end_ns());
    if (event.kind != SystemKind::kOffCpu) return;
    states_.Write(event);
    WriteWaking(index, event, end_ns, lane);
  }

  // Writes the arrow from the row that the waker was in to the woken thread's wait for a CPU,
  // because the wait before that began earlier than the wake-up.
  void WriteWaking(uint32_t index, const SystemEvent& event, int64_t end_ns, Lane* lane) {
    const OffCpuFacts& facts = event.off_cpu;
    const int64_t woken_ns = event.end_ns() - facts.run_queue_ns;
    if (facts.run_queue_ns <= 0 || woken_ns <= event.start_ns || woken_ns >= end_ns) return;
    PerfettoArrows arrows;
    if (Raw(facts.waker_tid) != 0) {
      if (const auto waker = threads_.Find(facts.waker_pid, facts.waker_tid); waker.has_value()) {
        const uint64_t arrow = IdOf(IdKind::kWaking, index);
        ArgsText args;
        args.Unsigned("tid", Raw(timeline_.thread(event.thread).tid));
        packets_.Instant(IdOf(IdKind::kThread, Raw(*waker)), woken_ns, "sched_waking", "wakes",
                         args.Take(), {{arrow}, {}});
        arrows.to_here.push_back(arrow);
      }
    }
    WriteSlice(lane, woken_ns, end_ns, "sched_runnable", "run queue", "", arrows);
  }

  void WriteMemory() {
    using Key = std::tuple<uint32_t, uint8_t, int8_t, bool>;
    std::map<Key, uint64_t> tracks;
    const auto track_of = [&](const MemoryEvent& event, bool reserved) {
      const Pid pid = timeline_.thread(event.thread).pid;
      uint64_t& track = tracks[Key(Raw(pid), event.device_type, event.device_index, reserved)];
      if (track != 0) return track;
      std::string name(DeviceTypeName(event.device_type));
      if (name.empty()) name = "device type " + std::to_string(event.device_type);
      if (event.device_index >= 0) name += ":" + std::to_string(event.device_index);
      track = IdOf(IdKind::kOther, other_tracks_++);
      packets_.DescribeBytesCounter(track, IdOf(IdKind::kProcess, Raw(pid)),
                                    name + (reserved ? " memory reserved" : " memory allocated"));
      return track;
    };
    const MemoryEventStore& events = timeline_.memory_events();
    for (uint32_t i = 0; i < events.size() && packets_.ok(); ++i) {
      const MemoryEvent& event = events.at(i);
      if (event.kind == MemoryEventKind::kOutOfMemory) {
        ArgsText args;
        args.Number("Bytes", event.bytes);
        packets_.Instant(lanes_[Raw(event.thread)].track, event.time_ns, "cpu_instant_event",
                         MemoryEventName(event.kind), args.Take(), {});
      } else if (event.total_known) {
        packets_.Counter(track_of(event, false), event.time_ns, event.total_allocated);
        if (event.is_device()) {
          packets_.Counter(track_of(event, true), event.time_ns, event.total_reserved);
        }
      }
    }
  }

  // Returns the lane of device work, which lies below the process that asked for the work. Kernels,
  // copies and graphs of a stream are on one track, NVTX ranges on a track of their thread.
  Lane* DeviceLane(const DeviceActivity& activity) {
    const bool is_range = activity.kind == DeviceActivityKind::kMarker;
    return DeviceLane(activity.pid, activity.device, is_range ? Raw(activity.tid) : activity.stream,
                      activity.kind);
  }

  Lane* DeviceLane(Pid pid, uint32_t device, uint32_t stream, DeviceActivityKind kind) {
    if (IsDeviceWork(kind)) kind = DeviceActivityKind::kKernel;
    const auto [it, inserted] =
        device_lanes_.try_emplace(std::tuple(Raw(pid), device, stream, kind));
    if (inserted) {
      std::string name = device == kNowhere ? "CUPTI" : "GPU " + std::to_string(device);
      if (stream != kNowhere) name += " stream " + std::to_string(stream);
      if (!IsDeviceWork(kind)) name += " (" + std::string(DeviceCategoryName(kind)) + ")";
      if (kind == DeviceActivityKind::kMarker) name = "NVTX of thread " + std::to_string(stream);
      it->second.track = NewTrack(IdOf(IdKind::kProcess, Raw(pid)), name);
    }
    return &it->second;
  }

  void WriteDeviceActivities() {
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size() && packets_.ok(); ++i) {
      const DeviceActivity& activity = activities.at(i);
      WriteDeviceAnnotationsBefore(activity.start_ns + 1);
      if (!IsDrawn(activity)) continue;
      PerfettoArrows arrows;
      if (HasArrow(activity)) arrows.to_here.push_back(IdOf(IdKind::kLaunch, i));
      WriteSlice(DeviceLane(activity), activity.start_ns, activity.end_ns(),
                 DeviceCategoryName(activity.kind), timeline_.device_name(activity.name),
                 DeviceArgs(timeline_, activity), arrows);
    }
    WriteDeviceAnnotationsBefore(std::numeric_limits<int64_t>::max());
    for (auto& [key, lane] : device_lanes_) CloseAll(&lane);
  }

  // Writes the device annotations before `until_ns`, which lie around the work that they enclose.
  void WriteDeviceAnnotationsBefore(int64_t until_ns) {
    const std::vector<DeviceAnnotation>& annotations = steps_.DeviceAnnotations(timeline_);
    for (;
         next_annotation_ < annotations.size() && annotations[next_annotation_].start_ns < until_ns;
         ++next_annotation_) {
      const DeviceAnnotation& annotation = annotations[next_annotation_];
      WriteSlice(DeviceLane(annotation.pid, annotation.device, annotation.stream,
                            DeviceActivityKind::kKernel),
                 annotation.start_ns, annotation.end_ns, "gpu_user_annotation",
                 steps_.NameOf(timeline_, annotation), "", {});
    }
  }

  const Timeline& timeline_;
  const StepRows& steps_;
  const PythonRows& python_;
  const ThreadsByNumber threads_;
  PerfettoPackets packets_;
  PerfettoStates states_;
  std::vector<Lane> lanes_;         // by ThreadIndex
  std::vector<uint32_t> forwards_;  // spans that arrows to the backward pass begin at, ascending
  std::vector<std::pair<uint32_t, uint32_t>> launches_;  // spans, and activities; ascending
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, DeviceActivityKind>, Lane> device_lanes_;
  uint32_t other_tracks_ = 0;
  size_t next_step_ = 0;
  uint32_t next_python_ = 0;  // the first that is not written yet
  uint32_t next_system_ = 0;  // the first that is not written yet
  size_t next_annotation_ = 0;
};

}  // namespace

absl::Status ExportPerfettoTrace(const Timeline& timeline, const StepRows& steps,
                                 const PythonRows& python, ByteSink& sink) {
  if (!python.status().ok()) return python.status();
  return PerfettoWriter(timeline, steps, python, sink).Run();
}

}  // namespace proftrace
