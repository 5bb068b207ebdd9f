#include "exporters/tables/event_rows.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "exporters/args/args_text.h"
#include "exporters/args/device_args.h"
#include "exporters/args/system_args.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/tables/path_cells.h"
#include "exporters/tables/python_cells.h"
#include "exporters/tables/step_places.h"
#include "userspace/aggregate/event_order.h"
#include "userspace/aggregate/flops.h"
#include "userspace/aggregate/system_text.h"

namespace proftrace {
namespace {

constexpr char kStepName[] = "ProfilerStep#";
constexpr std::string_view kCpu = "CPU";

class EventRows {
 public:
  EventRows(const Timeline& timeline, const Steps& steps, const StepRows& step_rows, CellForm form,
            absl::FunctionRef<bool(const EventRow&)> add, std::vector<bool>* used_stacks)
      : timeline_(timeline),
        steps_(steps),
        step_rows_(step_rows),
        form_(form),
        add_(add),
        order_(timeline, step_rows),
        flops_(timeline),
        places_(timeline, step_rows, form),
        paths_(timeline, form),
        python_cells_(timeline, form, used_stacks) {
    for (const Label& label : timeline.labels()) {
      label_texts_.push_back({form.Cell(label.name), form.Cell(label.overload_name),
                              CategoryName(label.category), ScopeName(label.scope)});
    }
    for (const Thread& thread : timeline.threads()) thread_names_.push_back(form.Cell(thread.name));
    input_texts_.resize(timeline.inputs().size());
    span_row_.device_type = {kCpu};
  }

  void Run() {
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = 0; chunk < spans.chunk_count() && is_wanted_; ++chunk) {
      const uint32_t first = chunk * SpanStore::kChunkItems;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
      for (uint32_t index = first; index < last; ++index) {
        const Span& span = spans.at(index);
        AddStepsBefore(index);
        AddOthers(span.start_ns);
        AddSpan(SpanId{index}, span);
      }
      spans.Release(chunk);
    }
    AddStepsBefore(spans.size());
    AddOthers(std::nullopt);
  }

 private:
  void Add(const EventRow& row) { is_wanted_ = is_wanted_ && add_(row); }

  // Adds the steps that begin before the span `index` or with it.
  void AddStepsBefore(uint32_t index) {
    const std::vector<StepRows::Row>& rows = step_rows_.rows();
    for (; next_step_ < rows.size() && rows[next_step_].before_span <= index; ++next_step_) {
      AddOthers(rows[next_step_].step.start_ns);
      AddStep(rows[next_step_]);
    }
  }

  // Adds the remaining rows that are no spans, and with `until_ns` only those that start before it.
  void AddOthers(std::optional<int64_t> until_ns) {
    while (is_wanted_) {
      const std::optional<EventOrder::Other> other = order_.Take(until_ns);
      if (!other.has_value()) return;
      switch (other->kind) {
        case EventOrder::Other::Kind::kMemory:
          AddMemoryEvent(timeline_.memory_events().at(other->index));
          break;
        case EventOrder::Other::Kind::kSystem:
          AddSystemEvent(timeline_.system_event(other->index));
          break;
        case EventOrder::Other::Kind::kDeviceAnnotation:
          AddDeviceAnnotation(step_rows_.DeviceAnnotations(timeline_)[other->index]);
          break;
        case EventOrder::Other::Kind::kDeviceActivity:
          AddDeviceActivity(timeline_.device_activities().at(other->index));
          break;
      }
    }
  }

  void AddStep(const StepRows::Row& step) {
    const Thread& thread = timeline_.thread(step.thread);
    const std::string name = kStepName + std::to_string(step.step.number);
    EventRow row;
    row.id = next_id_++;
    if (step.parent != kNoSpan) {
      const Span& parent = timeline_.span(step.parent);
      row.parent_id = order_.IdOfSpan(step.parent);
      row.depth = parent.depth + 1u;
      const std::string_view quote = AddPath(paths_.Of(parent.path), std::nullopt, &row.path);
      row.path.Add("/");
      row.path.Add(name);
      row.path.Add(quote);
    } else {
      row.path.Add(name);
    }
    row.name = {name};
    row.category = {"user_annotation"};
    row.scope = {"USER_SCOPE"};
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    row.thread_name = {thread_names_[Raw(step.thread)]};
    row.start_ns = timeline_.ToUnixNs(step.step.start_ns);
    row.duration_ns = step.step.end_ns - step.step.start_ns;
    row.self_ns = step.self_ns;
    row.device_type = {kCpu};
    row.external_id = step_rows_.NumberOfRow(next_step_) + 1;
    row.step = step.step.number;
    if (has_memory_) SetMemory(places_.MemoryOfStep(next_step_), &row);
    row.end = {SpanEndName(SpanEnd::kReturn)};
    Add(row);
  }

