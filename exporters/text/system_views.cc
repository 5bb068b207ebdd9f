#include "exporters/text/system_views.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "exporters/text/text_table.h"
#include "userspace/aggregate/call_times.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/file_io.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/aggregate/steps.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// A cell of a row, for the table and for JSON.
struct Cell {
  std::string_view key;    // the key in JSON; empty: not in JSON
  std::string_view title;  // the title in the table; empty: not in the table
  std::string text;
  OrderedJson json;
  bool is_number = false;
};

Cell Text(std::string_view key, std::string_view title, const std::string& text) {
  return {key, title, text, ToValidUtf8(text), false};
}

template <typename Integer>
Cell Number(std::string_view key, std::string_view title, Integer value) {
  return {key, title, std::to_string(value), value, true};
}

Cell Time(std::string_view key, std::string_view title, int64_t ns) {
  return {key, title, TimeText(ns), ns, true};
}

// Returns a cell with a time, which is empty where the time was not recorded.
Cell TimeIf(bool is_recorded, std::string_view key, std::string_view title, int64_t ns) {
  if (is_recorded) return Time(key, title, ns);
  return {key, "", "", nullptr, true};
}

using Row = std::vector<Cell>;

std::vector<Row> FileRows(const Timeline& timeline) {
  std::vector<Row> rows;
  const bool has_sched = timeline.has_sched();
  for (const FileIo& file : SumFileIo(timeline)) {
    rows.push_back({Number("opens", "Opens", file.opens), Number("reads", "Reads", file.reads),
                    Number("writes", "Writes", file.writes),
                    Number("bytes_read", "Bytes read", file.bytes_read),
                    Number("bytes_written", "Bytes written", file.bytes_written),
                    Number("calls", "Calls", file.calls), Number("errors", "Errors", file.errors),
                    Time("time_ns", "Time", file.time_ns),
                    TimeIf(has_sched, "off_cpu_ns", "Off CPU", file.off_cpu_ns),
                    Time("longest_ns", "Longest", file.longest_ns),
                    Number("page_ins", "Page-ins", file.page_ins),
                    Time("page_in_ns", "Page-in time", file.page_in_ns),
                    Text("kind", "Kind", std::string(FileKindName(file.kind))),
                    Text("file", "File", file.name)});
  }
  return rows;
}

std::vector<Row> CallRows(const Timeline& timeline) {
  std::vector<Row> rows;
  for (const CallTimes& call : SumCallTimes(timeline)) {
    rows.push_back({Text("name", "System call", call.name), Number("calls", "Calls", call.calls),
                    Number("errors", "Errors", call.errors),
                    Number("unfinished", "Unfinished", call.unfinished),
                    Time("total_ns", "Total", call.total_ns),
                    Time("mean_ns", "Mean", call.mean_ns()), Time("p99_ns", "p99", call.p99_ns),
                    Time("max_ns", "Max", call.max_ns),
                    TimeIf(timeline.has_sched(), "off_cpu_ns", "Off CPU", call.off_cpu_ns),
                    Number("bytes", "Bytes", call.bytes)});
  }
  return rows;
}

std::string CallText(const WaitPlace& place) {
  return place.call < 0 ? "" : SystemCallName(place.abi, static_cast<uint64_t>(place.call));
}

std::string StackText(const Timeline& timeline, const WaitPlace& place) {
  return place.stack == kNoStack ? "" : PythonLineText(timeline, place.stack);
}

// Returns a thread's name and number: "python3 4712".
std::string ThreadText(const std::string& name, Tid tid) {
  return (name.empty() ? "" : name + " ") + std::to_string(Raw(tid));
}

