#include "userspace/aggregate/key_averages.h"

#include "userspace/aggregate/bound_stacks.h"
#include "userspace/aggregate/flops.h"
#include "userspace/aggregate/memory_sums.h"
#include "userspace/aggregate/stack_groups.h"
#include "userspace/aggregate/step_memory.h"
#include "userspace/base/demangle.h"
#include "userspace/base/saturating.h"
#include "userspace/model/torch_rules.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace proftrace {
namespace {

// Rows; beyond this number rows are put together.
constexpr size_t kMostKeyAverages = size_t{1} << 16;

constexpr uint16_t kManyChildren =
    std::numeric_limits<uint16_t>::max();  // Span::child_count stays there

// torch's _rewrite_name(with_wildcard=True): __cxa_demangle on everything longer than one byte,
// then the wildcard.
std::string RowName(const std::string& name) {
  if (name.starts_with("ProfilerStep#")) return "ProfilerStep*";
  if (name.size() < 2 || name.find('\0') != std::string::npos) return name;
  return Demangle(name).value_or(name);
}

// The facts about a label that grouping needs.
struct LabelEntry {
  uint32_t row = 0;
  uint32_t name = 0;  // equal for labels whose row names are equal
  bool is_filtered = false;
};

// One span as it is added to a row.
struct Occurrence {
  SpanId id = kNoSpan;
  uint32_t row = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  int64_t self_ns = 0;
  int64_t device_ns = 0;        // of its own kernels and copies
  int64_t device_total_ns = 0;  // and of its children's
  SpanMemory memory;
  SystemSums system;
  int64_t flops = 0;
  bool is_async = false;
  bool is_top_level = false;
  bool is_complete = false;
};

// The sums of children, which are visited first, for a parent that is visited later.
struct Pending {
  int64_t self_ns = 0;    // change of the self time, where steps are among the children
  int64_t device_ns = 0;  // device time of its children
  int64_t children = 0;   // change of the number of direct children, in that case
  SpanMemory memory;      // change of the self memory, in that case
  bool has_candidate = false;
  bool is_crowded = false;  // more than one candidate: none of them is an only child
  Occurrence candidate;  // a child of the span's own name: folded into it if it is the only child
};

SystemSums SelfOf(const SpanSystem& span) {
  return {span.self_off_cpu_ns, span.self_calls, span.self_faults, span.is_unknown != 0};
}

struct RowSums {
  KeyAverage average;
  int64_t first_start_ns = std::numeric_limits<int64_t>::max();
  int64_t first_end_ns = 0;
  SpanId first_id = kNoSpan;
  uint32_t number = 0;  // an index into rows_ as it was before they were sorted
};

class KeyAverager {
 public:
  KeyAverager(const Timeline& timeline, const KeyAveragesOptions& options, const StepRows& steps)
      : timeline_(timeline),
        steps_(steps),
        flops_(timeline),
        shares_(options.windows),
        threads_(options.threads) {
    result_.grouped_by_overload_name = options.group_by_overload_name;
    result_.grouped_by_input_shape = options.group_by_input_shape;
    if (options.group_by_input_shape) NumberShapes();
    result_.grouped_by_stack_n = options.group_by_stack_n;
    if (options.group_by_stack_n > 0) stacks_.emplace(timeline, options.group_by_stack_n);
    result_.has_memory = timeline.has_memory();
    result_.has_device_records = timeline.has_device_records();
    result_.has_flops = timeline.info().with_flops;
    result_.system = timeline.info().system;
    absl::flat_hash_map<std::string, uint32_t> rows;
    absl::flat_hash_map<std::string, uint32_t> names;
    labels_.reserve(timeline.labels().size());
    for (const Label& label : timeline.labels()) {
      RowSums sums;
      sums.average.name = RowName(label.name);
      sums.average.is_user_annotation = label.category == Category::kUserAnnotation;
      if (options.group_by_overload_name) sums.average.overload_name = label.overload_name;
      std::string key = sums.average.name;
      key.push_back('\0');
      key += sums.average.overload_name;
      key.push_back(sums.average.is_user_annotation ? '\1' : '\0');

      LabelEntry entry;
      entry.is_filtered = IsLeftOutOfEvents(label.name);
      entry.name =
          names.try_emplace(sums.average.name, static_cast<uint32_t>(names.size())).first->second;
      const auto [it, inserted] = rows.try_emplace(key, static_cast<uint32_t>(rows_.size()));
      entry.row = it->second;
      if (inserted) rows_.push_back(std::move(sums));
      labels_.push_back(entry);
    }
    has_rows_.resize(timeline.threads().size());
  }

