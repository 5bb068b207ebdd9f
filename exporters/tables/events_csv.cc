#include "exporters/tables/events_csv.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "exporters/args/device_args.h"
#include "exporters/args/system_args.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/tables/path_cells.h"
#include "exporters/tables/python_cells.h"
#include "exporters/tables/step_places.h"
#include "userspace/aggregate/event_order.h"
#include "userspace/aggregate/flops.h"
#include "userspace/aggregate/system_text.h"

namespace proftrace {
namespace {

constexpr std::string_view kEventsHeader =
    "id,parent_id,depth,path,name,overload_name,category,scope,pid,tid,thread_name,start_ns,"
    "duration_ns,self_ns,device_type,device_index,stream,correlation_id,external_id,sequence_nr,"
    "fwd_tid,is_async,step,input_shapes,input_types,input_strides,concrete_inputs,cpu_memory_bytes,"
    "self_cpu_memory_bytes,device_memory_bytes,self_device_memory_bytes,flops,on_cpu_ns,off_cpu_ns,"
    "module,module_class,stack,args,end\n";
constexpr std::string_view kAfterSelf = ",CPU,,,,";         // device_type to correlation_id
constexpr std::string_view kBeforeCorrelation = ",CPU,,,";  // device_type to stream
constexpr std::string_view kAfterExternalId = ",,,";        // sequence_nr, fwd_tid
constexpr std::string_view kNoInputCells = ",,,,";          // input_shapes to concrete_inputs
constexpr std::string_view kStepName = "ProfilerStep#";
constexpr std::string_view kNoMemoryCells = ",,,,";  // cpu_memory_bytes to self_device_memory_bytes
constexpr std::string_view kAfterMemory = ",,,,,,,,";  // flops to args
constexpr std::string_view kBeforeArgs = ",,,,,,,";    // flops to stack
constexpr std::string_view kNoCpuTimes = ",,,";        // on_cpu_ns, off_cpu_ns
constexpr std::string_view kNoPython = ",,,";          // module to stack
constexpr size_t kMaxRowNumbersBytes = 22 * kMaxNumberBytes + 200;

class EventsCsvWriter {
 public:
  EventsCsvWriter(const Timeline& timeline, const Steps& steps, const StepRows& step_rows,
                  ByteSink& sink, CsvText kind)
      : timeline_(timeline),
        kind_(kind),
        steps_(steps),
        step_rows_(step_rows),
        order_(timeline, step_rows),
        flops_(timeline),
        paths_(timeline, kind),
        python_cells_(timeline, kind),
        writer_(sink) {
    for (const Label& label : timeline.labels()) {
      label_cells_.push_back("," + CsvField(label.name, kind) + "," +
                             CsvField(label.overload_name, kind) + "," +
                             std::string(CategoryName(label.category)) + "," +
                             std::string(ScopeName(label.scope)) + ",");
    }
    for (const Thread& thread : timeline.threads()) {
      thread_cells_.push_back(std::to_string(Raw(thread.pid)) + "," +
                              std::to_string(Raw(thread.tid)) + "," + CsvField(thread.name, kind) +
                              ",");
    }
    input_cells_.resize(timeline.inputs().size());
  }

  absl::Status Run() {
    writer_.Text(kEventsHeader);
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = 0; chunk < spans.chunk_count() && writer_.ok(); ++chunk) {
      const uint32_t first = chunk * SpanStore::kChunkItems;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
      for (uint32_t index = first; index < last; ++index) {
        const Span& span = spans.at(index);
        WriteStepsBefore(index);
        WriteOthers(span.start_ns);
        WriteRow(index, span);
      }
      spans.Release(chunk);
    }
    WriteStepsBefore(spans.size());
    WriteOthers(std::nullopt);
    return writer_.Flush();
  }

 private:
  // The steps that begin before the span `index` or with it.
  void WriteStepsBefore(uint32_t index) {
    const std::vector<StepRows::Row>& rows = step_rows_.rows();
    for (; next_step_ < rows.size() && rows[next_step_].before_span <= index; ++next_step_) {
      WriteOthers(rows[next_step_].step.start_ns);
      WriteStep(rows[next_step_]);
    }
  }

