// The finished picture of a recording: spans per thread with parents, their labels and paths,
// threads, and the facts around them. Filled by merge::SpanBuilder through TimelineBuilder; never
// changes once Finish() has returned it, so any number of aggregators and exporters may read it
// from any thread. Exporters compute nothing on it but formatting.
//
// Spans are stored in chunks. The first ones are in memory; later ones lie in an unlinked file that
// is mapped, so that a recording of hours does not need its size in memory (ChunkStore).
//
// Facts that only some recordings have of spans are in columns beside the spans (span_columns.h).
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/model/chunk_store.h"
#include "userspace/model/ids.h"
#include "userspace/model/label.h"
#include "userspace/model/memory_event.h"
#include "userspace/model/operator_inputs.h"
#include "userspace/model/python_stack.h"
#include "userspace/model/recording.h"
#include "userspace/model/sample.h"
#include "userspace/model/span.h"
#include "userspace/model/span_columns.h"
#include "userspace/model/system_event.h"
#include "userspace/stats/ledger.h"

namespace proftrace {

struct Thread {
  Pid pid{};
  Tid tid{};
  std::string name;  // comm; empty = not known
};

// Records of a thread were lost between these two moments.
struct LossTime {
  Pid pid{};
  int64_t after_ns = 0;  // when its last record before the loss was made
  int64_t until_ns = 0;
};

// The most names in a path. The path of a deeper row has the first ones, "…" and the row's own
// name, because annotations that never end make a stack of any height, and each path would be as
// long.
inline constexpr uint32_t kMostPathLevels = 512;
inline constexpr std::string_view kCutPathName = "…";

// A node of the tree of call paths: names from the root. The root itself (kRootPath) has no label.
struct PathNode {
  PathId parent{};
  LabelId label{};
  uint32_t depth = 0;  // 0 for the root
  bool is_cut() const { return depth > kMostPathLevels; }
};

using SpanStore = ChunkStore<Span>;
using MemoryEventStore = ChunkStore<MemoryEvent>;

class Timeline {
 public:
  // Spans in the order of their start (ties: the order of their records). A span's parent has a
  // smaller id.
  uint32_t span_count() const { return spans_->size(); }
  const Span& span(SpanId id) const { return spans_->at(Raw(id)); }
  const SpanStore& spans() const { return *spans_; }

  const Label& label(LabelId id) const { return labels_[Raw(id)]; }
  const std::vector<Label>& labels() const { return labels_; }

  const PathNode& path(PathId id) const { return paths_[Raw(id)]; }
  const std::vector<PathNode>& paths() const { return paths_; }

  const Thread& thread(ThreadIndex index) const { return threads_[Raw(index)]; }
  const std::vector<Thread>& threads() const { return threads_; }

  const SpanColumns& columns() const { return *columns_; }
  // Returns the inputs that the span was called with; nullptr: they were not recorded, or torch
  // shows none for this span.
  const OperatorInputs* inputs_of(SpanId id) const {
    const InputsId inputs = columns_->inputs.at(id);
    return inputs == kNoInputs || Raw(inputs) >= inputs_.size() ? nullptr : &inputs_[Raw(inputs)];
  }
  // Returns the inputs by InputsId; the first one is kNoInputs' and empty.
  const std::vector<OperatorInputs>& inputs() const { return inputs_; }
  // Returns whether the inputs of any process were recorded.
  bool has_inputs() const {
    return std::any_of(info_.targets.begin(), info_.targets.end(),
                       [](const Target& target) { return target.inputs_recorded; });
  }

  // Returns the innermost Python frame that ran when the span began. Rows of the backward pass (a
  // node and the rows in it) have the frame of the forward operator that made the node, as in
  // torch.
  StackId stack_of(SpanId id) const { return columns_->stack.at(id); }
  // Returns the innermost frame on the span's own thread, also for rows of the backward pass.
  StackId own_stack_of(SpanId id) const {
    const StackId own = columns_->own_stack.at(id);
    if (own == kNoStack) return stack_of(id);
    return own == kNoOwnStack ? kNoStack : own;
  }
  // Returns the place in TorchScript's graphs at which the row began; kNoScript: none, or its text
  // is not known.
  ScriptId script_of(SpanId id) const {
    const ScriptId script = columns_->script.at(id);
    return Raw(script) < scripts_.size() && !scripts_[Raw(script)].empty() ? script : kNoScript;
  }
  // Returns the texts of the places by ScriptId, as torch.profiler writes them (Module Hierarchy).
  // An empty text: the place is not known.
  const std::vector<std::string>& scripts() const { return scripts_; }
  // Returns the row in which a span began, also for a span that is apart and therefore has no
  // parent. For a collective's work that another thread executes: the operator that made it.
  SpanId began_in(SpanId id) const {
    if (!span(id).is_apart) return span(id).parent;
    const uint32_t plus_1 = columns_->began_in_plus_1.at(id);
    return plus_1 == 0 ? kNoSpan : SpanId{plus_1 - 1};
  }

