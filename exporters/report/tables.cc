// Adds the report's tables: operators, modules, call tree, memory, files, waits and idle devices.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "exporters/report/report_data.h"
#include "exporters/text/system_views.h"
#include "userspace/aggregate/bound_stacks.h"
#include "userspace/aggregate/call_times.h"
#include "userspace/aggregate/file_io.h"
#include "userspace/aggregate/memory_peak.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/stack_shares.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/base/saturating.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr size_t kMostOperators = 1500;
constexpr size_t kMostShapes = 4000;
constexpr size_t kMostModules = 4000;
constexpr size_t kMostNodes = 20'000;
constexpr size_t kMostMemoryPoints = 3000;
constexpr size_t kMostOwners = 40;
constexpr size_t kMostFiles = 500;
constexpr size_t kMostCalls = 100;
constexpr size_t kMostWaits = 500;
constexpr size_t kMostCurves = 16;

// Notes that a table has only its first rows.
void TellLeftOut(const std::string& what, size_t all, size_t most, ReportData* data) {
  if (all <= most) return;
  data->left_out.push_back(absl::StrFormat("%s: the first %d of %d rows.", what, most, all));
}

// Returns the shares of the rows that are in the page.
std::vector<WindowShare> OfFirstRows(std::vector<WindowShare> shares, size_t most) {
  std::erase_if(shares, [&](const WindowShare& share) { return share.row >= most; });
  return shares;
}

// Returns the rows with most self time, in their order. `numbers` is filled with each row's new
// number.
std::vector<const KeyAverage*> Largest(const KeyAverages& averages, size_t most,
                                       std::vector<std::optional<uint32_t>>* numbers) {
  const std::vector<KeyAverage>& rows = averages.rows;
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  const auto own_ns = [&](uint32_t row) {
    return SaturatingSum(rows[row].self_cpu_time_total_ns, rows[row].self_device_time_total_ns);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return own_ns(a) > own_ns(b); });
  if (order.size() > most) order.resize(most);
  numbers->assign(rows.size(), std::nullopt);
  std::vector<const KeyAverage*> kept;
  for (const uint32_t row : order) {
    (*numbers)[row] = static_cast<uint32_t>(kept.size());
    kept.push_back(&rows[row]);
  }
  return kept;
}

const std::vector<std::string> kOperatorColumns = {
    "name",     "shapes",    "kind",   "count",         "self",    "total",
    "dev_self", "dev_total", "memory", "device_memory", "off_cpu", "flops"};

void AddOperatorRows(const std::vector<const KeyAverage*>& rows, const std::string& prefix,
                     ReportData* data) {
  PackedTable table(kOperatorColumns);
  for (const KeyAverage* row : rows) {
    table.AddRow({data->columns.Text(row->name), data->columns.Text(row->input_shapes),
                  row->is_device            ? 1
                  : row->is_user_annotation ? 2
                                            : 0,
                  static_cast<int64_t>(row->count), row->self_cpu_time_total_ns,
                  row->cpu_time_total_ns, row->self_device_time_total_ns, row->device_time_total_ns,
                  row->memory.self_cpu_bytes, row->memory.self_device_bytes,
                  row->system.self_off_cpu_ns, row->flops});
  }
  table.AddTo(prefix, &data->columns);
}

std::string ThreadText(const Timeline& timeline, ThreadIndex index) {
  const Thread& thread = timeline.thread(index);
  return absl::StrFormat("%s%sTID %d", thread.name, thread.name.empty() ? "" : " ",
                         Raw(thread.tid));
}

