#include "userspace/aggregate/folded_stacks.h"

#include "userspace/aggregate/bound_stacks.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/stack_folder.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/saturating.h"

#include <algorithm>
#include <utility>

namespace proftrace {
namespace {

class StackSummer {
 public:
  StackSummer(const Timeline& timeline, FoldedStacks* stacks)
      : timeline_(timeline), stacks_(*stacks), folder_(timeline, stacks) {}

  void AddSpans(SpanCounts* counts) {
    std::vector<uint64_t> by_label(timeline_.labels().size());
    ForEachSpan(timeline_, [&](SpanId id, const Span& span) {
      ++by_label[Raw(span.label)];
      if (span.is_complete()) AddSpan(id, span);
    });
    for (size_t label = 0; label < by_label.size(); ++label) {
      counts->by_kind[static_cast<size_t>(timeline_.labels()[label].kind)] += by_label[label];
    }
  }

  void AddDeviceWork() {
    const DeviceActivityStore& activities = timeline_.device_activities();
    for (uint32_t i = 0; i < activities.size(); ++i) {
      const DeviceActivity& activity = activities.at(i);
      if (!IsDeviceWork(activity.kind)) continue;
      const SpanId asker = activity.op != kNoSpan ? activity.op : activity.call;
      const uint32_t above = asker == kNoSpan ? folder_.TopNode(kNoCallFrame)
                                              : folder_.NodeOf(asker, timeline_.span(asker));
      const uint32_t node = folder_.DeviceNode(above, activity.name);
      ++stacks_.nodes[node].count;
      Add(StackWeight::kSelfDeviceTime, node, activity.duration_ns);
    }
  }

  void AddMemory() {
    const MemoryEventStore& events = timeline_.memory_events();
    for (uint32_t i = 0; i < events.size(); ++i) {
      const MemoryEvent& event = events.at(i);
      if (event.kind != MemoryEventKind::kUsage) continue;
      has_device_memory_ |= event.is_device();
      if (event.bytes <= 0 || !(event.is_cpu() || event.is_device())) continue;
      const uint32_t node = event.parent == kNoSpan
                                ? folder_.TopNode(kNoSpanFrame)
                                : folder_.NodeOf(event.parent, timeline_.span(event.parent));
      Add(event.is_cpu() ? StackWeight::kCpuMemory : StackWeight::kDeviceMemory, node, event.bytes);
    }
  }

  void AddSamples() {
    for (const Sample& sample : timeline_.samples()) {
      const bool runs = sample.state == SampleState::kRunning;
      Add(runs ? StackWeight::kSampledOnCpu : StackWeight::kSampledOffCpu,
          folder_.SampleNode(sample), sample.period_ns * sample.count);
    }
  }

  void AddOffCpu() {
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (event.kind != SystemKind::kOffCpu) continue;
      const uint32_t above = event.span == kNoSpan
                                 ? folder_.TopNode(kNoSpanFrame)
                                 : folder_.NodeOf(event.span, timeline_.span(event.span));
      const uint32_t node = folder_.WaitNode(above, event.off_cpu);
      Add(StackWeight::kOffCpu, node, event.duration_ns);
      Add(StackWeight::kRunQueue, node, event.off_cpu.run_queue_ns);
    }
  }

  void Finish() {
    for (const StackWeightInfo& info : StackWeights()) {
      if (!IsRecorded(info.weight)) continue;
      if (info.weight == StackWeight::kCount) CountSpans();
      StackValues values;
      values.weight = info.weight;
      values.self = std::move(sums_[static_cast<size_t>(info.weight)]);
      values.self.resize(stacks_.nodes.size());
      for (const int64_t self : values.self) values.total = SaturatingSum(values.total, self);
      stacks_.values.push_back(std::move(values));
    }
  }

 private:
  void AddSpan(SpanId id, const Span& span) {
    const uint32_t node = folder_.NodeOf(id, span);
    ++stacks_.nodes[node].count;
    if (span.is_apart) return;
    // Each moment must count once, but rows that overlap all have the time that they share in their
    // self times.
    const int64_t shared_ns = timeline_.columns().shared_ns.at(id);
    Add(StackWeight::kSelfCpuTime, node, SaturatingDifference(span.self_ns, shared_ns));
  }

  void CountSpans() {
    for (uint32_t node = 1; node < stacks_.nodes.size(); ++node) {
      const bool is_device = stacks_.frames[stacks_.nodes[node].frame].kind == FrameKind::kDevice;
      const int64_t count = static_cast<int64_t>(stacks_.nodes[node].count);
      if (!is_device) Add(StackWeight::kCount, node, count);
    }
  }

  void Add(StackWeight weight, uint32_t node, int64_t value) {
    std::vector<int64_t>& sums = sums_[static_cast<size_t>(weight)];
    if (node >= sums.size()) sums.resize(stacks_.nodes.size());
    sums[node] = SaturatingSum(sums[node], value);
  }

  bool IsRecorded(StackWeight weight) const {
    switch (weight) {
      case StackWeight::kSelfCpuTime:
      case StackWeight::kCount:
        return true;
      case StackWeight::kSelfDeviceTime:
        return timeline_.has_device_records();
      case StackWeight::kCpuMemory:
        return timeline_.has_memory();
      case StackWeight::kDeviceMemory:
        return has_device_memory_;
      case StackWeight::kSampledOnCpu:
      case StackWeight::kSampledOffCpu:
        return !timeline_.samples().empty();
      case StackWeight::kOffCpu:
      case StackWeight::kRunQueue:
        return timeline_.has_sched();
    }
    return false;
  }

  const Timeline& timeline_;
  FoldedStacks& stacks_;
  StackFolder folder_;
  std::array<std::vector<int64_t>, kStackWeights> sums_;  // by weight and node
  bool has_device_memory_ = false;
};

}  // namespace

const StackValues* FoldedStacks::Find(StackWeight weight) const {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const StackValues& one) { return one.weight == weight; });
  return found == values.end() ? nullptr : &*found;
}

absl::StatusOr<const StackValues*> RecordedValues(const FoldedStacks& stacks, StackWeight weight) {
  const StackValues* values = stacks.Find(weight);
  if (values == nullptr) return Fail(ExitCode::kUsage, std::string(InfoOf(weight).missing));
  return values;
}

std::vector<uint32_t> PathOf(const FoldedStacks& stacks, uint32_t node) {
  std::vector<uint32_t> path;
  for (; node != 0; node = stacks.nodes[node].parent) path.push_back(node);
  return path;
}

void BuildFoldedStacks(const Timeline& timeline, FoldedStacks* stacks, SpanCounts* counts) {
  StackSummer summer(timeline, stacks);
  summer.AddSpans(counts);
  summer.AddDeviceWork();
  summer.AddMemory();
  summer.AddSamples();
  summer.AddOffCpu();
  summer.Finish();
  BoundStacks(kMostStackNodes, stacks);
}

std::vector<int64_t> WithoutDeviceFrames(const FoldedStacks& stacks,
                                         const std::vector<int64_t>& self) {
  std::vector<int64_t> sums = self;
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (stacks.frames[stacks.nodes[node].frame].kind != FrameKind::kDevice) continue;
    int64_t& above = sums[stacks.nodes[node].parent];
    above = SaturatingSum(above, sums[node]);
    sums[node] = 0;
  }
  return sums;
}

}  // namespace proftrace