  // The rows that are no spans and start before `until_ns`, if given, and have not been written.
  void WriteOthers(std::optional<int64_t> until_ns) {
    while (writer_.ok()) {
      const std::optional<EventOrder::Other> other = order_.Take(until_ns);
      if (!other.has_value()) return;
      switch (other->kind) {
        case EventOrder::Other::Kind::kMemory:
          WriteMemoryRow(timeline_.memory_events().at(other->index));
          break;
        case EventOrder::Other::Kind::kSystem:
          WriteSystemRow(timeline_.system_event(other->index));
          break;
        case EventOrder::Other::Kind::kDeviceAnnotation:
          WriteDeviceAnnotation(step_rows_.DeviceAnnotations(timeline_)[other->index]);
          break;
        case EventOrder::Other::Kind::kDeviceActivity:
          WriteDeviceActivity(timeline_.device_activities().at(other->index));
          break;
      }
    }
  }

  void WriteStep(const StepRows::Row& row) {
    const std::string& thread = thread_cells_[Raw(row.thread)];
    const Span* parent = row.parent == kNoSpan ? nullptr : &timeline_.span(row.parent);
    std::string path(parent == nullptr ? "" : paths_.Of(parent->path));
    const bool is_quoted = path.ends_with('"');
    if (is_quoted) path.pop_back();
    if (parent != nullptr) path.push_back('/');
    char* at = writer_.Reserve(kMaxRowNumbersBytes + thread.size() + path.size());
    at = PutInteger(at, next_id_++);
    *at++ = ',';
    if (parent != nullptr) at = PutInteger(at, order_.IdOfSpan(row.parent));
    *at++ = ',';
    at = PutInteger(at, parent == nullptr ? 0 : parent->depth + 1);
    *at++ = ',';
    at = PutText(at, path);
    at = PutText(at, kStepName);
    at = PutInteger(at, row.step.number);
    at = PutText(at, is_quoted ? "\"," : ",");
    at = PutText(at, kStepName);
    at = PutInteger(at, row.step.number);
    at = PutText(at, ",,user_annotation,USER_SCOPE,");
    at = PutText(at, thread);
    at = PutInteger(at, timeline_.ToUnixNs(row.step.start_ns));
    *at++ = ',';
    at = PutInteger(at, row.step.end_ns - row.step.start_ns);
    *at++ = ',';
    at = PutInteger(at, row.self_ns);
    at = PutText(at, kAfterSelf);
    at = PutInteger(at, step_rows_.NumberOfRow(next_step_) + 1);
    at = PutText(at, kAfterExternalId);
    at = PutText(at, "0,");
    at = PutInteger(at, row.step.number);
    at = PutText(at, kNoInputCells);
    at = PutMemoryCells(at, places_.MemoryOfStep(next_step_));
    at = PutText(at, kAfterMemory);
    at = PutText(at, "return\n");
    writer_.Advance(at);
  }

  void WriteRow(uint32_t index, const Span& span) {
    const std::optional<size_t> around = places_.Around(span);
    const std::string_view path = paths_.Of(span.path);
    const std::string& label = label_cells_[Raw(span.label)];
    const std::string& thread = thread_cells_[Raw(span.thread)];
    const std::string_view inputs = InputCells(SpanId{index});
    const std::string_view python = python_cells_.Of(SpanId{index}, span);
    char* at = writer_.Reserve(kMaxRowNumbersBytes + path.size() + label.size() + thread.size() +
                               inputs.size() + python.size());
    const uint64_t number = step_rows_.NumberOf(SpanId{index});
    at = PutInteger(at, next_id_++);
    *at++ = ',';
    if (around.has_value() && step_rows_.rows()[*around].parent == span.parent) {
      at = PutInteger(at, order_.IdOfStep(*around));
    } else if (span.parent != kNoSpan) {
      at = PutInteger(at, order_.IdOfSpan(span.parent));
    }
    *at++ = ',';
    at = PutInteger(at, span.depth + (around.has_value() ? 1 : 0));
    *at++ = ',';
    at = PutPath(at, path, around);
    at = PutText(at, label);
    at = PutText(at, thread);
    at = PutInteger(at, timeline_.ToUnixNs(span.start_ns));
    *at++ = ',';
    at = PutInteger(at, span.duration_ns);
    *at++ = ',';
    at = PutInteger(at, places_.SelfNs(SpanId{index}, span));
    at = PutText(at, kBeforeCorrelation);
    const CudaCall call = timeline_.columns().cuda_call.at(SpanId{index});
    if (call.correlation != 0) at = PutInteger(at, call.correlation);
    *at++ = ',';
    const uint64_t external_id = step_rows_.ExternalId(timeline_, span, number);
    if (external_id != 0) at = PutInteger(at, external_id);
    const SpanSequence sequence = timeline_.columns().sequence.at(SpanId{index});
    at = PutSequence(at, sequence);
    *at++ = span.is_async ? '1' : '0';
    *at++ = ',';
    if (const Step* step = StepOf(span); step != nullptr) at = PutInteger(at, step->number);
    at = PutText(at, inputs);
    at = PutMemoryCells(at, places_.MemoryOf(SpanId{index}));
    *at++ = ',';
    if (timeline_.info().with_flops) at = PutInteger(at, flops_.Of(SpanId{index}, span));
    at = PutCpuTimes(at, SpanId{index}, span);
    at = python.empty() ? PutText(at, kNoPython) : PutPython(at, python);
    if (sequence.forward_plus_1 != 0) {
      at = PutText(at, "\"{\"\"forward_id\"\": ");
      at = PutInteger(at, order_.IdOfSpan(SpanId{sequence.forward_plus_1 - 1}));
      at = PutText(at, "}\"");
    } else if (call.correlation != 0) {
      at = PutText(at, "\"{\"\"cbid\"\": ");
      at = PutInteger(at, call.callback);
      at = PutText(at, ", \"\"result\"\": ");
      at = PutInteger(at, call.result);
      at = PutText(at, "}\"");
    } else if (const uint64_t bytes = timeline_.columns().call_bytes.at(SpanId{index})) {
      at = PutText(at, "\"{\"\"bytes\"\": ");
      at = PutInteger(at, bytes);
      at = PutText(at, "}\"");
    }
    *at++ = ',';
    at = PutText(at, SpanEndName(span.end));
    at = PutText(at, "\n");
    writer_.Advance(at);
  }