  KeyAverages Run() {
    PutStepsInTree();
    const SpanStore& spans = timeline_.spans();
    for (uint32_t chunk = spans.chunk_count(); chunk-- > 0;) {
      const uint32_t first = chunk * SpanStore::kChunkItems;
      const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
      for (uint32_t index = last; index-- > first;) Visit(SpanId{index}, spans.at(index));
      spans.Release(chunk);
    }
    AddSteps();
    if (result_.has_device_records) AddDeviceRows();
    if (result_.has_memory && threads_ == nullptr) AddMemoryRows();
    return Finish();
  }

 private:
  // Gives inputs numbers that are equal for equal shapes. A span without inputs has 0.
  void NumberShapes() {
    absl::flat_hash_map<std::string_view, uint32_t> numbers;
    shapes_.push_back("[]");
    for (const OperatorInputs& inputs : timeline_.inputs()) {
      const std::string_view text = inputs.shapes.empty() ? shapes_[0] : inputs.shapes;
      const auto [it, inserted] = numbers.try_emplace(text, static_cast<uint32_t>(numbers.size()));
      if (it->second >= shapes_.size()) shapes_.push_back(text);
      shape_numbers_.push_back(it->second);
    }
  }

  // Returns the row of a span, whose label has the row `row`.
  uint32_t RowOf(uint32_t row, SpanId id) {
    if (result_.grouped_by_input_shape) {
      const uint32_t inputs = Raw(timeline_.columns().inputs.at(id));
      const uint32_t shape = inputs < shape_numbers_.size() ? shape_numbers_[inputs] : 0;
      const auto [part, is_new] = PartOf(row, shape, &shape_rows_);
      if (is_new) rows_[part].average.input_shapes = shapes_[shape];
      row = part;
    }
    if (stacks_.has_value()) {
      const uint32_t stack = stacks_->Of(timeline_.stack_of(id));
      const auto [part, is_new] = PartOf(row, stack, &stack_rows_);
      if (is_new) rows_[part].average.stack = stacks_->Frames(stack);
      row = part;
    }
    return row;
  }

  // Returns the row for the part of `row` with the number `group`, and whether it was made by this
  // call.
  std::pair<uint32_t, bool> PartOf(uint32_t row, uint32_t group,
                                   absl::flat_hash_map<uint64_t, uint32_t>* parts) {
    const uint64_t key = static_cast<uint64_t>(row) << 32 | group;
    const auto [it, inserted] = parts->try_emplace(key, static_cast<uint32_t>(rows_.size()));
    if (inserted) {
      RowSums sums;
      sums.average.name = rows_[row].average.name;
      sums.average.overload_name = rows_[row].average.overload_name;
      sums.average.input_shapes = rows_[row].average.input_shapes;
      sums.average.is_user_annotation = rows_[row].average.is_user_annotation;
      rows_.push_back(std::move(sums));
    }
    return {it->second, inserted};
  }

  bool IsChosen(ThreadIndex thread) const {
    return threads_ == nullptr || (*threads_)[Raw(thread)];
  }
  // Returns whether a chosen thread asked for the device's work.
  bool IsChosen(const DeviceActivity& activity) const {
    if (threads_ == nullptr) return true;
    const SpanId asker = activity.call != kNoSpan ? activity.call : activity.op;
    return asker != kNoSpan && IsChosen(timeline_.span(asker).thread);
  }

  const LabelEntry& EntryOf(const Span& span) const { return labels_[Raw(span.label)]; }
  Pending TakePending(SpanId id) {
    if (pending_.empty()) return {};
    const auto it = pending_.find(Raw(id));
    if (it == pending_.end()) return {};
    const Pending pending = it->second;
    pending_.erase(it);
    return pending;
  }