  // Adds a span. All spans use the same row object, so each cell that differs is set anew.
  void AddSpan(SpanId id, const Span& span) {
    EventRow& row = span_row_;
    const std::optional<size_t> around = places_.Around(span);
    row.id = next_id_++;
    row.parent_id.reset();
    if (around.has_value() && step_rows_.rows()[*around].parent == span.parent) {
      row.parent_id = order_.IdOfStep(*around);
    } else if (span.parent != kNoSpan) {
      row.parent_id = order_.IdOfSpan(span.parent);
    }
    row.depth = span.depth + (around.has_value() ? 1u : 0u);
    row.path.count = 0;
    row.path.Add(AddPath(paths_.Of(span.path), around, &row.path));
    const LabelTexts& label = label_texts_[Raw(span.label)];
    row.name = {label.name};
    row.overload_name = {label.overload_name};
    row.category = {label.category};
    row.scope = {label.scope};
    const Thread& thread = timeline_.thread(span.thread);
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    row.thread_name = {thread_names_[Raw(span.thread)]};
    row.start_ns = timeline_.ToUnixNs(span.start_ns);
    row.duration_ns = span.duration_ns;
    row.self_ns = places_.SelfNs(id, span);
    const CudaCall call = timeline_.columns().cuda_call.at(id);
    row.correlation_id.reset();
    if (call.correlation != 0) row.correlation_id = call.correlation;
    const uint64_t external_id = step_rows_.ExternalId(timeline_, span, step_rows_.NumberOf(id));
    row.external_id.reset();
    if (external_id != 0) row.external_id = external_id;
    const SpanSequence sequence = timeline_.columns().sequence.at(id);
    row.sequence_nr.reset();
    if (sequence.number_plus_1 != 0) row.sequence_nr = sequence.number_plus_1 - 1;
    row.fwd_tid.reset();
    if (sequence.forward_tid != 0) row.fwd_tid = sequence.forward_tid;
    row.is_async = span.is_async;
    row.step = StepAt(span.thread, span.start_ns);
    SetInputs(id, &row);
    if (has_memory_) SetMemory(places_.MemoryOf(id), &row);
    if (timeline_.info().with_flops) row.flops = flops_.Of(id, span);
    SetCpuTimes(id, span, &row);
    SetPython(python_cells_.Of(id, span), &row);
    row.args = {ArgsOf(id, sequence, call)};
    row.end = {SpanEndName(span.end)};
    Add(row);
  }

  // Returns {"forward_id": …}, {"cbid": …, "result": …} or {"bytes": …}.
  std::string_view ArgsOf(SpanId id, const SpanSequence& sequence, const CudaCall& call) {
    if (sequence.forward_plus_1 != 0) {
      BeginArgs("forward_id", order_.IdOfSpan(SpanId{sequence.forward_plus_1 - 1}));
    } else if (call.correlation != 0) {
      BeginArgs("cbid", call.callback);
      AddArg("result", call.result);
    } else if (const uint64_t bytes = timeline_.columns().call_bytes.at(id)) {
      BeginArgs("bytes", bytes);
    } else {
      return ScriptArgsOf(timeline_.script_of(id));
    }
    return EndArgs();
  }

  // Returns {"Module Hierarchy": …}, for operators and annotations, which have no other args.
  std::string_view ScriptArgsOf(ScriptId script) {
    if (script == kNoScript) return {};
    if (script_args_.size() <= Raw(script)) script_args_.resize(timeline_.scripts().size());
    std::string& cell = script_args_[Raw(script)];
    if (cell.empty()) {
      ArgsText args;
      args.Text(kScriptArg, timeline_.scripts()[Raw(script)]);
      cell = form_.Cell("{" + args.Take() + "}");
    }
    return cell;
  }

