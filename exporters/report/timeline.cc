// The report's timeline: rows by lane (operators of a thread, what the kernel did for it, calls of
// nn.Modules, a GPU's streams and why it was idle), the longest ones and, of some steps, more.
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "exporters/report/report_data.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/level_of_detail.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/model/system_calls.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

constexpr DetailBudget kSpanBudget{70'000, 25'000, 4000};
constexpr DetailBudget kSystemBudget{40'000, 15'000, 2000};
constexpr DetailBudget kDeviceBudget{40'000, 15'000, 3000};
constexpr DetailBudget kModuleBudget{20'000, 8000, 1500};
constexpr DetailBudget kPartBudget{20'000, 10'000, 1000};
constexpr DetailBudget kIdleBudget{10'000, 6000, 500};
constexpr size_t kMostLanes = 250;
constexpr int64_t kMostDepth = 60;

// The class of a row, which its colour shows. The page uses the same numbers (look.js).
enum class RowClass : uint8_t {
  kOperator = 0,
  kAutograd,
  kAnnotation,
  kCudaCall,
  kCollection,
  kModule,
  kCollective,
  kKernel,
  kCopy,
  kDeviceOther,
  kSystemCall,
  kFault,
  kOffRunQueue,
  kOffLock,
  kOffIo,
  kOffEvent,
  kOffSleep,
  kOffOther,
  kPart,
  kIdle,
};

struct Row {
  int64_t start_ns = 0;  // CLOCK_MONOTONIC
  int64_t duration_ns = 0;
  uint32_t label = 0;
  int64_t depth = 0;
  uint32_t waker_plus_1 = 0;  // a ThreadIndex
};

enum class LaneKind : uint8_t { kParts, kModules, kRows, kKernel, kWorks, kDevice, kIdle };

std::string_view LaneKindName(LaneKind kind) {
  static constexpr std::string_view kNames[] = {"parts", "modules", "rows", "kernel",
                                                "works", "device",  "idle"};
  return kNames[static_cast<size_t>(kind)];
}

struct Lane {
  LaneKind kind = LaneKind::kRows;
  std::string title;
  std::string role;
  Pid pid{};
  std::optional<ThreadIndex> thread;
  int order = 0;  // of the lanes, the first one on top
  std::vector<Row> rows;
};

RowClass ClassOf(const Label& label) {
  if (IsTitleOfWork(label.name)) return RowClass::kCollective;
  switch (label.kind) {
    case SpanKind::kOperator:
      return RowClass::kOperator;
    case SpanKind::kAutograd:
      return RowClass::kAutograd;
    case SpanKind::kAnnotation:
      return RowClass::kAnnotation;
    case SpanKind::kRuntime:
      return RowClass::kCudaCall;
    case SpanKind::kCollection:
      return RowClass::kCollection;
  }
  return RowClass::kOperator;
}

RowClass ClassOf(WaitReason reason) {
  switch (reason) {
    case WaitReason::kPreempted:
    case WaitReason::kNew:
      return RowClass::kOffRunQueue;
    case WaitReason::kLock:
    case WaitReason::kGil:
      return RowClass::kOffLock;
    case WaitReason::kIo:
    case WaitReason::kFault:
      return RowClass::kOffIo;
    case WaitReason::kEvent:
      return RowClass::kOffEvent;
    case WaitReason::kSleep:
    case WaitReason::kPoll:
      return RowClass::kOffSleep;
    default:
      return RowClass::kOffOther;
  }
}

RowClass ClassOf(const Timeline& timeline, const DeviceActivity& activity) {
  switch (activity.kind) {
    case DeviceActivityKind::kKernel:
    case DeviceActivityKind::kGraph:
      return timeline.device_name(activity.name).find("nccl") != std::string::npos
                 ? RowClass::kCollective
                 : RowClass::kKernel;
    case DeviceActivityKind::kMemcpy:
    case DeviceActivityKind::kMemset:
      return RowClass::kCopy;
    default:
      return RowClass::kDeviceOther;
  }
}

class TimelinePacker {
 public:
  explicit TimelinePacker(ReportData* data)
      : data_(*data), timeline_(data->timeline), loader_threads_(LoaderProcesses()) {}

  void Run() {
    data_.facts["detail"] = OrderedJson::array();
    AddSpans();
    AddModules();
    AddSystem();
    AddParts();
    AddDevices();
    AddIdle();
    Write();
  }

 private:
  using LaneKey = std::tuple<LaneKind, uint32_t, uint32_t, uint32_t>;

  // Returns the processes that load batches.
  absl::flat_hash_set<uint32_t> LoaderProcesses() const {
    absl::flat_hash_set<uint32_t> pids;
    for (const DataWait& wait : data_.aggregates.data_waits) {
      if (Raw(wait.worker) != 0) pids.insert(Raw(wait.worker));
    }
    for (const Thread& thread : timeline_.threads()) {
      if (thread.name.starts_with("pt_data_worker")) pids.insert(Raw(thread.pid));
    }
    return pids;
  }

  bool IsDriver(ThreadIndex thread) const {
    return data_.parts.has_value() && data_.parts->thread == thread;
  }

  // Returns the role of a thread in the job, and the order of its lanes.
  std::pair<std::string, int> RoleOf(ThreadIndex index) const {
    const Thread& thread = timeline_.thread(index);
    const bool is_of_driver = data_.parts.has_value() && data_.parts->pid == thread.pid;
    const int base = is_of_driver ? 0 : 1000;
    if (IsDriver(index)) return {"drives the steps", 0};
    if (loader_threads_.contains(Raw(thread.pid))) return {"DataLoader worker", 2000};
    if (thread.name == "pt_data_pin") return {"pins memory", base + 300};
    if (has_autograd_.contains(Raw(index))) return {"autograd", base + 100};
    for (const ProcessSteps& process : data_.aggregates.steps.processes) {
      if (process.thread == index) return {"drives steps", base};
    }
    return {"", base + 500};
  }

  Lane& LaneOf(LaneKind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    return lanes_[LaneKey{kind, a, b, c}];
  }

  Lane& ThreadLane(LaneKind kind, ThreadIndex thread) {
    Lane& lane = LaneOf(kind, Raw(thread));
    if (!lane.thread.has_value()) {
      lane.kind = kind;
      lane.pid = timeline_.thread(thread).pid;
      lane.thread = thread;
      const std::string& name = timeline_.thread(thread).name;
      lane.title = absl::StrFormat("%s%s%d", name, name.empty() ? "TID " : " ",
                                   Raw(timeline_.thread(thread).tid));
    }
    return lane;
  }

  uint32_t LabelOf(const std::string& text, RowClass row_class) {
    const std::pair key{data_.columns.Text(text), static_cast<uint32_t>(row_class)};
    const auto [it, inserted] = labels_.try_emplace(key, static_cast<uint32_t>(labels_.size()));
    if (inserted) label_rows_.AddRow({key.first, key.second});
    return it->second;
  }

  LevelOfDetail NewDetail() const { return {data_.windows, data_.ranked}; }

  void Tell(const std::string& what, const LevelOfDetail& detail) {
    if (detail.kept() >= detail.rows()) return;
    data_.left_out.push_back(absl::StrFormat(
        "Timeline, %s: %d of %d are drawn; all of %.1f us and more, and in steps with tables of "
        "their own shorter ones as well.",
        what, detail.kept(), detail.rows(), static_cast<double>(detail.least_ns()) * 1e-3));
    const std::string column = absl::StrFormat("detail%d", data_.facts["detail"].size());
    std::vector<int64_t> least_ns;
    for (uint32_t window = 0; window < data_.windows.intervals.size(); ++window) {
      least_ns.push_back(detail.least_ns(window));
    }
    data_.columns.Add(column, least_ns);
    data_.facts["detail"].push_back(
        {{"what", what}, {"whole_ns", detail.least_ns()}, {"column", column}});
  }

  void AddSpans() {
    LevelOfDetail detail = NewDetail();
    ForEachSpan(timeline_,
                [&](SpanId, const Span& span) { detail.Add(span.start_ns, span.duration_ns); });
    detail.Choose(kSpanBudget);
    std::vector<std::optional<uint32_t>> labels(timeline_.labels().size());
    ForEachSpan(timeline_, [&](SpanId, const Span& span) {
      const Label& label = timeline_.label(span.label);
      if (label.kind == SpanKind::kAutograd) has_autograd_.insert(Raw(span.thread));
      if (!detail.Has(span.start_ns, span.duration_ns)) return;
      std::optional<uint32_t>& id = labels[Raw(span.label)];
      if (!id.has_value()) id = LabelOf(label.name, ClassOf(label));
      Row row{span.start_ns, span.duration_ns, *id, std::min<int64_t>(span.depth, kMostDepth)};
      if (!span.is_apart) {
        ThreadLane(LaneKind::kRows, span.thread).rows.push_back(row);
        return;
      }
      const Pid pid = timeline_.thread(span.thread).pid;
      Lane& lane = LaneOf(LaneKind::kWorks, Raw(pid));
      lane.kind = LaneKind::kWorks;
      lane.pid = pid;
      lane.title = "collectives and other asynchronous work";
      row.depth = 0;
      lane.rows.push_back(row);
    });
    Tell("operators and annotations", detail);
  }

  void AddModules() {
    const PythonRows& rows = data_.aggregates.python_rows;
    const auto is_module = [&](const PythonRow& row) {
      return timeline_.python_frame(row.frame).module != 0;
    };
    LevelOfDetail detail = NewDetail();
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const PythonRow& row = rows.at(i);
      if (is_module(row)) detail.Add(row.start_ns, row.end_ns - row.start_ns);
    }
    detail.Choose(kModuleBudget);
    std::vector<std::vector<int64_t>> open(timeline_.threads().size());  // ends of calls
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const PythonRow& row = rows.at(i);
      if (!is_module(row)) continue;
      std::vector<int64_t>& ends = open[Raw(row.thread)];
      while (!ends.empty() && ends.back() <= row.start_ns) ends.pop_back();
      const auto depth = std::min<int64_t>(static_cast<int64_t>(ends.size()), kMostDepth);
      ends.push_back(row.end_ns);
      if (!detail.Has(row.start_ns, row.end_ns - row.start_ns)) continue;
      const PythonModule& module =
          timeline_.python_modules()[timeline_.python_frame(row.frame).module - 1];
      const std::string name = module.path.empty() ? PythonModuleText(module)
                                                   : module.path + " (" + module.class_name + ")";
      ThreadLane(LaneKind::kModules, row.thread)
          .rows.push_back(
              {row.start_ns, row.end_ns - row.start_ns, LabelOf(name, RowClass::kModule), depth});
    }
    Tell("calls of modules", detail);
  }

  // Returns the label of a system event.
  uint32_t SystemLabel(const SystemEvent& event) {
    switch (event.kind) {
      case SystemKind::kOffCpu: {
        const OffCpuFacts& facts = event.off_cpu;
        std::string text = "off the CPU: " + std::string(WaitReasonName(facts.reason));
        if (facts.call >= 0) {
          text += " in " + SystemCallName(facts.abi, static_cast<uint64_t>(facts.call));
        }
        return LabelOf(text, ClassOf(facts.reason));
      }
      case SystemKind::kFault:
        return LabelOf(event.fault.major ? "page fault, read from a disk" : "page fault",
                       RowClass::kFault);
      default:
        break;
    }
    std::string text = SystemEventName(event);
    const SystemFile* file = timeline_.system_tables().File(event.file);
    if (file != nullptr && !file->name.empty()) text += " " + file->name;
    return LabelOf(text, RowClass::kSystemCall);
  }

  void AddSystem() {
    const ThreadsByNumber threads(timeline_);
    LevelOfDetail detail = NewDetail();
    const auto is_drawn = [](const SystemEvent& event) {
      return event.kind != SystemKind::kRequest;
    };
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (is_drawn(event)) detail.Add(event.start_ns, event.duration_ns);
    }
    detail.Choose(kSystemBudget);
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (!is_drawn(event) || !detail.Has(event.start_ns, event.duration_ns)) continue;
      Row row{event.start_ns, event.duration_ns, SystemLabel(event), event.depth};
      if (event.kind == SystemKind::kOffCpu && Raw(event.off_cpu.waker_tid) != 0) {
        const auto waker = threads.Find(event.off_cpu.waker_pid, event.off_cpu.waker_tid);
        if (waker.has_value()) row.waker_plus_1 = Raw(*waker) + 1;
      }
      ThreadLane(LaneKind::kKernel, event.thread).rows.push_back(row);
    }
    Tell("system calls, waits and faults", detail);
  }

  void AddParts() {
    if (!data_.parts.has_value()) return;
    LevelOfDetail detail = NewDetail();
    const std::vector<PartMoment>& moments = data_.parts->moments;
    for (const PartMoment& moment : moments) {
      detail.Add(moment.start_ns, moment.end_ns - moment.start_ns);
    }
    detail.Choose(kPartBudget);
    Lane& lane = ThreadLane(LaneKind::kParts, data_.parts->thread);
    lane.title = "what a step's time goes to";
    for (const PartMoment& moment : moments) {
      const int64_t duration_ns = moment.end_ns - moment.start_ns;
      if (!detail.Has(moment.start_ns, duration_ns)) continue;
      // The page knows parts by their numbers.
      lane.rows.push_back({moment.start_ns, duration_ns,
                           LabelOf(std::string(StepPartName(moment.part)), RowClass::kPart), 0});
    }
    Tell("parts of steps", detail);
  }

  void AddDevices() {
    const DeviceActivityStore& activities = timeline_.device_activities();
    LevelOfDetail detail = NewDetail();
    const auto is_drawn = [](const DeviceActivity& activity) {
      return IsDeviceWork(activity.kind) && activity.device != kNowhere;
    };
    for (uint32_t i = 0; i < activities.size(); ++i) {
      const DeviceActivity& activity = activities.at(i);
      if (is_drawn(activity)) detail.Add(activity.start_ns, activity.duration_ns);
    }
    detail.Choose(kDeviceBudget);
    for (uint32_t i = 0; i < activities.size(); ++i) {
      const DeviceActivity& activity = activities.at(i);
      if (!is_drawn(activity) || !detail.Has(activity.start_ns, activity.duration_ns)) continue;
      Lane& lane = LaneOf(LaneKind::kDevice, Raw(activity.pid), activity.device, activity.stream);
      lane.kind = LaneKind::kDevice;
      lane.pid = activity.pid;
      if (lane.title.empty()) {
        lane.title = absl::StrFormat("GPU %d, stream %d", activity.device, activity.stream);
      }
      lane.rows.push_back(
          {activity.start_ns, activity.duration_ns,
           LabelOf(timeline_.device_name(activity.name), ClassOf(timeline_, activity)), 0});
    }
    Tell("work of GPUs", detail);
  }

  void AddIdle() {
    LevelOfDetail detail = NewDetail();
    const std::vector<DeviceIdle>& devices = data_.aggregates.device_idle;
    for (const DeviceIdle& device : devices) {
      if (device.stream.has_value()) continue;
      for (const IdleGap& gap : device.gaps) detail.Add(gap.start_ns, gap.end_ns - gap.start_ns);
    }
    detail.Choose(kIdleBudget);
    for (const DeviceIdle& device : devices) {
      if (device.stream.has_value()) continue;
      Lane& lane = LaneOf(LaneKind::kIdle, Raw(device.pid), device.device);
      lane.kind = LaneKind::kIdle;
      lane.pid = device.pid;
      lane.title = absl::StrFormat("GPU %d idle, and why", device.device);
      for (const IdleGap& gap : device.gaps) {
        const int64_t duration_ns = gap.end_ns - gap.start_ns;
        if (!detail.Has(gap.start_ns, duration_ns)) continue;
        lane.rows.push_back({gap.start_ns, duration_ns,
                             LabelOf(std::string(IdleCauseName(gap.main_cause())), RowClass::kIdle),
                             0});
      }
    }
    Tell("idle time of GPUs", detail);
  }

  // Returns the lanes in the order in which they are drawn.
  std::vector<Lane*> OrderedLanes() {
    std::vector<Lane*> lanes;
    for (auto& [key, lane] : lanes_) {
      if (lane.rows.empty()) continue;
      if (lane.thread.has_value()) {
        std::tie(lane.role, lane.order) = RoleOf(*lane.thread);
      } else {
        const bool is_of_driver = data_.parts.has_value() && data_.parts->pid == lane.pid;
        lane.order = (is_of_driver ? 0 : 1000) + 50;
      }
      lanes.push_back(&lane);
    }
    if (lanes.size() > kMostLanes) {
      data_.left_out.push_back(absl::StrFormat("Timeline: %d of %d lanes, those with most rows.",
                                               kMostLanes, lanes.size()));
      std::stable_sort(lanes.begin(), lanes.end(), [](const Lane* a, const Lane* b) {
        return a->rows.size() > b->rows.size();
      });
      lanes.resize(kMostLanes);
    }
    std::stable_sort(lanes.begin(), lanes.end(), [](const Lane* a, const Lane* b) {
      const auto key = [](const Lane* lane) {
        const uint32_t thread = lane->thread.has_value() ? Raw(*lane->thread) : 0;
        return std::tuple(lane->order, Raw(lane->pid), thread, lane->kind);
      };
      return key(a) < key(b);
    });
    return lanes;
  }

  void Write() {
    OrderedJson lanes_json = OrderedJson::array();
    std::vector<int64_t> starts;
    std::vector<int64_t> durations;
    std::vector<int64_t> labels;
    std::vector<int64_t> depths;
    std::vector<int64_t> wakers;
    for (Lane* lane : OrderedLanes()) {
      std::stable_sort(lane->rows.begin(), lane->rows.end(),
                       [](const Row& a, const Row& b) { return a.start_ns < b.start_ns; });
      OrderedJson thread = nullptr;
      if (lane->thread.has_value()) thread = Raw(*lane->thread);
      lanes_json.push_back({{"kind", LaneKindName(lane->kind)},
                            {"title", data_.columns.Text(lane->title)},
                            {"role", lane->role},
                            {"pid", Raw(lane->pid)},
                            {"thread", thread},
                            {"rows", lane->rows.size()}});
      for (const Row& row : lane->rows) {
        starts.push_back(data_.Since(row.start_ns));
        durations.push_back(row.duration_ns);
        labels.push_back(row.label);
        depths.push_back(row.depth);
        wakers.push_back(row.waker_plus_1);
      }
    }
    data_.facts["lanes"] = std::move(lanes_json);
    data_.columns.Add("rows.start", starts, Packing::kDeltas);
    data_.columns.Add("rows.duration", durations);
    data_.columns.Add("rows.label", labels);
    data_.columns.Add("rows.depth", depths);
    data_.columns.Add("rows.waker", wakers);
    label_rows_.AddTo("labels", &data_.columns);
  }

  ReportData& data_;
  const Timeline& timeline_;
  absl::flat_hash_set<uint32_t> loader_threads_;
  absl::flat_hash_set<uint32_t> has_autograd_;  // by ThreadIndex
  std::map<LaneKey, Lane> lanes_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> labels_;
  PackedTable label_rows_{{"text", "class"}};
};

}  // namespace

void AddTimelineTo(ReportData* data) { TimelinePacker(data).Run(); }

}  // namespace proftrace