  void Visit(SpanId id, const Span& span) {
    const LabelEntry& entry = EntryOf(span);
    const Pending mine = TakePending(id);
    if (entry.is_filtered || !IsChosen(span.thread)) return;
    if (span.is_complete()) has_rows_[Raw(span.thread)] = true;

    Occurrence occurrence;
    occurrence.id = id;
    occurrence.row = RowOf(entry.row, id);
    occurrence.start_ns = span.start_ns;
    occurrence.duration_ns = span.duration_ns;
    occurrence.self_ns = SaturatingSum(span.self_ns, mine.self_ns);
    if (!span.is_async) {
      occurrence.device_ns = timeline_.columns().device_ns.at(id);
      occurrence.device_total_ns = SaturatingSum(occurrence.device_ns, mine.device_ns);
      if (span.parent != kNoSpan && occurrence.device_total_ns != 0) {
        int64_t& children_ns = pending_[Raw(span.parent)].device_ns;
        children_ns = SaturatingSum(children_ns, occurrence.device_total_ns);
      }
    }
    occurrence.memory = timeline_.columns().memory.at(id);
    AddSelf(mine.memory, &occurrence.memory);
    // An async span has no self time, so it has no self times of the kernel either.
    if (!span.is_async) occurrence.system = SelfOf(timeline_.columns().system.at(id));
    const int64_t off_ns = occurrence.system.self_off_cpu_ns;
    occurrence.system.self_off_cpu_ns =
        std::clamp<int64_t>(off_ns, 0, std::max<int64_t>(0, occurrence.self_ns));
    occurrence.flops = flops_.Of(id, span);
    occurrence.is_async = span.is_async;
    const bool is_in_step = IsInStep(span, occurrence.device_total_ns);
    occurrence.is_top_level = span.parent == kNoSpan && !is_in_step;
    occurrence.is_complete = span.is_complete();

    if (!span.is_complete()) ++result_.incomplete_spans;
    if (mine.has_candidate) {
      const bool is_only_child =
          span.child_count != kManyChildren && span.child_count + mine.children == 1;
      // A parent whose own times are not known cannot stand for its child.
      if (is_only_child && span.is_complete()) {
        occurrence.self_ns = SaturatingSum(occurrence.self_ns, mine.candidate.self_ns);
        occurrence.device_ns = SaturatingSum(occurrence.device_ns, mine.candidate.device_ns);
        AddSelf(mine.candidate.memory, &occurrence.memory);
        occurrence.system.Add(mine.candidate.system);
      } else {
        Count(mine.candidate);
      }
    }
    if (span.parent != kNoSpan && EntryOf(timeline_.span(span.parent)).name == entry.name) {
      Defer(span.parent, occurrence);
    } else {
      Count(occurrence);
    }
  }

  // Makes each step a child of its own parent, instead of the spans whose parent the step is.
  void PutStepsInTree() {
    if (steps_.rows().empty()) return;
    step_memory_ = StepMemory(timeline_, steps_);
    for (size_t i = 0; i < steps_.rows().size(); ++i) {
      const StepRows::Row& row = steps_.rows()[i];
      if (row.parent == kNoSpan) continue;
      Pending& around = pending_[Raw(row.parent)];
      around.self_ns = SaturatingDifference(around.self_ns, row.self_ns);
      ++around.children;
      AddSelf({0, SaturatingDifference(0, step_memory_[i].self_cpu_bytes), 0,
               SaturatingDifference(0, step_memory_[i].self_device_bytes)},
              &around.memory);
    }
  }

  // Returns whether a step is the parent of a span, and counts the span there.
  bool IsInStep(const Span& span, int64_t device_ns) {
    if (!steps_.ParentOf(span).has_value()) return false;
    in_steps_ns_ = SaturatingSum(in_steps_ns_, span.duration_ns);
    device_in_steps_ns_ = SaturatingSum(device_in_steps_ns_, device_ns);
    return true;
  }

  // The row of the steps, which are annotations (torch/profiler/profiler.py, step()).
  void AddSteps() {
    if (steps_.rows().empty()) return;
    RowSums sums;
    sums.average.name = "ProfilerStep*";
    if (result_.grouped_by_input_shape) sums.average.input_shapes = "[]";
    sums.average.is_user_annotation = true;
    for (const StepRows::Row& row : steps_.rows()) {
      ++sums.average.count;
      sums.average.is_top_level |= row.parent == kNoSpan;
      sums.average.cpu_time_total_ns =
          SaturatingSum(sums.average.cpu_time_total_ns, row.step.end_ns - row.step.start_ns);
    }
    sums.average.self_cpu_time_total_ns =
        SaturatingSum(sums.average.cpu_time_total_ns, -in_steps_ns_);
    sums.average.device_time_total_ns = device_in_steps_ns_;
    sums.average.system.is_unknown = true;  // the time between its spans is not looked at
    for (const SpanMemory& memory : step_memory_) AddAll(memory, &sums.average.memory);
    const Step& first = steps_.rows().front().step;
    sums.first_start_ns = first.start_ns;
    sums.first_end_ns = first.end_ns;
    sums.first_id = SpanId{0};
    rows_.push_back(std::move(sums));
  }