  // The next three make the JSON of a row with few numbers in the output's form, without checking
  // each of its characters.
  template <typename Number>
  void BeginArgs(std::string_view key, Number value) {
    args_end_ = PutText(args_, form_.quote());
    args_end_ = PutText(args_end_, "{");
    PutKey(key);
    args_end_ = PutInteger(args_end_, value);
  }
  template <typename Number>
  void AddArg(std::string_view key, Number value) {
    args_end_ = PutText(args_end_, ", ");
    PutKey(key);
    args_end_ = PutInteger(args_end_, value);
  }
  std::string_view EndArgs() {
    args_end_ = PutText(args_end_, "}");
    args_end_ = PutText(args_end_, form_.quote());
    return {args_, static_cast<size_t>(args_end_ - args_)};
  }
  void PutKey(std::string_view key) {
    args_end_ = PutText(args_end_, form_.inner_quote());
    args_end_ = PutText(args_end_, key);
    args_end_ = PutText(args_end_, form_.inner_quote());
    args_end_ = PutText(args_end_, ": ");
  }

  // Sets the times where the scheduler was recorded and none of its records were lost meanwhile.
  void SetCpuTimes(SpanId id, const Span& span, EventRow* row) const {
    if (!timeline_.has_sched()) return;
    const SpanSystem system = timeline_.columns().system.at(id);
    row->on_cpu_ns.reset();
    row->off_cpu_ns.reset();
    if (system.is_unknown != 0) return;
    row->on_cpu_ns = span.duration_ns - system.off_cpu_ns;
    row->off_cpu_ns = system.off_cpu_ns;
  }

  // Sets the inputs. Their texts are made once for each InputsId.
  void SetInputs(SpanId id, EventRow* row) {
    const OperatorInputs* inputs = timeline_.inputs_of(id);
    if (inputs == nullptr) {
      row->input_shapes = row->input_types = row->input_strides = row->concrete_inputs = {};
      return;
    }
    InputTexts& texts = input_texts_[Raw(timeline_.columns().inputs.at(id))];
    if (!texts.are_made) {
      texts = {form_.Cell(inputs->dims), form_.Cell(inputs->types), form_.Cell(inputs->strides),
               form_.Cell(inputs->concrete), true};
    }
    row->input_shapes = {texts.shapes};
    row->input_types = {texts.types};
    row->input_strides = {texts.strides};
    row->concrete_inputs = {texts.concrete};
  }

  static void SetPython(const PythonCells::Cells& cells, EventRow* row) {
    row->module_path = {cells.module};
    row->module_class = {cells.module_class};
    row->stack = {cells.stack};
  }

  static void SetMemory(const SpanMemory& memory, EventRow* row) {
    row->cpu_memory_bytes = memory.cpu_bytes;
    row->self_cpu_memory_bytes = memory.self_cpu_bytes;
    row->device_memory_bytes = memory.device_bytes;
    row->self_device_memory_bytes = memory.self_device_bytes;
  }

  // Adds a cell of PathCells, with the step around it at its place. Returns the quote that must
  // follow the rest of the path; empty: none.
  std::string_view AddPath(std::string_view path, const std::optional<size_t>& around,
                           PathPieces* to) {
    const bool is_quoted = form_.is_csv() && path.starts_with('"');
    if (!is_quoted) {
      AddInner(path, around, to);
      return {};
    }
    to->Add(form_.quote());
    AddInner(path.substr(1, path.size() - 2), around, to);
    return form_.quote();
  }

  // Adds a cell of PathCells without its quotes.
  void AddInner(std::string_view path, const std::optional<size_t>& around, PathPieces* to) {
    if (!around.has_value()) {
      to->Add(path);
      return;
    }
    const std::string_view guard = paths_.TakeGuard(&path);
    const size_t before = places_.PathBytesBefore(*around);
    if (before > 0) to->Add(guard);
    to->Add(path.substr(0, before));
    to->Add(StepText(*around));
    to->Add(path.substr(before));
  }

  // Returns "ProfilerStep#N/" for a row of steps.
  std::string_view StepText(size_t step) {
    if (step != step_of_text_) {
      step_text_ = kStepName + std::to_string(step_rows_.rows()[step].step.number) + "/";
      step_of_text_ = step;
    }
    return step_text_;
  }

  // Returns the number of the step around the time, if the thread drives steps or works for one
  // that does.
  std::optional<int64_t> StepAt(ThreadIndex thread, int64_t time_ns) const {
    const Step* step = steps_.At(thread, time_ns);
    return step == nullptr ? std::nullopt : std::optional<int64_t>(step->number);
  }