  static char* PutPython(char* at, std::string_view cells) {
    at = PutText(at, cells);
    *at++ = ',';
    return at;
  }

  // Where the scheduler was recorded, and nothing of it was lost meanwhile.
  char* PutCpuTimes(char* at, SpanId id, const Span& span) const {
    if (!timeline_.has_sched()) return PutText(at, kNoCpuTimes);
    const SpanSystem system = timeline_.columns().system.at(id);
    if (system.is_unknown != 0) return PutText(at, kNoCpuTimes);
    *at++ = ',';
    at = PutInteger(at, span.duration_ns - system.off_cpu_ns);
    *at++ = ',';
    at = PutInteger(at, system.off_cpu_ns);
    *at++ = ',';
    return at;
  }

  static char* PutSequence(char* at, const SpanSequence& sequence) {
    *at++ = ',';
    if (sequence.number_plus_1 != 0) at = PutInteger(at, sequence.number_plus_1 - 1);
    *at++ = ',';
    if (sequence.forward_tid != 0) at = PutInteger(at, sequence.forward_tid);
    *at++ = ',';
    return at;
  }

  // Made once for each of the inputs.
  std::string_view InputCells(SpanId id) {
    const OperatorInputs* inputs = timeline_.inputs_of(id);
    if (inputs == nullptr) return kNoInputCells;
    std::string& cells = input_cells_[Raw(timeline_.columns().inputs.at(id))];
    if (cells.empty()) {
      for (const std::string* list :
           {&inputs->dims, &inputs->types, &inputs->strides, &inputs->concrete}) {
        cells += "," + CsvField(*list, kind_);
      }
    }
    return cells;
  }

  // The path cell, with the step around it in its place.
  char* PutPath(char* at, std::string_view path, const std::optional<size_t>& around) const {
    if (!around.has_value()) return PutText(at, path);
    if (path.starts_with('"')) {
      *at++ = '"';
      path.remove_prefix(1);
    }
    const std::string_view guard = paths_.TakeGuard(&path);
    const size_t before = places_.PathBytesBefore(*around);
    if (before > 0) at = PutText(at, guard);
    at = PutText(at, path.substr(0, before));
    path.remove_prefix(before);
    at = PutText(at, kStepName);
    at = PutInteger(at, step_rows_.rows()[*around].step.number);
    *at++ = '/';
    return PutText(at, path);
  }

  // The step that the span begins in, if its thread drives steps or works for the one that does.
  const Step* StepOf(const Span& span) const { return steps_.At(span.thread, span.start_ns); }

  char* PutMemoryCells(char* at, const SpanMemory& memory) const {
    if (!has_memory_) return PutText(at, kNoMemoryCells);
    at = PutMemory(at, memory.cpu_bytes, memory.self_cpu_bytes);
    return PutMemory(at, memory.device_bytes, memory.self_device_bytes);
  }