  // Leaves `occurrence` to its parent, because only the visit of the parent shows whether it is
  // folded into that.
  void Defer(SpanId parent, const Occurrence& occurrence) {
    Pending& waiting = pending_[Raw(parent)];
    if (waiting.is_crowded) {
      Count(occurrence);
    } else if (waiting.has_candidate) {
      Count(waiting.candidate);
      Count(occurrence);
      waiting.has_candidate = false;
      waiting.is_crowded = true;
    } else {
      waiting.candidate = occurrence;
      waiting.has_candidate = true;
    }
  }

  void Count(const Occurrence& occurrence) {
    if (!occurrence.is_complete) return;
    RowSums& row = rows_[occurrence.row];
    ++row.average.count;
    row.average.cpu_time_total_ns =
        SaturatingSum(row.average.cpu_time_total_ns, occurrence.duration_ns);
    row.average.self_cpu_time_total_ns =
        SaturatingSum(row.average.self_cpu_time_total_ns, occurrence.self_ns);
    row.average.device_time_total_ns =
        SaturatingSum(row.average.device_time_total_ns, occurrence.device_total_ns);
    row.average.self_device_time_total_ns =
        SaturatingSum(row.average.self_device_time_total_ns, occurrence.device_ns);
    AddAll(occurrence.memory, &row.average.memory);
    row.average.system.Add(occurrence.system);
    row.average.flops = SaturatingSum(row.average.flops, occurrence.flops);
    shares_.Add(occurrence.start_ns, occurrence.row,
                {1, occurrence.self_ns, occurrence.duration_ns, occurrence.device_ns});
    NoteFirst(occurrence, &row);
  }

  // Notes the facts of a group, which are those of its first span.
  static void NoteFirst(const Occurrence& occurrence, RowSums* sums) {
    RowSums& row = *sums;
    const int64_t end_ns = occurrence.start_ns + occurrence.duration_ns;
    // torch sorts events by start, then the longer first; the sort is stable.
    const bool is_earlier = occurrence.start_ns != row.first_start_ns
                                ? occurrence.start_ns < row.first_start_ns
                            : end_ns != row.first_end_ns ? end_ns > row.first_end_ns
                                                         : Raw(occurrence.id) < Raw(row.first_id);
    if (!is_earlier) return;
    row.first_start_ns = occurrence.start_ns;
    row.first_end_ns = end_ns;
    row.first_id = occurrence.id;
    row.average.is_async = occurrence.is_async;
    row.average.is_top_level = occurrence.is_top_level;
  }

  // Adds work of a device, or an overhead of CUPTI, which is a row of the CPU.
  void AddToDeviceRow(size_t row, int64_t start_ns, int64_t duration_ns) {
    RowSums& sums = rows_[row];
    ++sums.average.count;
    int64_t& total_ns =
        sums.average.is_device ? sums.average.device_time_total_ns : sums.average.cpu_time_total_ns;
    int64_t& self_ns = sums.average.is_device ? sums.average.self_device_time_total_ns
                                              : sums.average.self_cpu_time_total_ns;
    total_ns = SaturatingSum(total_ns, duration_ns);
    self_ns = SaturatingSum(self_ns, duration_ns);
    Occurrence occurrence;
    occurrence.start_ns = start_ns;
    occurrence.duration_ns = duration_ns;
    occurrence.is_top_level = true;
    const bool is_device = sums.average.is_device;
    shares_.Add(
        start_ns, static_cast<uint32_t>(row),
        {1, is_device ? 0 : duration_ns, is_device ? 0 : duration_ns, is_device ? duration_ns : 0});
    NoteFirst(occurrence, &sums);
  }