  // Adds a memory event. Its bytes count in the self bytes of the span around it; only an event in
  // no span has self bytes of its own, so that the column adds up.
  void AddMemoryEvent(const MemoryEvent& event) {
    const std::string_view name = MemoryEventName(event.kind);
    const Span* parent = event.parent == kNoSpan ? nullptr : &timeline_.span(event.parent);
    const std::optional<size_t> around = places_.Around(event);
    const bool is_inside = parent != nullptr || event.is_inside || around.has_value();
    const Thread& thread = timeline_.thread(event.thread);
    EventRow row;
    row.id = next_id_++;
    if (around.has_value() && places_.IsParentOf(*around, event)) {
      row.parent_id = order_.IdOfStep(*around);
    } else if (parent != nullptr) {
      row.parent_id = order_.IdOfSpan(event.parent);
    }
    row.depth = (parent != nullptr ? parent->depth + 1u : 0u) + (around.has_value() ? 1u : 0u);
    // The step may lie between the parent and the event.
    std::string path(name);
    if (parent != nullptr) {
      path = paths_.Of(parent->path);
      const bool is_quoted = form_.is_csv() && path.ends_with('"');
      path.insert(path.size() - (is_quoted ? 1 : 0), "/" + std::string(name));
    }
    row.path.Add(AddPath(path, around, &row.path));
    row.name = {name};
    row.category = {"cpu_instant_event"};
    row.scope = {"FUNCTION"};
    row.pid = Raw(thread.pid);
    row.tid = Raw(thread.tid);
    row.thread_name = {thread_names_[Raw(event.thread)]};
    row.start_ns = timeline_.ToUnixNs(event.time_ns);
    row.device_type = {DeviceTypeName(event.device_type)};
    if (event.device_index >= 0) row.device_index = event.device_index;
    row.step = StepAt(event.thread, event.time_ns);
    const int64_t bytes = event.kind == MemoryEventKind::kUsage ? event.bytes : 0;
    row.cpu_memory_bytes = event.is_cpu() ? bytes : 0;
    row.device_memory_bytes = event.is_device() ? bytes : 0;
    if (!is_inside) {
      row.self_cpu_memory_bytes = row.cpu_memory_bytes;
      row.self_device_memory_bytes = row.device_memory_bytes;
    }
    row.args = {ArgsOf(event)};
    Add(row);
  }

  std::string_view ArgsOf(const MemoryEvent& event) {
    BeginArgs("addr", event.address);
    AddArg("bytes", event.bytes);
    for (const auto& [key, total] : {std::pair("total_allocated", event.total_allocated),
                                     std::pair("total_reserved", event.total_reserved)}) {
      if (event.total_known) {
        AddArg(key, total);
      } else {
        args_end_ = PutText(args_end_, ", ");
        PutKey(key);
        args_end_ = PutText(args_end_, "null");
      }
    }
    return EndArgs();
  }

  void AddSystemEvent(const SystemEvent& event) {
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
    AddOther(row);
  }

  void AddDeviceActivity(const DeviceActivity& activity) {
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
    AddOther(row);
  }

  void AddDeviceAnnotation(const DeviceAnnotation& annotation) {
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
    AddOther(row);
  }

  // A row that is no span, with the rows around it.
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
    SpanId op = kNoSpan;  // the row whose external id it has, else:
    uint64_t external_id = 0;
    std::string args;
    std::optional<ThreadIndex> thread;  // nullopt: that of its parent
    SpanEnd end = SpanEnd::kReturn;
    // The names of the rows between it and its parent, the innermost first, and the id of that.
    std::vector<std::string> between;
    uint64_t between_id = 0;
  };

