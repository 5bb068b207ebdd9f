#include "exporters/traces/chrome_trace.h"

#include <absl/base/attributes.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "exporters/args/args_text.h"
#include "exporters/args/collective_args.h"
#include "exporters/args/distributed_info.h"
#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/traces/call_stacks.h"
#include "exporters/traces/chrome_device_rows.h"
#include "exporters/traces/chrome_python_rows.h"
#include "exporters/traces/chrome_rows.h"
#include "exporters/traces/chrome_system_rows.h"
#include "exporters/traces/open_slices.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/midnight.h"

namespace proftrace {
namespace {

constexpr int kSpansSortIndex = 536'870'912;  // Kineto's place for the "Spans" process
constexpr size_t kMaxEventNumbersBytes = 11 * kMaxNumberBytes + 380;
// Top-level keys of ours or Kineto's. --metadata must not repeat them, because readers of JSON
// would take either value.
constexpr std::array<std::string_view, 18> kReservedKeys = {"schemaVersion",
                                                            "deviceProperties",
                                                            "cupti_version",
                                                            "cuda_runtime_version",
                                                            "record_shapes",
                                                            "profile_memory",
                                                            "cuda_driver_version",
                                                            "with_stack",
                                                            "with_flops",
                                                            "with_modules",
                                                            "trace_id",
                                                            "host_name",
                                                            "proftrace",
                                                            "distributedInfo",
                                                            "displayTimeUnit",
                                                            "baseTimeNanoseconds",
                                                            "traceEvents",
                                                            "traceName"};

class ChromeTraceWriter {
 public:
  ChromeTraceWriter(const Timeline& timeline, const StepRows& steps, std::optional<int> rank,
                    const PythonRows& python, bool cuda_sync_rows, ByteSink& sink)
      : timeline_(timeline),
        steps_(steps),
        rank_(rank),
        python_(python),
        call_stacks_(timeline),
        writer_(sink),
        base_ns_(MidnightBefore(timeline.ToUnixNs(timeline.info().window.start_ns))),
        offset_ns_(timeline.info().window.monotonic_to_unix_ns - base_ns_),
        device_rows_(
            timeline, steps, [this](Pid pid) { return Has(pid); }, offset_ns_, cuda_sync_rows,
            &writer_),
        python_rows_(timeline, python, thread_parts_, FirstPythonNumber(), &writer_),
        system_rows_(timeline, thread_parts_, offset_ns_, FirstSystemNumber(), &writer_) {
    for (const Label& label : timeline.labels()) {
      label_parts_.push_back(LabelPart(CategoryName(label.category), label.name));
    }
    script_parts_.resize(1);
    for (size_t i = 1; i < timeline.scripts().size(); ++i) {
      JsonText json(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers);
      json.Key(kScriptArg).String(timeline.scripts()[i]);
      script_parts_.push_back(json.Done().Take());
    }
    for (const Thread& thread : timeline.threads()) {
      JsonText json(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers);
      json.Key("pid").Integer(Raw(thread.pid));
      json.Key("tid").Integer(Raw(thread.tid));
      thread_parts_.push_back(json.Done().Take());
    }
    open_.resize(timeline.threads().size());
    for (const Target& target : timeline.info().targets) {
      if (rank.has_value() && target.rank == rank) pids_.insert(Raw(target.pid));
    }
  }

  absl::Status Run(std::span<const DeviceIdle> idle) {
    WriteHead();
    WriteProcesses();
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = 0; chunk < spans.chunk_count() && writer_.ok(); ++chunk) {
      const uint32_t first = chunk * SpanStore::kChunkItems;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
      for (uint32_t index = first; index < last; ++index) {
        const Span& span = spans.at(index);
        WriteStepsBefore(index);
        WriteMemoryEvents(span.start_ns);
        WriteSystemRowsBefore(span.start_ns);
        WriteSpan(index, span);
      }
      spans.Release(chunk);
    }
    WriteStepsBefore(spans.size());
    WriteMemoryEvents(std::numeric_limits<int64_t>::max());
    WriteSystemRowsBefore(std::numeric_limits<int64_t>::max());
    system_rows_.WriteLastStates();
    device_rows_.WriteRows();
    for (const DeviceIdle& device : idle) device_rows_.WriteIdle(device);
    WriteTail();
    return document_.Done().Flush();
  }