  size_t NewDeviceRow(const std::string& name, bool is_device) {
    RowSums sums;
    sums.average.name = RowName(name);
    sums.average.is_device = is_device;
    if (result_.grouped_by_input_shape) sums.average.input_shapes = "[]";
    rows_.push_back(std::move(sums));
    return rows_.size() - 1;
  }

  void AddDeviceRows() {
    // The rows of work and of overhead, by DeviceNameId.
    std::vector<std::optional<size_t>> rows[2];
    for (auto& by_name : rows) by_name.resize(timeline_.device_names().size());
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size(); ++i) {
      const DeviceActivity& activity = activities.at(i);
      const bool is_device = IsDeviceWork(activity.kind);
      if (!is_device && activity.kind != DeviceActivityKind::kOverhead) continue;
      if (!IsChosen(activity)) continue;
      std::optional<size_t>& row = rows[is_device ? 0 : 1][Raw(activity.name)];
      if (!row.has_value()) row = NewDeviceRow(timeline_.device_name(activity.name), is_device);
      AddToDeviceRow(*row, activity.start_ns, activity.duration_ns);
      NoteProcess(activity.pid);
    }
    absl::flat_hash_map<std::string, size_t> annotation_rows;
    for (const DeviceAnnotation& annotation : steps_.DeviceAnnotations(timeline_)) {
      if (threads_ != nullptr) break;  // rows of several threads cannot be split
      const std::string name = RowName(steps_.NameOf(timeline_, annotation));
      const auto [it, inserted] = annotation_rows.try_emplace(name, rows_.size());
      if (inserted) {
        NewDeviceRow(name, true);
        rows_.back().average.is_user_annotation = true;
      }
      AddToDeviceRow(it->second, annotation.start_ns, annotation.end_ns - annotation.start_ns);
    }
  }

  // Adds rows for memory events that lie in no span and for failed allocations, as torch does.
  void AddMemoryRows() {
    RowSums rows[2];
    rows[0].average.name = MemoryEventName(MemoryEventKind::kUsage);
    rows[1].average.name = MemoryEventName(MemoryEventKind::kOutOfMemory);
    const MemoryEventStore& events = timeline_.memory_events();
    for (uint32_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = events.at(i);
      if (event.is_device() && result_.memory_device == 0) {
        result_.memory_device = event.device_type;
      }
      const bool is_usage = event.kind == MemoryEventKind::kUsage;
      const bool is_inside = event.parent != kNoSpan || event.is_inside;
      if (is_usage && (is_inside || StepOf(event, steps_).has_value())) continue;
      RowSums& row = rows[is_usage ? 0 : 1];
      has_rows_[Raw(event.thread)] = true;
      ++row.average.count;
      SpanMemory memory;
      if (is_usage && event.is_cpu()) memory.cpu_bytes = memory.self_cpu_bytes = event.bytes;
      if (is_usage && event.is_device()) {
        memory.device_bytes = memory.self_device_bytes = event.bytes;
      }
      AddAll(memory, &row.average.memory);
      Occurrence occurrence;
      occurrence.start_ns = event.time_ns;
      occurrence.is_top_level = event.parent == kNoSpan;
      NoteFirst(occurrence, &row);
    }
    for (RowSums& row : rows) {
      if (result_.grouped_by_input_shape) row.average.input_shapes = "[]";
      rows_.push_back(std::move(row));
    }
  }

  void NoteProcess(Pid pid) {
    if (result_.processes.empty() || result_.processes.back() != pid) {
      result_.processes.push_back(pid);
    }
  }

  void FindProcesses() {
    for (size_t i = 0; i < has_rows_.size(); ++i) {
      if (has_rows_[i]) NoteProcess(timeline_.threads()[i].pid);
    }
    std::vector<Pid>& pids = result_.processes;
    std::sort(pids.begin(), pids.end(), [](Pid a, Pid b) { return Raw(a) < Raw(b); });
    pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  }