  void AddOther(const OtherRow& other) {
    const Span* parent = other.parent == kNoSpan ? nullptr : &timeline_.span(other.parent);
    const std::optional<size_t> around = parent != nullptr ? places_.Around(*parent) : std::nullopt;
    EventRow row;
    row.id = next_id_++;
    if (!other.between.empty()) {
      row.parent_id = other.between_id;
    } else if (parent != nullptr) {
      row.parent_id = order_.IdOfSpan(other.parent);
    }
    const uint32_t depth =
        (parent != nullptr ? parent->depth + 1u : 0u) + (around.has_value() ? 1u : 0u);
    row.depth = depth + other.between.size();
    const std::string name = form_.Cell(other.name);
    const std::string end_of_path = EndOfPath(other, parent == nullptr && !around.has_value());
    if (parent == nullptr && other.between.empty()) {
      row.path.Add(name);
    } else {
      AddOtherPath(parent, around, end_of_path, &row.path);
    }
    row.name = {name};
    row.category = {other.category};
    // Activities of the kernel have no RecordScope.
    if (!other.thread.has_value()) row.scope = {"FUNCTION"};
    row.pid = Raw(other.pid);
    if (Raw(other.tid) != 0) row.tid = Raw(other.tid);
    std::optional<ThreadIndex> thread = other.thread;
    if (!thread.has_value() && parent != nullptr) thread = parent->thread;
    if (thread.has_value()) row.thread_name = {thread_names_[Raw(*thread)]};
    row.start_ns = timeline_.ToUnixNs(other.start_ns);
    row.duration_ns = row.self_ns = other.duration_ns;
    row.device_type = {other.is_device ? "CUDA" : kCpu};
    if (other.device != kNowhere) row.device_index = other.device;
    if (other.stream != kNowhere) row.stream = other.stream;
    if (other.correlation != 0) row.correlation_id = other.correlation;
    const uint64_t external_id =
        other.op == kNoSpan ? other.external_id : step_rows_.NumberOf(other.op) + 1;
    if (external_id != 0) row.external_id = external_id;
    const int64_t step_ns =
        other.thread.has_value() || parent == nullptr ? other.start_ns : parent->start_ns;
    if (thread.has_value()) row.step = StepAt(*thread, step_ns);
    // The kernel's activity in a span has the span's place in Python.
    if (other.thread.has_value() && parent != nullptr) {
      SetPython(python_cells_.Again(other.parent), &row);
    }
    std::string args;
    if (!other.args.empty()) args = form_.Cell("{" + other.args + "}");
    row.args = {args};
    row.end = {SpanEndName(other.end)};
    Add(row);
  }

  // Adds the path of such a row, which is always quoted.
  void AddOtherPath(const Span* parent, const std::optional<size_t>& around, std::string_view end,
                    PathPieces* to) {
    std::string_view path = parent == nullptr ? std::string_view() : paths_.Of(parent->path);
    if (form_.is_csv() && path.starts_with('"')) path = path.substr(1, path.size() - 2);
    to->Add(form_.quote());
    AddInner(path, around, to);
    if (parent != nullptr) to->Add("/");
    to->Add(end);
  }

  // Returns the names after that of the row's parent, and the quote behind them.
  std::string EndOfPath(const OtherRow& row, bool is_whole) const {
    std::string text;
    if (is_whole && !row.between.empty() && form_.NeedsGuard(row.between.back())) {
      text.push_back(kCsvGuard);
    }
    for (size_t i = row.between.size(); i-- > 0;) text += form_.Escaped(row.between[i]) + "/";
    return text + form_.Escaped(row.name) + std::string(form_.quote());
  }

  struct LabelTexts {
    std::string name;
    std::string overload_name;
    std::string_view category;
    std::string_view scope;
  };

  struct InputTexts {
    std::string shapes;
    std::string types;
    std::string strides;
    std::string concrete;
    bool are_made = false;
  };

  const Timeline& timeline_;
  const Steps& steps_;
  const StepRows& step_rows_;
  const CellForm form_;
  const absl::FunctionRef<bool(const EventRow&)> add_;
  bool is_wanted_ = true;
  EventOrder order_;
  SpanFlops flops_;
  const StepPlaces places_;
  PathCells paths_;
  PythonCells python_cells_;
  const bool has_memory_ = timeline_.has_memory();
  uint64_t next_id_ = 0;
  size_t next_step_ = 0;
  EventRow span_row_;
  std::vector<LabelTexts> label_texts_;    // by LabelId
  std::vector<std::string> thread_names_;  // by ThreadIndex
  std::vector<InputTexts> input_texts_;    // by InputsId
  std::vector<std::string> script_args_;   // by ScriptId
  size_t step_of_text_ = SIZE_MAX;
  std::string step_text_;
  char args_[256];
  char* args_end_ = args_;
};

}  // namespace

void ForEachEventRow(const Timeline& timeline, const Steps& steps, const StepRows& step_rows,
                     CellForm form, absl::FunctionRef<bool(const EventRow&)> add,
                     std::vector<bool>* used_stacks) {
  EventRows(timeline, steps, step_rows, form, add, used_stacks).Run();
}

}  // namespace proftrace