void AddCallTimes(ReportData* data) {
  PackedTable table({"name", "calls", "errors", "total", "p99", "max", "off_cpu", "bytes"});
  const std::vector<CallTimes> calls = SumCallTimes(data->timeline);
  for (size_t i = 0; i < std::min(calls.size(), kMostCalls); ++i) {
    const CallTimes& call = calls[i];
    table.AddRow({data->columns.Text(call.name), static_cast<int64_t>(call.calls),
                  static_cast<int64_t>(call.errors), call.total_ns, call.p99_ns, call.max_ns,
                  call.off_cpu_ns, call.bytes});
  }
  table.AddTo("syscalls", &data->columns);
  TellLeftOut("System calls", calls.size(), kMostCalls, data);
}

std::string OwnerText(const Timeline& timeline, const PeakOwner& owner) {
  const std::string path = PathText(timeline, owner.path);
  return path.empty() ? "outside of operators" : path;
}

OrderedJson CurveJson(const MemoryPeak& peak, const std::string& prefix, ReportData* data) {
  std::vector<int64_t> times;
  std::vector<int64_t> bytes;
  for (const MemoryPoint& point : peak.points) {
    times.push_back(data->Since(point.time_ns));
    bytes.push_back(point.bytes);
  }
  data->columns.Add(prefix + ".time", times, Packing::kDeltas);
  data->columns.Add(prefix + ".bytes", bytes, Packing::kDeltas);
  PackedTable owners({"name", "python", "blocks", "bytes"});
  int64_t others_bytes = 0;
  for (size_t i = 0; i < peak.owners.size(); ++i) {
    const PeakOwner& owner = peak.owners[i];
    if (i >= kMostOwners) {
      others_bytes = SaturatingSum(others_bytes, owner.bytes);
      continue;
    }
    const std::string python =
        owner.stack == kNoStack ? "" : PythonLineText(data->timeline, owner.stack);
    owners.AddRow({data->columns.Text(OwnerText(data->timeline, owner)), data->columns.Text(python),
                   static_cast<int64_t>(owner.blocks), owner.bytes});
  }
  owners.AddTo(prefix + ".owners", &data->columns);
  return {{"pid", Raw(peak.curve.pid)},
          {"device", peak.curve.DeviceText()},
          {"peak_ns", data->Since(peak.time_ns)},
          {"peak_bytes", peak.bytes},
          {"preexisting_bytes", peak.preexisting_bytes},
          {"is_whole", peak.is_whole},
          {"events", peak.events},
          {"owners", peak.owners.size()},
          {"others_bytes", others_bytes}};
}

OrderedJson IdleDeviceJson(const Timeline& timeline, const DeviceIdle& device) {
  OrderedJson causes = OrderedJson::array();
  for (const IdleShare& share : SharesOf(device)) {
    const std::string python =
        share.python == kNoStack ? "" : ShownText(PythonFrameText(timeline, share.python));
    causes.push_back({{"cause", IdleCauseName(share.cause)},
                      {"number", static_cast<int>(share.cause)},
                      {"ns", share.ns},
                      {"gaps", share.gaps},
                      {"longest_ns", share.longest_ns},
                      {"python", python}});
  }
  OrderedJson stream = nullptr;
  if (device.stream.has_value()) stream = *device.stream;
  return {{"pid", Raw(device.pid)},    {"device", device.device},   {"stream", stream},
          {"busy_ns", device.busy_ns}, {"idle_ns", device.idle_ns}, {"causes", std::move(causes)}};
}

}  // namespace

void AddOperatorsTo(ReportData* data) {
  const Timeline& timeline = data->timeline;
  KeyAveragesOptions options;
  options.windows = &data->windows;
  const KeyAverages averages = BuildKeyAverages(timeline, options, data->aggregates.step_rows);
  std::vector<std::optional<uint32_t>> numbers;
  AddOperatorRows(Largest(averages, kMostOperators, &numbers), "ops", data);
  std::vector<WindowShare> shares;
  for (WindowShare share : averages.by_window) {
    if (!numbers[share.row].has_value()) continue;
    share.row = *numbers[share.row];
    shares.push_back(share);
  }
  data->AddShares("ops.share", shares);
  data->facts["ops"] = {{"self_total_ns", averages.self_cpu_time_total_ns},
                        {"device_total_ns", averages.self_device_time_total_ns},
                        {"incomplete", averages.incomplete_spans}};
  TellLeftOut("Operators", averages.rows.size(), kMostOperators, data);
  if (!timeline.has_inputs()) return;
  options.windows = nullptr;
  options.group_by_input_shape = true;
  const KeyAverages by_shape = BuildKeyAverages(timeline, options, data->aggregates.step_rows);
  AddOperatorRows(Largest(by_shape, kMostShapes, &numbers), "shapes", data);
  TellLeftOut("Operators by shape", by_shape.rows.size(), kMostShapes, data);
}