// Returns a cell with a waker's stack: in the table the functions for which there is room,
// "futex_wake < notify < main".
Cell StackCell(const Timeline& timeline, uint32_t frame) {
  constexpr size_t kShown = 5;
  constexpr size_t kTold = 128;
  OrderedJson all = OrderedJson::array();
  std::string text;
  const std::vector<std::string> functions = SampleStackTexts(timeline, frame, kTold);
  for (size_t i = 0; i < functions.size(); ++i) {
    all.push_back(ToValidUtf8(functions[i]));
    if (i < kShown) text += (i == 0 ? "" : " < ") + functions[i];
  }
  return {"waker_stack", "Waker's stack", text, std::move(all), false};
}

std::vector<Row> WaitRows(const Timeline& timeline) {
  std::vector<Row> rows;
  const std::vector<WaitSum> waits = SumWaits(timeline);
  const bool has_stacks = std::any_of(waits.begin(), waits.end(),
                                      [](const WaitSum& wait) { return wait.waker_frame != 0; });
  for (const WaitSum& wait : waits) {
    const Thread& thread = timeline.thread(wait.thread);
    const bool is_woken = Raw(wait.waker_tid) != 0;
    const std::string waker_name =
        wait.waker_is_known ? timeline.thread(wait.waker_thread).name : "";
    Row row = {Time("blocked_ns", "Blocked", wait.blocked_ns),
               Number("count", "Count", wait.count),
               Time("longest_ns", "Longest", wait.longest_ns),
               Number("unfinished", "", wait.unfinished),
               Text("", "Thread", ThreadText(thread.name, thread.tid)),
               Number("pid", "", Raw(thread.pid)),
               Number("tid", "", Raw(thread.tid)),
               Text("thread_name", "", thread.name),
               Text("reason", "Reason", std::string(WaitReasonName(wait.reason))),
               Text("", "Where", PlaceOfWaitText(timeline, wait.place)),
               Text("path", "", PathText(timeline, wait.place.path)),
               Text("python", "", StackText(timeline, wait.place)),
               Text("syscall", "", CallText(wait.place)),
               Text("", "Woken by", is_woken ? ThreadText(waker_name, wait.waker_tid) : ""),
               Text("", "Waker was in", PlaceOfWaitText(timeline, wait.waker))};
    if (is_woken) {
      row.push_back(Number("waker_pid", "", Raw(wait.waker_pid)));
      row.push_back(Number("waker_tid", "", Raw(wait.waker_tid)));
    }
    if (wait.waker_is_known) {
      row.push_back(Text("waker_thread_name", "", waker_name));
      row.push_back(Text("waker_path", "", PathText(timeline, wait.waker.path)));
      row.push_back(Text("waker_python", "", StackText(timeline, wait.waker)));
      row.push_back(Text("waker_syscall", "", CallText(wait.waker)));
    }
    if (has_stacks) row.push_back(StackCell(timeline, wait.waker_frame));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string FormatJson(const std::vector<Row>& rows, size_t shown) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < shown; ++i) {
    OrderedJson object = OrderedJson::object();
    for (const Cell& cell : rows[i]) {
      if (!cell.key.empty()) object[std::string(cell.key)] = cell.json;
    }
    list.push_back(std::move(object));
  }
  const OrderedJson all = {{"rows", std::move(list)}, {"rows_left_out", rows.size() - shown}};
  return DumpedJson(all, 2) + "\n";
}

std::string FormatText(const std::vector<Row>& rows, size_t shown) {
  if (rows.empty()) return "nothing of this was recorded\n";
  std::vector<TextColumn> columns;
  for (const Cell& cell : rows.front()) {
    if (!cell.title.empty()) columns.push_back({std::string(cell.title), cell.is_number});
  }
  TextTable table(std::move(columns));
  for (size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const Cell& cell : rows[i]) {
      if (!cell.title.empty()) cells.push_back(cell.text);
    }
    table.AddRow(std::move(cells));
  }
  std::string text = table.Take();
  if (shown < rows.size()) {
    text += "(" + std::to_string(rows.size() - shown) + " more rows; --row-limit -1 shows all)\n";
  }
  return text;
}

