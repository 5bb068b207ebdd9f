// Rules about a job that uses a GPU: which work keeps the GPU busy, and why it has nothing to do.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "userspace/base/shown_text.h"
#include "userspace/model/torch_rules.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// A device that worked for a smaller part of the recording does not decide how long steps take.
constexpr double kLeastOfWindow = 0.2;
constexpr size_t kNamedKernels = 3;
constexpr uint8_t kPageable = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE

// Returns the process's device that worked longest; nullptr: no device worked.
const DeviceIdle* BusiestDevice(const Case& job) {
  const DeviceIdle* busiest = nullptr;
  for (const DeviceIdle& device : job.aggregates.device_idle) {
    if (device.stream.has_value() || device.pid != job.parts.pid) continue;
    if (busiest == nullptr || device.busy_ns > busiest->busy_ns) busiest = &device;
  }
  if (busiest == nullptr) return nullptr;
  const auto window_ns = static_cast<double>(job.timeline.info().window.duration_ns);
  const auto whole_ns = static_cast<double>(busiest->end_ns - busiest->start_ns);
  return whole_ns >= kLeastOfWindow * window_ns && whole_ns > 0 ? busiest : nullptr;
}

struct DeviceWork {
  std::map<uint32_t, std::pair<int64_t, uint64_t>> by_name;  // ns and count, by DeviceNameId
  int64_t communication_alone_ns = 0;                        // collectives ran, and nothing else
  int64_t pageable_ns = 0;  // copies from or to memory that is not pinned
};

DeviceWork WorkOf(const Case& job, const DeviceIdle& device) {
  DeviceWork work;
  struct Edge {
    int64_t time_ns = 0;
    bool is_communication = false;
    int change = 0;
  };
  std::vector<Edge> edges;
  const DeviceActivityStore& activities = job.timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind) || activity.pid != device.pid ||
        activity.device != device.device) {
      continue;
    }
    auto& [ns, count] = work.by_name[Raw(activity.name)];
    ns += activity.duration_ns;
    ++count;
    const bool is_pageable =
        activity.source_kind == kPageable || activity.destination_kind == kPageable;
    if (activity.kind == DeviceActivityKind::kMemcpy && is_pageable) {
      work.pageable_ns += activity.duration_ns;
    }
    const bool is_communication = IsCommunicationKernel(job.timeline.device_name(activity.name));
    edges.push_back({activity.start_ns, is_communication, 1});
    edges.push_back({activity.end_ns(), is_communication, -1});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  std::array<int, 2> open{};
  int64_t now_ns = device.start_ns;
  for (const Edge& edge : edges) {
    if (open[1] > 0 && open[0] == 0) work.communication_alone_ns += edge.time_ns - now_ns;
    now_ns = edge.time_ns;
    open[edge.is_communication ? 1 : 0] += edge.change;
  }
  return work;
}

std::string KernelsText(const Case& job, const DeviceWork& work) {
  std::vector<std::pair<int64_t, uint32_t>> order;
  for (const auto& [name, sums] : work.by_name) order.emplace_back(-sums.first, name);
  std::sort(order.begin(), order.end());
  std::string text;
  for (size_t i = 0; i < std::min(kNamedKernels, order.size()); ++i) {
    const auto& [ns, count] = work.by_name.at(order[i].second);
    // Names of templates may be as long as a page.
    std::string name = ShownText(job.timeline.device_name(DeviceNameId{order[i].second}));
    constexpr size_t kMostName = 60;
    if (name.size() > kMostName) name = name.substr(0, kMostName) + "…";
    text +=
        (i == 0 ? "The longest: " : ", ") + name + " (" + DurationText(job.AStep(ns)) + " a step)";
  }
  return text + ".";
}

// Finds the locks of the launching thread. This is the interpreter's own lock where the thread
// waits mostly for that.
std::optional<Finding> FindLockOrGil(const Case& job) {
  PartTimes taken{};
  std::optional<Finding> gil = FindGil(job, &taken);
  return gil.has_value() && 2 * gil->ns > job.parts.of(StepPart::kLock) ? gil : FindLock(job);
}

// A rule about the thread that gives the reason why the GPU waits.
struct CauseRule {
  std::array<IdleCause, 2> causes;
  FindingKind kind;
  const char* what;
  std::optional<Finding> (*rule)(const Case&);
};