void AddModulesTo(ReportData* data) {
  const Timeline& timeline = data->timeline;
  if (timeline.python_modules().empty()) return;
  std::vector<WindowShare> shares;
  const ModuleSums sums =
      SumModules(timeline, data->aggregates.python_rows, &data->windows, &shares);
  PackedTable table({"pid", "path", "class", "calls", "forward", "self_forward", "backward",
                     "self_backward", "operators", "memory"});
  for (size_t i = 0; i < std::min(sums.modules.size(), kMostModules); ++i) {
    const ModuleTimes& times = sums.modules[i];
    const PythonModule& module = timeline.python_modules()[times.module];
    const std::string name = times.instances > 1 ? module.class_name : PythonModuleText(module);
    table.AddRow({Raw(module.pid), data->columns.Text(module.path), data->columns.Text(name),
                  static_cast<int64_t>(times.calls), times.forward_ns, times.self_forward_ns,
                  times.backward_ns, times.self_backward_ns, static_cast<int64_t>(times.operators),
                  times.cpu_memory_bytes});
  }
  table.AddTo("modules", &data->columns);
  data->AddShares("modules.share", OfFirstRows(std::move(shares), kMostModules));
  data->facts["modules"] = {{"total_ns", sums.total_ns}};
  TellLeftOut("Modules", sums.modules.size(), kMostModules, data);
}

void AddStacksTo(ReportData* data) {
  const FoldedStacks* stacks = &data->aggregates.stacks;
  FoldedStacks bounded;
  if (stacks->nodes.size() > kMostNodes) {
    bounded = *stacks;
    BoundStacks(kMostNodes, &bounded);
    data->left_out.push_back(absl::StrFormat(
        "Flame graph: the %d largest of %d paths, the others put together below their callers.",
        bounded.nodes.size() - 1, stacks->nodes.size() - 1));
    stacks = &bounded;
  }
  PackedTable frames({"name", "kind"});
  for (const StackFrame& frame : stacks->frames) {
    frames.AddRow({data->columns.Text(frame.name), static_cast<int64_t>(frame.kind)});
  }
  frames.AddTo("frames", &data->columns);
  PackedTable nodes({"parent", "frame", "count"});
  for (size_t i = 1; i < stacks->nodes.size(); ++i) {
    const StackNode& node = stacks->nodes[i];
    nodes.AddRow({node.parent, node.frame, static_cast<int64_t>(node.count)});
  }
  nodes.AddTo("nodes", &data->columns);
  OrderedJson weights = OrderedJson::array();
  for (const StackValues& values : stacks->values) {
    const StackWeightInfo& info = InfoOf(values.weight);
    const char* unit = info.unit == StackUnit::kNanoseconds ? "ns"
                       : info.unit == StackUnit::kBytes     ? "bytes"
                                                            : "count";
    weights.push_back({{"name", info.name}, {"title", info.title}, {"unit", unit}});
    data->columns.Add("weight." + std::string(info.name),
                      {values.self.begin() + (values.self.empty() ? 0 : 1), values.self.end()});
  }
  data->facts["weights"] = std::move(weights);
  data->AddShares("nodes.share", SumStackShares(data->timeline, *stacks, data->windows));
}

