#include "userspace/aggregate/step_work.h"

#include <utility>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {

ProcessWork WorkCollector::Finish() && {
  ProcessWork work;
  work.has_device = has_device_;
  if (has_device_) {
    work.busy = device_;
    work.busy.insert(work.busy.end(), kernels_.begin(), kernels_.end());
    work.busy = UnionOf(std::move(work.busy));
  }
  work.communication = UnionOf(std::move(kernels_.empty() ? works_ : kernels_));
  work.compute = UnionOf(std::move(has_device_ ? device_ : operators_));
  work.overlap = CommonOf(work.communication, work.compute);
  return work;
}

ProcessWork WorkOfProcess(const Timeline& timeline, Pid pid) {
  WorkCollector collector;
  if (timeline.has_device_records()) collector.set_has_device();
  const DeviceActivityStore& activities = timeline.device_activities();
  std::vector<bool> is_communication;
  for (const std::string& name : timeline.device_names()) {
    is_communication.push_back(IsCommunicationKernel(name));
  }
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind) || activity.pid != pid) continue;
    collector.AddDeviceWork(
        activity.start_ns, activity.end_ns(),
        activity.kind == DeviceActivityKind::kKernel && is_communication[Raw(activity.name)]);
  }
  enum class Use : uint8_t { kNone, kCollective, kOperator };
  std::vector<Use> use_of_label;
  for (const Label& label : timeline.labels()) {
    Use use = Use::kNone;
    if (IsTitleOfWork(label.name)) {
      use = Use::kCollective;
    } else if (label.category == Category::kCpuOp && !IsCallOfCollective(label.name)) {
      use = Use::kOperator;
    }
    use_of_label.push_back(use);
  }
  // Where operators lie in operators, only the outermost one needs to be added.
  std::vector<int64_t> covered_until_ns(timeline.threads().size(), INT64_MIN);
  ForEachSpan(timeline, [&](SpanId, const Span& span) {
    const Use use = use_of_label[Raw(span.label)];
    if (use == Use::kNone || timeline.thread(span.thread).pid != pid) return;
    if (use == Use::kCollective) {
      collector.AddCollective(span.start_ns, span.end_ns());
      return;
    }
    int64_t& covered_ns = covered_until_ns[Raw(span.thread)];
    if (span.is_apart || span.end_ns() <= covered_ns) return;
    covered_ns = span.end_ns();
    collector.AddOperator(span.start_ns, span.end_ns());
  });
  return std::move(collector).Finish();
}

StepWork WorkIn(const ProcessWork& work, int64_t begin_ns, int64_t end_ns) {
  StepWork of;
  if (work.has_device) {
    of.gpu_busy_ns = LengthIn(work.busy, begin_ns, end_ns);
    of.gpu_compute_ns = LengthIn(work.compute, begin_ns, end_ns);
    of.gpu_idle_ns = end_ns - begin_ns - *of.gpu_busy_ns;
  }
  of.comm_ns = LengthIn(work.communication, begin_ns, end_ns);
  of.comm_overlap_ns = LengthIn(work.overlap, begin_ns, end_ns);
  of.comm_exposed_ns = of.comm_ns - of.comm_overlap_ns;
  return of;
}

}  // namespace proftrace