constexpr std::array<CauseRule, 8> kCauseRules = {{
    {{IdleCause::kDataLoader, IdleCause::kDataLoader},
     FindingKind::kDataLoader,
     "waits for the DataLoader's next batch",
     FindDataLoader},
    {{IdleCause::kSynchronizing, IdleCause::kSynchronizing},
     FindingKind::kSynchronizing,
     "has nothing to do while the CPU waits for it, and asks for nothing more",
     FindSynchronizing},
    {{IdleCause::kOperator, IdleCause::kCudaCall},
     FindingKind::kDispatch,
     "waits for operators to be called: the CPU asks for work more slowly than the GPU does it",
     FindOperators},
    {{IdleCause::kPython, IdleCause::kOtherCode},
     FindingKind::kPython,
     "waits for code outside of operators, Python as a rule",
     FindPython},
    {{IdleCause::kIo, IdleCause::kIo},
     FindingKind::kIo,
     "waits while the launching thread reads or writes files or sockets",
     FindIo},
    {{IdleCause::kLock, IdleCause::kLock},
     FindingKind::kLock,
     "waits while the launching thread waits for a lock",
     FindLockOrGil},
    {{IdleCause::kRunQueue, IdleCause::kRunQueue},
     FindingKind::kRunQueue,
     "waits while the launching thread could run, and has no CPU",
     FindRunQueue},
    {{IdleCause::kSystem, IdleCause::kSystem},
     FindingKind::kSystem,
     "waits while the launching thread is in system calls, or off the CPU",
     FindOtherWaits},
}};

int64_t NsOf(const DeviceIdle& device, IdleCause cause) {
  return device.by_cause_ns[static_cast<size_t>(cause)];
}

}  // namespace

bool FindDevice(const Case& job, Verdict* verdict) {
  const DeviceIdle* device = BusiestDevice(job);
  if (device == nullptr) return false;
  const std::string gpu = "GPU " + std::to_string(device->device);
  verdict->total_ns = device->end_ns - device->start_ns;
  verdict->about +=
      " " + gpu + " works " + PercentText(device->busy_ns, verdict->total_ns) + " of the time.";
  const DeviceWork work = WorkOf(job, *device);
  Finding busy;
  busy.kind = FindingKind::kKernels;
  busy.ns = device->busy_ns - work.communication_alone_ns;
  busy.what = gpu + " computes and copies";
  busy.evidence.push_back(KernelsText(job, work));
  if (5 * work.pageable_ns > device->busy_ns) {
    busy.evidence.push_back(
        "Copies from and to memory that is not pinned take " +
        DurationText(job.AStep(work.pageable_ns)) +
        " a step, and the CPU waits for each: pin_memory=True of the DataLoader, or .pin_memory(), "
        "with non_blocking=True, would have them run beside the rest.");
  }
  verdict->findings.push_back(std::move(busy));
  Finding alone;
  alone.kind = FindingKind::kCollectives;
  alone.ns = work.communication_alone_ns;
  alone.what = gpu + " runs collectives and nothing beside them";
  alone.evidence.push_back(
      "Which rank came last is seen when all ranks are recorded at once: 'proftrace merge' "
      "compares "
      "them.");
  verdict->findings.push_back(std::move(alone));
  for (const CauseRule& rule : kCauseRules) {
    int64_t ns = NsOf(*device, rule.causes[0]);
    if (rule.causes[1] != rule.causes[0]) ns += NsOf(*device, rule.causes[1]);
    if (!IsWorthTelling(ns, verdict->total_ns)) continue;
    Finding finding = rule.rule(job).value_or(Finding());
    finding.ns = ns;
    if (finding.kind == FindingKind::kThrottling || finding.kind == FindingKind::kGil) {
      finding.what = gpu + " waits: " + finding.what;
    } else {
      finding.kind = rule.kind;
      finding.what = gpu + " " + rule.what;
    }
    verdict->findings.push_back(std::move(finding));
  }
  Finding launched;
  launched.kind = FindingKind::kLaunched;
  launched.ns = NsOf(*device, IdleCause::kLaunched);
  launched.what = gpu + " had been asked for work, and had not begun it";
  launched.evidence.push_back(
      "Launches take some time to reach the GPU; where it is much, streams wait for each other.");
  verdict->findings.push_back(std::move(launched));
  return true;
}

}  // namespace proftrace