 private:
  // Return whether the trace has the rows of the process, or of the thread.
  bool Has(Pid pid) const { return !rank_.has_value() || pids_.contains(Raw(pid)); }
  bool Has(ThreadIndex thread) const { return Has(timeline_.threads()[Raw(thread)].pid); }

  // Returns the members that all rows of a name begin with.
  static std::string LabelPart(std::string_view category, std::string_view name) {
    JsonText json(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers);
    json.Key("cat").Word(category);
    json.Key("name").String(name);
    return json.Done().Take();
  }

  void WriteHead() {
    const RecordingInfo& info = timeline_.info();
    document_.BeginObject();
    document_.Line().Key("schemaVersion").Integer(1);
    document_.Line();
    device_rows_.WriteProperties(&document_);
    device_rows_.WriteVersions(&document_);
    const auto flag = [this](std::string_view key, bool value) {
      document_.Line().Key(key).Integer(value ? 1 : 0);
    };
    flag("record_shapes", timeline_.has_inputs());
    flag("profile_memory", timeline_.has_memory());
    flag("with_stack", timeline_.has_stacks());
    flag("with_flops", info.with_flops);
    flag("with_modules", !timeline_.python_modules().empty());
    if (const Target* ranked = RankedTarget(info, rank_); ranked != nullptr) {
      // HTA finds the rank in the lines before "traceEvents" by a regular expression that needs the
      // blank. So it comes before all keys that a user may name.
      document_.Line().Key("distributedInfo").Raw(DistributedInfo(*ranked));
    }
    if (!info.host.name.empty()) document_.Line().Key("host_name").String(info.host.name);
    OrderedJson other_metadata = OrderedJson::object();
    WriteMetadata(info, &other_metadata);
    OrderedJson ours = {{"version", ToValidUtf8(info.proftrace_version)},
                        {"tier", ToValidUtf8(info.tier)},
                        {"gpu", ToValidUtf8(info.gpu)},
                        {"ledger", LedgerJson(timeline_.ledger())},
                        {"cost", CostJson(info)},
                        {"unsupported", UnsupportedJson(info)}};
    if (timeline_.has_device_records()) ours["gpu_agent"] = GpuJson(timeline_);
    if (!other_metadata.empty()) ours["metadata"] = std::move(other_metadata);
    document_.Line().Key("proftrace").Raw(DumpedJson(ours));
    document_.Line().Key("displayTimeUnit").Word("ms");
    document_.Line().Key("baseTimeNanoseconds").Integer(base_ns_);
    document_.Line().Key("traceEvents").BeginArray();
    document_.EndLine();
  }

  // --metadata and --metadata-json as top-level keys, as torch's add_metadata and
  // add_metadata_json; keys that cannot be there go to `other`.
  void WriteMetadata(const RecordingInfo& info, OrderedJson* other) {
    absl::flat_hash_set<std::string> seen(kReservedKeys.begin(), kReservedKeys.end());
    // Keys that differ only in bytes that are no UTF-8 would be equal in JSON.
    for (const auto& [key, value] : info.metadata) {
      if (seen.insert(ToValidUtf8(key)).second) {
        document_.Line().Key(JsonEscaped(key)).String(value);
      } else {
        (*other)[ToValidUtf8(key)] = ToValidUtf8(value);
      }
    }
    for (const auto& [key, text] : info.metadata_json) {
      const std::optional<OrderedJson> json = ParseJson(text);  // nullopt: the capture is damaged
      if (seen.insert(ToValidUtf8(key)).second) {
        document_.Line().Key(JsonEscaped(key)).Raw(json ? text : JsonQuoted(text));
      } else {
        (*other)[ToValidUtf8(key)] = json.value_or(OrderedJson(ToValidUtf8(text)));
      }
    }
  }