  // Returns the frames by StackId; a frame's parent has a smaller id.
  const std::vector<PythonFrame>& python_frames() const { return python_frames_; }
  const PythonFrame& python_frame(StackId id) const { return python_frames_[Raw(id)]; }
  const std::vector<PythonCode>& python_codes() const { return python_codes_; }
  const std::vector<PythonModule>& python_modules() const { return python_modules_; }
  // Returns whether the stacks of any process were recorded. Where they were not, kNoStack does not
  // mean that no Python ran.
  bool has_stacks() const {
    return std::any_of(info_.targets.begin(), info_.targets.end(),
                       [](const Target& target) { return target.stacks_recorded; });
  }

  // Returns the samples of all threads.
  const std::vector<Sample>& samples() const { return samples_.samples; }
  const std::vector<SampleFrame>& sample_frames() const { return samples_.frames; }
  const SampleFunction& sample_function(const SampleFrame& frame) const {
    return samples_.functions[frame.function];
  }

  // The system's events are in order of their start (--activities).
  uint32_t system_event_count() const {
    return system_.events == nullptr ? 0 : system_.events->size();
  }
  const SystemEvent& system_event(uint32_t index) const { return system_.events->at(index); }
  const SystemFile& system_file(SystemFileId id) const { return system_.files[Raw(id)]; }
  const SystemPaths& system_paths(SystemPathsId id) const { return system_.paths[Raw(id)]; }
  SystemTables system_tables() const { return {system_.files, system_.paths}; }
  // Returns whether spans have times on and off the CPU.
  bool has_sched() const { return info_.system.sched; }

  // Returns the events in order of time.
  const MemoryEventStore& memory_events() const { return *memory_events_; }
  const MemorySummary& memory_summary() const { return memory_summary_; }
  // Returns whether the memory of any process was recorded. Where it was not, a sum of 0 bytes
  // means nothing.
  bool has_memory() const {
    return std::any_of(info_.targets.begin(), info_.targets.end(),
                       [](const Target& target) { return target.memory_recorded; });
  }

  // Returns the activities in order of their start.
  const DeviceActivityStore& device_activities() const { return *device_activities_; }
  const KernelStore& kernels() const { return *kernels_; }
  // Names of device activities as they are shown; by DeviceNameId.
  const std::vector<std::string>& device_names() const { return device_names_; }
  const std::string& device_name(DeviceNameId id) const { return device_names_[Raw(id)]; }
  // Returns the annotations in order of their start.
  const std::vector<DeviceAnnotation>& device_annotations() const { return device_annotations_; }
  const std::vector<GpuDevice>& devices() const { return devices_; }  // by process, then number
  const GpuDevice* FindDevice(Pid pid, uint32_t device) const;
  const std::vector<DeviceClock>& device_clocks() const { return device_clocks_; }
  const DeviceLedger& device_ledger() const { return device_ledger_; }
  // Returns whether anything was lost that the user asked for (--strict).
  bool any_loss() const { return ledger_.AnyLoss() || device_ledger_.AnyLoss(); }
  // Returns whether records of processes that were recorded were lost. Children that could not be
  // recorded at all, of which there is no record, count for any_loss() alone.
  bool any_record_lost() const {
    Ledger of_recorded = ledger_;
    of_recorded.follow_failed = 0;
    return of_recorded.AnyLoss() || device_ledger_.AnyLoss();
  }
  // Returns whether CUPTI's records of any process were recorded. Where they were not, it is not
  // known what devices did.
  bool has_device_records() const {
    return device_ledger_.records > 0 || !info_.gpu_agents.empty();
  }

  const RecordingInfo& info() const { return info_; }
  const Ledger& ledger() const { return ledger_; }
  // Returns the times of losses in known threads, in the order in which the losses were reported.
  const std::vector<LossTime>& losses() const { return losses_; }

  // Returns a CLOCK_MONOTONIC time of this recording as nanoseconds since the Unix epoch.
  int64_t ToUnixNs(int64_t monotonic_ns) const {
    return monotonic_ns + info_.window.monotonic_to_unix_ns;
  }