  static char* PutMemory(char* at, int64_t bytes, std::optional<int64_t> self_bytes) {
    *at++ = ',';
    at = PutInteger(at, bytes);
    *at++ = ',';
    return self_bytes.has_value() ? PutInteger(at, *self_bytes) : at;
  }

  // An event inside a span counts in that span's self bytes: its own are only those of an event in
  // no span, so that the column adds up.
  void WriteMemoryRow(const MemoryEvent& event) {
    const std::string_view name = MemoryEventName(event.kind);
    const Span* parent = event.parent == kNoSpan ? nullptr : &timeline_.span(event.parent);
    const std::optional<size_t> around = places_.Around(event);
    const bool is_inside = parent != nullptr || event.is_inside || around.has_value();
    std::string path(name);
    if (parent != nullptr) {
      path = paths_.Of(parent->path);
      const bool is_quoted = !path.empty() && path.back() == '"';
      path.insert(path.size() - (is_quoted ? 1 : 0), "/" + std::string(name));
    }
    const uint32_t depth =
        (parent != nullptr ? parent->depth + 1u : 0u) + (around.has_value() ? 1u : 0u);
    const std::string& thread = thread_cells_[Raw(event.thread)];
    char* at = writer_.Reserve(2 * kMaxRowNumbersBytes + path.size() + thread.size());
    at = PutInteger(at, next_id_++);
    *at++ = ',';
    if (around.has_value() && places_.IsParentOf(*around, event)) {
      at = PutInteger(at, order_.IdOfStep(*around));
    } else if (parent != nullptr) {
      at = PutInteger(at, order_.IdOfSpan(event.parent));
    }
    *at++ = ',';
    at = PutInteger(at, depth);
    *at++ = ',';
    at = PutPath(at, path, around);
    *at++ = ',';
    at = PutText(at, name);
    at = PutText(at, ",,cpu_instant_event,FUNCTION,");
    at = PutText(at, thread);
    at = PutInteger(at, timeline_.ToUnixNs(event.time_ns));
    at = PutText(at, ",,,");  // duration_ns, self_ns
    at = PutText(at, DeviceTypeName(event.device_type));
    *at++ = ',';
    if (event.device_index >= 0) at = PutInteger(at, static_cast<int>(event.device_index));
    at = PutText(at, ",,,,,,0,");  // stream to fwd_tid; is_async
    const Step* step = steps_.At(event.thread, event.time_ns);
    if (step != nullptr) at = PutInteger(at, step->number);
    at = PutText(at, kNoInputCells);
    const int64_t bytes = event.kind == MemoryEventKind::kUsage ? event.bytes : 0;
    for (const bool is_own : {event.is_cpu(), event.is_device()}) {
      const int64_t own = is_own ? bytes : 0;
      at = PutMemory(at, own, is_inside ? std::nullopt : std::optional<int64_t>(own));
    }
    at = PutText(at, kBeforeArgs);
    at = PutMemoryArgs(at, event);
    *at++ = ',';
    *at++ = '\n';
    writer_.Advance(at);
  }

  void WriteSystemRow(const SystemEvent& event) {
    const Thread& thread = timeline_.thread(event.thread);
    const std::string name = SystemEventName(event);
    OtherRow row;
    row.parent = event.span;
    row.name = name;
    row.category = SystemCategoryName(event.kind);
    row.pid = thread.pid;
    row.tid = thread.tid;
    row.thread = event.thread;
    row.start_ns = event.start_ns;
    row.duration_ns = event.duration_ns;
    row.args = SystemArgs(timeline_, event);
    row.end = event.end;
    for (uint32_t at = event.around; at != kNoSystemEvent; at = timeline_.system_event(at).around) {
      row.between.push_back(SystemEventName(timeline_.system_event(at)));
    }
    if (event.around != kNoSystemEvent) row.between_id = order_.IdOfSystemEvent(event.around);
    WriteOtherRow(row);
  }