  void WriteProcesses() {
    absl::flat_hash_set<uint32_t> named;
    for (const Target& target : timeline_.info().targets) {
      if (!Has(target.pid)) continue;
      if (named.insert(Raw(target.pid)).second) WriteProcess(Raw(target.pid), target.comm);
    }
    for (const Thread& thread : timeline_.threads()) {
      if (!Has(thread.pid)) continue;
      if (named.insert(Raw(thread.pid)).second) WriteProcess(Raw(thread.pid), thread.name);
    }
    for (const Thread& thread : timeline_.threads()) {
      if (!Has(thread.pid)) continue;
      const uint32_t pid = Raw(thread.pid);
      const uint32_t tid = Raw(thread.tid);
      std::string name = "thread " + std::to_string(tid);
      if (!thread.name.empty()) name += " (" + thread.name + ")";
      const ChromePlace place = {pid, tid, WindowStart()};
      WriteTrackText("thread_name", "name", name, place, &writer_);
      WriteTrackNumber("thread_sort_index", "sort_index", tid, place, &writer_);
    }
  }

  void WriteProcess(uint32_t pid, const std::string& name) {
    const ChromePlace place = {pid, 0, WindowStart()};
    WriteTrackText("process_name", "name", name, place, &writer_);
    WriteTrackText("process_labels", "labels", "CPU", place, &writer_);
    WriteTrackNumber("process_sort_index", "sort_index", pid, place, &writer_);
  }

  // Returns the number of the first system event, as in events.csv.
  uint64_t FirstSystemNumber() const {
    return steps_.NumberOf(SpanId{timeline_.span_count()}) + timeline_.memory_events().size();
  }

  // Returns the number of Python's first row, after all other rows that have a number in
  // events.csv.
  uint64_t FirstPythonNumber() const {
    return FirstSystemNumber() + timeline_.system_event_count() +
           timeline_.device_activities().size() + steps_.DeviceAnnotations(timeline_).size();
  }

  // Writes the rows of Python's calls that open with the row `number` and lie around it.
  ABSL_ATTRIBUTE_NOINLINE void WritePythonRowsBefore(uint64_t number) {
    for (; next_python_ < python_.size() && python_.at(next_python_).before_row <= number;
         ++next_python_) {
      const PythonRow& row = python_.at(next_python_);
      if (!Has(row.thread)) continue;
      WriteSystemRowsBefore(row.start_ns);
      const auto slice = SliceOf(row.thread, row.start_ns, row.end_ns);
      const int64_t duration_ns = row.end_ns - row.start_ns;
      python_rows_.Write(next_python_,
                         slice.value_or(OpenSlices::Slice{Ts(row.start_ns), duration_ns}));
    }
  }

  // Writes the rows of the system events that began before `until_ns`.
  void WriteSystemRowsBefore(int64_t until_ns) {
    for (; next_system_ < timeline_.system_event_count(); ++next_system_) {
      const SystemEvent& event = timeline_.system_event(next_system_);
      if (event.start_ns >= until_ns || !writer_.ok()) return;
      if (!Has(event.thread)) continue;
      if (event.kind == SystemKind::kRequest) {
        system_rows_.WriteRequest(next_system_);
        continue;
      }
      OpenSlices& open = open_[Raw(event.thread)];
      const int64_t ts_ns = Ts(event.start_ns);
      open.CloseUntil(ts_ns);
      const int64_t whole_ns = ts_ns + event.duration_ns;
      const int64_t end_ns = std::min(whole_ns, open.End().value_or(whole_ns));
      const auto slice = open.Open(ts_ns, end_ns);
      if (slice.has_value()) system_rows_.Write(next_system_, *slice, whole_ns - end_ns);
    }
  }

  int64_t Ts(int64_t time_ns) const { return std::max<int64_t>(time_ns + offset_ns_, 0); }

  // Returns the row as it is drawn within the row in which it begins, and adds it to the open rows.
  // nullopt: it does not lie in that row.
  ABSL_ATTRIBUTE_ALWAYS_INLINE std::optional<OpenSlices::Slice> SliceOf(ThreadIndex thread,
                                                                        int64_t start_ns,
                                                                        int64_t end_ns) {
    const int64_t ts_ns = Ts(start_ns);
    return open_[Raw(thread)].Open(ts_ns, ts_ns + (end_ns - start_ns));
  }