 private:
  friend class TimelineBuilder;
  std::unique_ptr<SpanStore> spans_;
  std::unique_ptr<SpanColumns> columns_;
  std::unique_ptr<MemoryEventStore> memory_events_;
  MemorySummary memory_summary_;
  std::unique_ptr<DeviceActivityStore> device_activities_;
  std::unique_ptr<KernelStore> kernels_;
  std::vector<std::string> device_names_;
  std::vector<DeviceAnnotation> device_annotations_;
  std::vector<GpuDevice> devices_;
  std::vector<DeviceClock> device_clocks_;
  DeviceLedger device_ledger_;
  std::vector<OperatorInputs> inputs_;
  std::vector<PythonFrame> python_frames_ = std::vector<PythonFrame>(1);
  std::vector<PythonCode> python_codes_;
  std::vector<PythonModule> python_modules_;
  std::vector<std::string> scripts_;  // by ScriptId
  Samples samples_;
  SystemRows system_;
  std::vector<Label> labels_;
  std::vector<PathNode> paths_;
  std::vector<Thread> threads_;
  RecordingInfo info_;
  Ledger ledger_;
  std::vector<LossTime> losses_;
};

// Fills a Timeline. Single-threaded.
class TimelineBuilder {
 public:
  // `spill_directory`: where chunks past the memory limit go, if they can (OpenSpillFile()).
  explicit TimelineBuilder(const std::string& spill_directory);

  LabelId InternLabel(const Label& label);
  const Label& label(LabelId id) const { return timeline_->labels_[Raw(id)]; }
  const std::vector<Label>& labels() const { return timeline_->labels_; }
  ThreadIndex AddThread(Pid pid, Tid tid, std::string name);
  Thread& thread(ThreadIndex index) { return timeline_->threads_[Raw(index)]; }
  // Returns the path `parent` + `label`, cut as kMostPathLevels says. The same pair always gets the
  // same id.
  PathId InternPath(PathId parent, LabelId label);
  const PathNode& path(PathId id) const { return timeline_->paths_[Raw(id)]; }

  // Appends an open span. Fails when the disk for the spill is full (ExitCode::kOutputFailed).
  absl::StatusOr<SpanId> AddSpan(const Span& span);
  // Valid until Finish().
  Span& span(SpanId id) { return timeline_->spans_->at(Raw(id)); }
  uint32_t span_count() const { return timeline_->spans_->size(); }
  SpanColumns& columns() { return *timeline_->columns_; }
  // Adds events in order of time. Fails as AddSpan().
  absl::Status AddMemoryEvent(const MemoryEvent& event) {
    return timeline_->memory_events_->Append(event);
  }
  uint32_t memory_event_count() const { return timeline_->memory_events_->size(); }
  MemoryEvent& memory_event(uint32_t index) { return timeline_->memory_events_->at(index); }
  void SetInputs(std::vector<OperatorInputs> inputs) { timeline_->inputs_ = std::move(inputs); }
  // `frames`: by StackId; the first entry belongs to kNoStack.
  void SetStacks(std::vector<PythonFrame> frames, std::vector<PythonCode> codes,
                 std::vector<PythonModule> modules);
  // `scripts`: by ScriptId; the first entry belongs to kNoScript.
  void SetScripts(std::vector<std::string> scripts) { timeline_->scripts_ = std::move(scripts); }
  void SetSamples(Samples samples) { timeline_->samples_ = std::move(samples); }
  // Returns the events that SetSystem() set; nullptr: there are none. Valid until Finish().
  SystemEventStore* system_events() { return timeline_->system_.events.get(); }
  void SetSystem(SystemRows system) { timeline_->system_ = std::move(system); }
  void SetMemorySummary(const MemorySummary& summary) { timeline_->memory_summary_ = summary; }
  uint32_t thread_count() const { return static_cast<uint32_t>(timeline_->threads_.size()); }

  // Adds activities in order of their start. Fails as AddSpan().
  absl::Status AddDeviceActivity(const DeviceActivity& activity) {
    return timeline_->device_activities_->Append(activity);
  }
  absl::Status AddKernel(const KernelFacts& kernel) { return timeline_->kernels_->Append(kernel); }
  uint32_t kernel_count() const { return timeline_->kernels_->size(); }
  DeviceNameId InternDeviceName(const std::string& name);
  void SetDeviceAnnotations(std::vector<DeviceAnnotation> annotations) {
    timeline_->device_annotations_ = std::move(annotations);
  }
  void SetDevices(std::vector<GpuDevice> devices) { timeline_->devices_ = std::move(devices); }
  void SetDeviceClocks(std::vector<DeviceClock> clocks) {
    timeline_->device_clocks_ = std::move(clocks);
  }
  void SetDeviceLedger(const DeviceLedger& ledger) { timeline_->device_ledger_ = ledger; }
  void AddLoss(const LossTime& loss) { timeline_->losses_.push_back(loss); }

  std::unique_ptr<Timeline> Finish(RecordingInfo info, const Ledger& ledger);

 private:
  PathId InternNode(PathId parent, LabelId label);

  std::unique_ptr<Timeline> timeline_;
  absl::flat_hash_map<Label, LabelId> label_ids_;
  absl::flat_hash_map<uint64_t, PathId> path_ids_;
  absl::flat_hash_map<std::string, DeviceNameId> device_name_ids_;
};

}  // namespace proftrace