  void WriteDeviceActivity(const DeviceActivity& activity) {
    OtherRow row;
    row.parent = activity.call != kNoSpan ? activity.call : activity.op;
    row.name = timeline_.device_name(activity.name);
    row.category = DeviceCategoryName(activity.kind);
    row.pid = activity.pid;
    row.tid = activity.tid;
    row.start_ns = activity.start_ns;
    const bool is_instant = activity.kind == DeviceActivityKind::kEvent ||
                            activity.kind == DeviceActivityKind::kMemory ||
                            activity.kind == DeviceActivityKind::kPool;
    if (!is_instant) row.duration_ns = activity.duration_ns;
    row.is_device = activity.kind != DeviceActivityKind::kOverhead &&
                    activity.kind != DeviceActivityKind::kMarker;
    row.device = activity.device;
    row.stream = activity.stream;
    row.correlation = activity.correlation;
    row.op = activity.op;
    row.args = DeviceArgs(timeline_, activity);
    WriteOtherRow(row);
  }

  void WriteDeviceAnnotation(const DeviceAnnotation& annotation) {
    const std::string name = step_rows_.NameOf(timeline_, annotation);
    OtherRow row;
    if (annotation.step != kNowhere) {
      const StepRows::Row& step = step_rows_.rows()[annotation.step];
      row.parent = step.parent;
      row.between = {name};
      row.between_id = order_.IdOfStep(annotation.step);
      row.external_id = step_rows_.NumberOfRow(annotation.step) + 1;
      row.tid = timeline_.thread(step.thread).tid;
    } else {
      row.parent = row.op = annotation.annotation;
      row.tid = timeline_.thread(timeline_.span(annotation.annotation).thread).tid;
    }
    row.name = name;
    row.category = "gpu_user_annotation";
    row.pid = annotation.pid;
    row.start_ns = annotation.start_ns;
    row.duration_ns = annotation.end_ns - annotation.start_ns;
    row.is_device = true;
    row.device = annotation.device;
    row.stream = annotation.stream;
    WriteOtherRow(row);
  }

  // A row that is no span, in what is around it.
  struct OtherRow {
    SpanId parent = kNoSpan;
    std::string_view name;
    std::string_view category;
    Pid pid{};
    Tid tid{};  // 0 = not told
    int64_t start_ns = 0;
    std::optional<int64_t> duration_ns;
    bool is_device = false;
    uint32_t device = kNowhere;
    uint32_t stream = kNowhere;
    uint32_t correlation = 0;
    SpanId op = kNoSpan;  // whose external id it has, else:
    uint64_t external_id = 0;
    std::string args;
    std::optional<ThreadIndex> thread;  // none: that of its parent
    SpanEnd end = SpanEnd::kReturn;
    // Names of what lies between it and its parent, the innermost first, and that one's id.
    std::vector<std::string> between;
    uint64_t between_id = 0;
  };

  void WriteOtherRow(const OtherRow& row) {
    const Span* parent = row.parent == kNoSpan ? nullptr : &timeline_.span(row.parent);
    const std::optional<size_t> around = parent != nullptr ? places_.Around(*parent) : std::nullopt;
    const auto optional_cell = [this](bool is_known, uint64_t value) {
      if (is_known) writer_.Unsigned(value);
      writer_.Text(",");
    };
    writer_.Unsigned(next_id_++);
    writer_.Text(",");
    if (!row.between.empty()) {
      optional_cell(true, row.between_id);
    } else {
      optional_cell(parent != nullptr, parent != nullptr ? order_.IdOfSpan(row.parent) : 0);
    }
    const uint32_t depth =
        (parent != nullptr ? parent->depth + 1u : 0u) + (around.has_value() ? 1u : 0u);
    writer_.Unsigned(depth + row.between.size());
    writer_.Text(",");
    WriteOtherPath(row, parent, around);
    // What the kernel did has no RecordScope.
    writer_.Text("," + CsvField(row.name, kind_) + ",," + std::string(row.category) +
                 (row.thread.has_value() ? ",," : ",FUNCTION,"));
    writer_.Unsigned(Raw(row.pid));
    writer_.Text(",");
    optional_cell(Raw(row.tid) != 0, Raw(row.tid));
    std::optional<ThreadIndex> thread = row.thread;
    if (!thread.has_value() && parent != nullptr) thread = parent->thread;
    if (thread.has_value()) writer_.Text(CsvField(timeline_.thread(*thread).name, kind_));
    writer_.Text(",");
    writer_.Integer(timeline_.ToUnixNs(row.start_ns));
    writer_.Text(",");
    for (int cell = 0; cell < 2; ++cell) {  // duration_ns, self_ns
      if (row.duration_ns.has_value()) writer_.Integer(*row.duration_ns);
      writer_.Text(",");
    }
    writer_.Text(row.is_device ? "CUDA," : "CPU,");
    optional_cell(row.device != kNowhere, row.device);
    optional_cell(row.stream != kNowhere, row.stream);
    optional_cell(row.correlation != 0, row.correlation);
    const uint64_t external_id =
        row.op == kNoSpan ? row.external_id : step_rows_.NumberOf(row.op) + 1;
    optional_cell(external_id != 0, external_id);
    writer_.Text(",,0,");  // sequence_nr, fwd_tid, is_async
    const int64_t step_ns =
        row.thread.has_value() || parent == nullptr ? row.start_ns : parent->start_ns;
    const Step* step = thread.has_value() ? steps_.At(*thread, step_ns) : nullptr;
    if (step != nullptr) writer_.Integer(step->number);
    writer_.Text(kNoInputCells);
    writer_.Text(kNoMemoryCells);
    // What the kernel did for a span, it did where that was called.
    std::string_view python;
    if (row.thread.has_value() && parent != nullptr) python = python_cells_.Again(row.parent);
    writer_.Text(python.empty() ? kBeforeArgs : kBeforeArgs.substr(0, 4));
    if (!python.empty()) writer_.Text(std::string(python) + ",");
    if (!row.args.empty()) writer_.Text(CsvField("{" + row.args + "}"));
    writer_.Text("," + std::string(SpanEndName(row.end)) + "\n");
  }