  // Writes the steps that begin before the span `index` or with it. Only annotations that began
  // before lie around steps.
  void WriteStepsBefore(uint32_t index) {
    const std::vector<StepRows::Row>& rows = steps_.rows();
    for (; next_step_ < rows.size() && rows[next_step_].before_span <= index; ++next_step_) {
      const StepRows::Row& row = rows[next_step_];
      if (!Has(row.thread)) continue;
      if (next_python_ < python_.size()) WritePythonRowsBefore(steps_.NumberOfRow(next_step_));
      Span span;
      span.start_ns = row.step.start_ns;
      span.duration_ns = row.step.end_ns - row.step.start_ns;
      span.thread = row.thread;
      span.end = SpanEnd::kReturn;
      WriteSystemRowsBefore(span.start_ns);
      WriteRow(steps_.NumberOfRow(next_step_), span,
               LabelPart("user_annotation", "ProfilerStep#" + std::to_string(row.step.number)),
               {.external_id = steps_.NumberOfRow(next_step_) + 1});
    }
  }

  void WriteSpan(uint32_t index, const Span& span) {
    if (!Has(span.thread)) return;
    const SpanId id{index};
    RowDetails details;
    details.sequence = timeline_.columns().sequence.at(id);
    details.inputs = timeline_.inputs_of(id);
    if (details.inputs != nullptr)
      details.keywords = RowKeywordArgs(timeline_, id, *details.inputs);
    details.bytes = timeline_.columns().call_bytes.at(id);
    details.call = timeline_.columns().cuda_call.at(id);
    details.call_stack = call_stacks_.Of(id);
    details.script = script_parts_[Raw(timeline_.script_of(id))];
    if (details.call.correlation != 0) {
      details.correlation = device_rows_.FirstCorrelation(timeline_.thread(span.thread).pid) +
                            details.call.correlation;
    }
    const uint64_t number = steps_.NumberOf(id);
    if (next_python_ < python_.size()) WritePythonRowsBefore(number);
    details.external_id = steps_.ExternalId(timeline_, span, number);
    const bool nests = WriteRow(number, span, label_parts_[Raw(span.label)], details);
    if (!nests && details.call.correlation != 0) device_rows_.AddUnnestedCall(id);
    const SpanSequence& sequence = details.sequence;
    if (sequence.has_arrow) WriteArrow(timeline_.span(SpanId{sequence.forward_plus_1 - 1}), span);
  }

  // Writes Kineto's flow from a forward operator to the node that it made.
  void WriteArrow(const Span& forward, const Span& backward) {
    ++arrows_;
    for (const Span* end : {&forward, &backward}) {
      const Thread& thread = timeline_.thread(end->thread);
      WriteFlow("fwdbwd", arrows_, end == &forward,
                {Raw(thread.pid), Raw(thread.tid), Ts(end->start_ns)}, &writer_);
    }
  }

  static void WriteInputs(const OperatorInputs& inputs, JsonRow* row) {
    if (!inputs.concrete.empty()) row->Key("Concrete Inputs").Raw(inputs.concrete);
    if (!inputs.types.empty()) row->Key("Input type").Raw(inputs.types);
    if (!inputs.strides.empty()) row->Key("Input Strides").Raw(inputs.strides);
    if (!inputs.dims.empty()) row->Key("Input Dims").Raw(inputs.dims);
  }

  static size_t InputBytes(const OperatorInputs* inputs) {
    if (inputs == nullptr) return 0;
    return inputs->concrete.size() + inputs->types.size() + inputs->strides.size() +
           inputs->dims.size() + 128;  // with their keys
  }

  struct RowDetails {
    uint64_t external_id = 0;  // 0 would mean "none"
    // The following members are set for some rows only.
    SpanSequence sequence = {};
    const OperatorInputs* inputs = nullptr;
    std::string keywords = {};
    uint64_t bytes = 0;  // 0 = not told
    CudaCall call = {};
    uint64_t correlation = 0;  // the row's own number in this trace; 0 = not told
    std::string_view call_stack = {};
    std::string_view script = {};
  };