  // Bounds the number of rows where names never repeat: the rows with the least self time become
  // one.
  void BoundRows() {
    if (rows_.size() <= kMostKeyAverages) return;
    const auto own_ns = [](const RowSums& row) {
      return SaturatingSum(row.average.self_cpu_time_total_ns,
                           row.average.self_device_time_total_ns);
    };
    std::stable_sort(rows_.begin(), rows_.end(),
                     [&](const RowSums& a, const RowSums& b) { return own_ns(a) > own_ns(b); });
    for (const bool is_device : {false, true}) {
      RowSums others;
      uint64_t count = 0;
      others.average.is_device = is_device;
      others.average.is_user_annotation = is_device;  // until one is none
      for (size_t i = kMostKeyAverages; i < rows_.size(); ++i) {
        if (rows_[i].average.is_device != is_device) continue;
        ++count;
        AddOther(rows_[i], &others);
        rows_[i].average.count = 0;
      }
      if (count == 0) continue;
      others.number = std::numeric_limits<uint32_t>::max();
      others.average.name = OthersName(count);
      if (result_.grouped_by_input_shape) others.average.input_shapes = "[]";
      rows_.push_back(std::move(others));
    }
    std::erase_if(rows_, [](const RowSums& row) { return row.average.count == 0; });
  }

  static void AddOther(const RowSums& row, RowSums* others) {
    const KeyAverage& more = row.average;
    KeyAverage& sum = others->average;
    sum.count += more.count;
    const auto add = [](int64_t ns, int64_t* total) { *total = SaturatingSum(*total, ns); };
    add(more.cpu_time_total_ns, &sum.cpu_time_total_ns);
    add(more.self_cpu_time_total_ns, &sum.self_cpu_time_total_ns);
    add(more.device_time_total_ns, &sum.device_time_total_ns);
    add(more.self_device_time_total_ns, &sum.self_device_time_total_ns);
    add(more.flops, &sum.flops);
    AddAll(more.memory, &sum.memory);
    sum.system.Add(more.system);
    sum.is_user_annotation &= more.is_user_annotation;
    sum.is_top_level |= more.is_top_level;
    others->first_start_ns = std::min(others->first_start_ns, row.first_start_ns);
  }

  KeyAverages Finish() {
    FindProcesses();
    const size_t numbers = rows_.size();
    for (uint32_t i = 0; i < numbers; ++i) rows_[i].number = i;
    std::erase_if(rows_, [](const RowSums& row) { return row.average.count == 0; });
    BoundRows();
    std::sort(rows_.begin(), rows_.end(), [](const RowSums& a, const RowSums& b) {
      if (a.first_start_ns != b.first_start_ns) return a.first_start_ns < b.first_start_ns;
      if (a.first_end_ns != b.first_end_ns) return a.first_end_ns > b.first_end_ns;
      return Raw(a.first_id) < Raw(b.first_id);
    });
    result_.rows.reserve(rows_.size());
    std::vector<std::optional<uint32_t>> new_numbers(numbers);
    for (RowSums& row : rows_) {
      if (row.number < numbers) new_numbers[row.number] = result_.rows.size();
      result_.self_cpu_time_total_ns =
          SaturatingSum(result_.self_cpu_time_total_ns, row.average.self_cpu_time_total_ns);
      if (row.average.is_device && !row.average.is_user_annotation) {
        result_.self_device_time_total_ns =
            SaturatingSum(result_.self_device_time_total_ns, row.average.self_device_time_total_ns);
      }
      result_.rows.push_back(std::move(row.average));
    }
    result_.by_window = shares_.Take(new_numbers);
    return std::move(result_);
  }

  const Timeline& timeline_;
  const StepRows& steps_;
  SpanFlops flops_;
  WindowShares shares_;
  const std::vector<bool>* threads_;
  std::vector<SpanMemory> step_memory_;  // by row of steps_
  int64_t in_steps_ns_ = 0;              // of spans that a step is the parent of
  int64_t device_in_steps_ns_ = 0;
  std::vector<LabelEntry> labels_;
  std::vector<RowSums> rows_;
  std::vector<bool> has_rows_;                          // by ThreadIndex
  std::vector<std::string_view> shapes_;                // by their numbers
  std::vector<uint32_t> shape_numbers_;                 // by InputsId
  absl::flat_hash_map<uint64_t, uint32_t> shape_rows_;  // by the label's row and the shapes
  std::optional<StackGroups> stacks_;                   // where grouped by them
  absl::flat_hash_map<uint64_t, uint32_t> stack_rows_;  // by the row and the stack's group
  absl::flat_hash_map<uint32_t, Pending> pending_;
  KeyAverages result_;
};

}  // namespace

KeyAverages BuildKeyAverages(const Timeline& timeline, const KeyAveragesOptions& options,
                             const StepRows& steps) {
  return KeyAverager(timeline, options, steps).Run();
}

}  // namespace proftrace