  void WriteOtherPath(const OtherRow& row, const Span* parent,
                      const std::optional<size_t>& around) {
    if (parent == nullptr && row.between.empty()) {
      writer_.Text(CsvField(row.name, kind_));
      return;
    }
    std::string_view path = parent == nullptr ? std::string_view() : paths_.Of(parent->path);
    const bool is_quoted = path.starts_with('"');
    if (is_quoted) path = path.substr(1, path.size() - 2);
    writer_.Text("\"");
    if (around.has_value()) {
      const std::string_view guard = paths_.TakeGuard(&path);
      const size_t before = places_.PathBytesBefore(*around);
      if (before > 0) writer_.Text(guard);
      writer_.Text(path.substr(0, before));
      path.remove_prefix(before);
      writer_.Text(kStepName);
      writer_.Integer(step_rows_.rows()[*around].step.number);
      writer_.Text("/");
    }
    writer_.Text(path);
    if (parent != nullptr) writer_.Text("/");
    const bool is_first = parent == nullptr && !around.has_value();
    if (is_first && CsvNeedsGuard(row.between.back(), kind_)) writer_.Text({&kCsvGuard, 1});
    for (size_t i = row.between.size(); i-- > 0;) writer_.Text(CsvEscaped(row.between[i]) + "/");
    writer_.Text(CsvEscaped(row.name) + "\"");
  }

  static char* PutMemoryArgs(char* at, const MemoryEvent& event) {
    at = PutText(at, "\"{\"\"addr\"\": ");
    at = PutInteger(at, event.address);
    at = PutText(at, ", \"\"bytes\"\": ");
    at = PutInteger(at, event.bytes);
    at = PutText(at, ", \"\"total_allocated\"\": ");
    at = event.total_known ? PutInteger(at, event.total_allocated) : PutText(at, "null");
    at = PutText(at, ", \"\"total_reserved\"\": ");
    at = event.total_known ? PutInteger(at, event.total_reserved) : PutText(at, "null");
    return PutText(at, "}\"");
  }

  const Timeline& timeline_;
  CsvText kind_;
  const Steps& steps_;
  const StepRows& step_rows_;
  EventOrder order_;
  uint64_t next_id_ = 0;
  SpanFlops flops_;
  PathCells paths_;
  PythonCells python_cells_;
  size_t next_step_ = 0;
  const bool has_memory_ = timeline_.has_memory();
  const StepPlaces places_{timeline_, step_rows_};
  TextWriter writer_;
  std::vector<std::string> label_cells_;   // ",name,overload_name,category,scope,"
  std::vector<std::string> thread_cells_;  // "pid,tid,thread_name,"
  std::vector<std::string> input_cells_;   // ",input_shapes,…,concrete_inputs", by InputsId
};

}  // namespace

absl::Status ExportEventsCsv(const Timeline& timeline, const Steps& steps, const StepRows& rows,
                             ByteSink& sink, CsvText kind) {
  return EventsCsvWriter(timeline, steps, rows, sink, kind).Run();
}

}  // namespace proftrace