  // Writes a row. Returns whether it is a slice of its thread's track.
  bool WriteRow(uint64_t index, const Span& span, const std::string& label,
                const RowDetails& details) {
    const SpanSequence& sequence = details.sequence;
    const std::string& thread = thread_parts_[Raw(span.thread)];
    const auto slice =
        span.ended_elsewhere ? std::nullopt : SliceOf(span.thread, span.start_ns, span.end_ns());
    const bool nests = slice.has_value();
    JsonRow row(ReservedText(&writer_, kMaxEventNumbersBytes + label.size() + thread.size() +
                                           InputBytes(details.inputs) + details.keywords.size() +
                                           details.call_stack.size() + details.script.size()));
    row.BeginObject();
    row.Key("ph").Word(nests ? "X" : "b");
    row.Members(label);
    row.Members(thread);
    row.Key("ts").Microseconds(nests ? slice->ts_ns : Ts(span.start_ns));
    if (nests) {
      row.Key("dur").Microseconds(slice->duration_ns);
    } else {
      row.Key("id").Integer(index + 1);
    }
    row.Key("args").BeginObject();
    if (details.external_id != 0) row.Key("External id").Integer(details.external_id);
    if (sequence.number_plus_1 != 0) {
      row.Key("Sequence number").Integer(sequence.number_plus_1 - 1);
      row.Key("Fwd thread id").Integer(sequence.forward_number);  // torch's own, 0 in forward rows
    }
    row.Key("Ev Idx").Integer(index);
    if (details.inputs != nullptr) WriteInputs(*details.inputs, &row);
    row.Members(details.keywords);
    row.Members(details.call_stack);
    row.Members(details.script);
    if (details.bytes != 0) row.Key("bytes").Integer(details.bytes);
    if (details.correlation != 0) {
      row.Key("cbid").Integer(details.call.callback);
      row.Key("correlation").Integer(details.correlation);
    }
    if (span.end != SpanEnd::kReturn) row.Key("end").Word(SpanEndName(span.end));
    row.EndObject();
    row.EndObject();
    row.Done().Commit(kChromeRowEnd);
    if (!nests) WriteAsyncEnd(index, label, thread, Ts(span.end_ns()));
    return nests;
  }

  // Writes the second event of a row that does not nest.
  void WriteAsyncEnd(uint64_t index, const std::string& label, const std::string& thread,
                     int64_t ts_ns) {
    JsonStream json(writer_);
    json.BeginObject();
    json.Key("ph").Word("e");
    json.Members(label);
    json.Members(thread);
    json.Key("ts").Microseconds(ts_ns);
    json.Key("id").Integer(index + 1);
    json.EndObject();
    json.Done().Text(kChromeRowEnd);
  }

  // Writes the memory events before `until_ns` that are not written yet.
  void WriteMemoryEvents(int64_t until_ns) {
    const MemoryEventStore& events = timeline_.memory_events();
    for (; next_memory_ < events.size(); ++next_memory_) {
      const MemoryEvent& event = events.at(next_memory_);
      if (event.time_ns >= until_ns) return;
      if (Has(event.thread)) WriteMemoryEvent(event);
    }
  }

  // Returns the device's number, which for a GPU is that of its rows in this trace.
  int64_t DeviceIdOf(const MemoryEvent& event) const {
    const int64_t index{event.device_index};
    if (event.is_cpu() || index < 0) return index;
    return device_rows_.NumberOf(timeline_.thread(event.thread).pid, static_cast<uint32_t>(index));
  }

  // Writes Kineto's instant for a memory event. A total that a loss made unknown is left out.
  void WriteMemoryEvent(const MemoryEvent& event) {
    const std::string& thread = thread_parts_[Raw(event.thread)];
    const std::string_view call_stack = call_stacks_.Of(event);
    JsonRow row(
        ReservedText(&writer_, kMaxEventNumbersBytes + thread.size() + call_stack.size() + 256));
    row.BeginObject();
    row.Key("ph").Word("i");
    row.Key("cat").Word("cpu_instant_event");
    row.Key("s").Word("t");
    row.Key("name").Word(MemoryEventName(event.kind));
    row.Members(thread);
    row.Key("ts").Microseconds(Ts(event.time_ns));
    row.Key("args").BeginObject();
    if (event.total_known) {
      row.Key("Total Reserved").Integer(event.total_reserved);
      row.Key("Total Allocated").Integer(event.total_allocated);
    }
    row.Key("Bytes").Integer(event.bytes);
    row.Key("Device Id").Integer(DeviceIdOf(event));
    row.Key("Device Type").Integer(static_cast<int>(event.device_type));
    row.Members(call_stack);
    if (event.kind == MemoryEventKind::kUsage) row.Key("Addr").Integer(event.address);
    row.Key("Ev Idx").Integer(steps_.NumberOf(SpanId{timeline_.span_count()}) + next_memory_);
    row.EndObject();
    row.EndObject();
    row.Done().Commit(kChromeRowEnd);
  }