// Returns a row for each cause of the idle time of each device and of its busiest streams.
std::vector<Row> IdleRows(const Timeline& timeline) {
  std::vector<Row> rows;
  const PythonRows python =
      timeline.has_stacks() ? PythonRows(timeline, StepRows(), "") : PythonRows();
  for (const DeviceIdle& device : FindDeviceIdle(timeline, python)) {
    for (const IdleShare& share : SharesOf(device)) {
      std::array<char, 16> percent;
      std::snprintf(percent.data(), percent.size(), "%.1f %%",
                    static_cast<double>(share.ns) * 100 / static_cast<double>(device.idle_ns));
      Cell stream = Text("stream", "Stream", "all");
      if (device.stream.has_value()) stream = Number("stream", "Stream", *device.stream);
      const std::string function =
          share.python == kNoStack ? "" : PythonFrameText(timeline, share.python);
      rows.push_back({Number("pid", "PID", Raw(device.pid)), Number("device", "GPU", device.device),
                      std::move(stream),
                      Text("cause", "Idle: the launching thread was in",
                           std::string(IdleCauseName(share.cause))),
                      Time("ns", "Time", share.ns), Text("", "Of idle", percent.data()),
                      Number("gaps", "Gaps", share.gaps),
                      Time("longest_ns", "Longest", share.longest_ns),
                      Text("python_function", "Mostly below", function)});
    }
  }
  return rows;
}

absl::Status CheckRecorded(const Timeline& timeline, SystemView view) {
  const SystemActivities& recorded = timeline.info().system;
  if (view == SystemView::kGpuIdle) {
    if (timeline.has_device_records()) return absl::OkStatus();
    return Fail(ExitCode::kUsage,
                "--gpu-idle: what GPUs did is not in this recording; record with --gpu agent");
  }
  if (view == SystemView::kWaits) {
    if (recorded.sched) return absl::OkStatus();
    return Fail(ExitCode::kUsage,
                "--waits: no time off the CPU is in this recording; record with --activities "
                "sched");
  }
  if (recorded.calls || recorded.io) return absl::OkStatus();
  return Fail(ExitCode::kUsage,
              std::string(view == SystemView::kByFile ? "--by-file" : "--by-syscall") +
                  ": no system calls are in this recording; record with --activities syscalls or "
                  "io");
}

std::vector<Row> RowsOf(const Timeline& timeline, SystemView view) {
  switch (view) {
    case SystemView::kByFile:
      return FileRows(timeline);
    case SystemView::kBySystemCall:
      return CallRows(timeline);
    case SystemView::kWaits:
      return WaitRows(timeline);
    case SystemView::kGpuIdle:
      return IdleRows(timeline);
  }
  return {};
}

}  // namespace

std::string PlaceOfWaitText(const Timeline& timeline, const WaitPlace& place) {
  std::string text = PathText(timeline, place.path);
  for (const std::string& part : {StackText(timeline, place), CallText(place)}) {
    if (!part.empty()) text += (text.empty() ? "" : " | ") + part;
  }
  return text;
}

std::string_view FileKindName(SystemFileKind kind) {
  switch (kind) {
    case SystemFileKind::kRegular:
      return "file";
    case SystemFileKind::kDirectory:
      return "directory";
    case SystemFileKind::kDevice:
      return "device";
    case SystemFileKind::kPipe:
      return "pipe";
    case SystemFileKind::kSocket:
      return "socket";
    case SystemFileKind::kAnonymous:
      return "anonymous";
    case SystemFileKind::kOther:
      break;
  }
  return "";
}

absl::Status ExportSystemView(const Timeline& timeline, const SystemViewOptions& options,
                              ByteSink& sink) {
  if (absl::Status status = CheckRecorded(timeline, options.view); !status.ok()) return status;
  const std::vector<Row> rows = RowsOf(timeline, options.view);
  const size_t shown = options.row_limit < 0
                           ? rows.size()
                           : std::min(rows.size(), static_cast<size_t>(options.row_limit));
  return sink.Write(options.json ? FormatJson(rows, shown) : FormatText(rows, shown));
}

}  // namespace proftrace