void AddMemoryTo(ReportData* data) {
  OrderedJson curves = OrderedJson::array();
  const std::vector<MemoryPeak> peaks = FindMemoryPeaks(data->timeline, kMostMemoryPoints);
  for (size_t i = 0; i < std::min(peaks.size(), kMostCurves); ++i) {
    curves.push_back(CurveJson(peaks[i], absl::StrFormat("memory%d", i), data));
  }
  data->facts["memory"] = std::move(curves);
  TellLeftOut("Memory", peaks.size(), kMostCurves, data);
}

void AddFilesTo(ReportData* data) {
  if (!data->timeline.info().system.calls && !data->timeline.info().system.io) return;
  std::vector<WindowShare> shares;
  const std::vector<FileIo> files = SumFileIo(data->timeline, &data->windows, &shares);
  PackedTable table({"name", "kind", "calls", "reads", "writes", "errors", "read", "written",
                     "time", "off_cpu", "longest", "page_ins", "page_in_time"});
  for (size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
    const FileIo& file = files[i];
    table.AddRow({data->columns.Text(file.name), data->columns.Text(FileKindName(file.kind)),
                  static_cast<int64_t>(file.calls), static_cast<int64_t>(file.reads),
                  static_cast<int64_t>(file.writes), static_cast<int64_t>(file.errors),
                  file.bytes_read, file.bytes_written, file.time_ns, file.off_cpu_ns,
                  file.longest_ns, static_cast<int64_t>(file.page_ins), file.page_in_ns});
  }
  table.AddTo("files", &data->columns);
  data->AddShares("files.share", OfFirstRows(std::move(shares), kMostFiles));
  TellLeftOut("Files", files.size(), kMostFiles, data);
  AddCallTimes(data);
}

void AddWaitsTo(ReportData* data) {
  const Timeline& timeline = data->timeline;
  if (!timeline.has_sched()) return;
  std::vector<WindowShare> shares;
  const std::vector<WaitSum> waits = SumWaits(timeline, &data->windows, &shares);
  PackedTable table(
      {"pid", "thread", "reason", "place", "waker", "waker_place", "count", "blocked", "longest"});
  for (size_t i = 0; i < std::min(waits.size(), kMostWaits); ++i) {
    const WaitSum& wait = waits[i];
    std::string waker;
    if (wait.waker_is_known) {
      waker = ThreadText(timeline, wait.waker_thread);
    } else if (Raw(wait.waker_tid) != 0) {
      waker = absl::StrFormat("TID %d", Raw(wait.waker_tid));
    }
    table.AddRow(
        {Raw(timeline.thread(wait.thread).pid),
         data->columns.Text(ThreadText(timeline, wait.thread)),
         data->columns.Text(WaitReasonName(wait.reason)),
         data->columns.Text(PlaceOfWaitText(timeline, wait.place)), data->columns.Text(waker),
         data->columns.Text(wait.waker_is_known ? PlaceOfWaitText(timeline, wait.waker) : ""),
         static_cast<int64_t>(wait.count), wait.blocked_ns, wait.longest_ns});
  }
  table.AddTo("waits", &data->columns);
  data->AddShares("waits.share", OfFirstRows(std::move(shares), kMostWaits));
  TellLeftOut("Waits", waits.size(), kMostWaits, data);
}

void AddIdleTo(ReportData* data) {
  OrderedJson devices = OrderedJson::array();
  for (const DeviceIdle& device : data->aggregates.device_idle) {
    devices.push_back(IdleDeviceJson(data->timeline, device));
  }
  OrderedJson names = OrderedJson::array();
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    names.push_back(IdleCauseName(static_cast<IdleCause>(cause)));
  }
  data->facts["idle_causes"] = std::move(names);
  data->AddShares("idle.share", SumIdleShares(data->aggregates.device_idle, data->windows));
  data->facts["idle"] = std::move(devices);
}

}  // namespace proftrace