  int64_t WindowStart() const {
    return std::max<int64_t>(timeline_.info().window.start_ns + offset_ns_, 0);
  }

  // Writes the rows that Kineto adds at the end, which TensorBoard's plugin and others look for.
  void WriteTail() {
    const Window& window = timeline_.info().window;
    const int64_t duration_ns = std::max<int64_t>(window.duration_ns, 0);
    document_.BeginObject();
    document_.Key("ph").Word("X");
    document_.Key("cat").Word("Trace");
    document_.Key("ts").Microseconds(WindowStart());
    document_.Key("dur").Microseconds(duration_ns);
    document_.Key("pid").Word("Spans");
    document_.Key("tid").Word("PyTorch Profiler");
    document_.Key("name").Word("PyTorch Profiler (0)");
    document_.Key("args").BeginObject();
    document_.Key("Op count").Integer(0);
    document_.EndObject();
    document_.EndObject();
    document_.Line().BeginObject();
    document_.Key("name").Word("process_sort_index");
    document_.Key("ph").Word("M");
    document_.Key("ts").Microseconds(WindowStart());
    document_.Key("pid").Word("Spans");
    document_.Key("tid").Integer(0);
    document_.Key("args").BeginObject();
    document_.Key("sort_index").Integer(kSpansSortIndex);
    document_.EndObject();
    document_.EndObject();
    WriteInstant("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler",
                 WindowStart());
    WriteInstant("Record Window End", "", "", WindowStart() + duration_ns);
    document_.EndLine();
    document_.EndArray();
    document_.Line().Key("traceName").String(timeline_.info().trace_name);
    document_.EndLine();
    document_.EndObject();
    document_.EndLine();
  }

  // Writes an instant of the whole trace.
  void WriteInstant(std::string_view name, std::string_view pid, std::string_view tid,
                    int64_t ts_ns) {
    document_.Line().BeginObject();
    document_.Key("name").Word(name);
    document_.Key("ph").Word("i");
    document_.Key("s").Word("g");
    document_.Key("pid").Word(pid);
    document_.Key("tid").Word(tid);
    document_.Key("ts").Microseconds(ts_ns);
    document_.EndObject();
  }

  const Timeline& timeline_;
  const StepRows& steps_;
  std::optional<int> rank_;
  absl::flat_hash_set<uint32_t> pids_;  // of that rank
  const PythonRows& python_;
  CallStacks call_stacks_;
  size_t next_step_ = 0;
  uint32_t next_python_ = 0;  // the first of Python's rows that is not written yet
  TextWriter writer_;
  JsonStream document_{writer_};
  uint32_t next_memory_ = 0;  // the first event that is not written yet
  uint32_t next_system_ = 0;  // the first one that is not written yet
  uint64_t arrows_ = 0;       // flows written
  int64_t base_ns_;
  int64_t offset_ns_;  // from CLOCK_MONOTONIC to nanoseconds since base_ns_
  ChromeDeviceRows device_rows_;
  std::vector<std::string> label_parts_;
  std::vector<std::string> script_parts_;  // by ScriptId
  std::vector<std::string> thread_parts_;
  ChromePythonRows python_rows_;
  ChromeSystemRows system_rows_;
  std::vector<OpenSlices> open_;  // by thread: its "X" rows
};

}  // namespace

absl::Status ExportChromeTrace(const Timeline& timeline, ByteSink& sink, const StepRows& steps,
                               std::optional<int> rank, std::span<const DeviceIdle> idle,
                               const PythonRows& python, bool cuda_sync_rows) {
  if (!python.status().ok()) return python.status();
  return ChromeTraceWriter(timeline, steps, rank, python, cuda_sync_rows, sink).Run(idle);
}

}  // namespace proftrace
