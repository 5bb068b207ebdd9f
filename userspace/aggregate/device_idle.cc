#include "userspace/aggregate/device_idle.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "userspace/aggregate/python_moments.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/thread_uses.h"

namespace proftrace {
namespace {

// torch's annotation around a batch (torch/utils/data/dataloader.py).
constexpr std::string_view kNextBatch = "enumerate(DataLoader)#";

// Returns what a row tells about its thread; kOtherCode: nothing.
IdleCause CauseOf(const Label& label) {
  if (IsCudaCall(label.category)) {
    return IsSynchronizing(label) ? IdleCause::kSynchronizing : IdleCause::kCudaCall;
  }
  if (label.category == Category::kCpuOp) return IdleCause::kOperator;
  return label.name.starts_with(kNextBatch) ? IdleCause::kDataLoader : IdleCause::kOtherCode;
}

// Returns whether the kernel's activities tell more about time of this cause.
bool IsRefined(IdleCause cause) {
  return cause == IdleCause::kOperator || cause == IdleCause::kCudaCall ||
         cause == IdleCause::kOtherCode;
}

IdleCause CauseOf(TimeUse use) {
  switch (use) {
    case TimeUse::kIo:
      return IdleCause::kIo;
    case TimeUse::kLock:
      return IdleCause::kLock;
    case TimeUse::kRunQueue:
      return IdleCause::kRunQueue;
    default:
      return IdleCause::kSystem;
  }
}

// Returns the first interval that ends after `time_ns`. The intervals are in order and do not
// overlap.
template <typename Interval>
typename std::vector<Interval>::const_iterator FirstEndingAfter(
    const std::vector<Interval>& intervals, int64_t time_ns) {
  return std::upper_bound(
      intervals.begin(), intervals.end(), time_ns,
      [](int64_t time, const Interval& interval) { return time < interval.end_ns; });
}

StackId LongestIn(const std::map<StackId, int64_t>& by_frame_ns) {
  StackId longest = kNoStack;
  int64_t most_ns = 0;
  for (const auto& [frame, ns] : by_frame_ns) {
    if (ns > most_ns) longest = frame;
    most_ns = std::max(most_ns, ns);
  }
  return longest;
}

// Charges the gaps of all devices whose next work a thread launches, while the thread's rows are
// visited in order of time.
class ThreadWalk {
 public:
  // Adds a gap. The gaps of a device must come in order.
  void AddGap(size_t device, IdleGap* gap, int64_t launched_ns) {
    devices_[device].push_back({gap, launched_ns, {}});
  }

  bool empty() const { return devices_.empty(); }
  void SetUses(std::vector<TimedUse> uses) { uses_ = std::move(uses); }
  void OnPythonRow(const PythonRow& row) { rows_.OnRow(row); }
  // To be called before the first span.
  void EndPythonRows() { python_ = rows_.Take(); }

  void OnSpan(const Span& span, IdleCause cause) {
    if (devices_.empty()) return;
    CloseUntil(span.start_ns);
    SpendUntil(span.start_ns);
    // A row that tells nothing has the cause of the row around it.
    if (cause == IdleCause::kOtherCode && !open_.empty()) cause = open_.back().cause;
    open_.push_back({span.end_ns(), cause});
  }

  void Finish() {
    CloseUntil(std::numeric_limits<int64_t>::max());
    SpendUntil(std::numeric_limits<int64_t>::max());
  }

 private:
  struct Open {
    int64_t end_ns = 0;
    IdleCause cause = IdleCause::kOtherCode;
  };
  struct Waiting {
    IdleGap* gap = nullptr;
    int64_t launched_ns = 0;  // when the call that launched the next work was over
    std::map<StackId, int64_t> in_python_ns;
  };

  void CloseUntil(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      SpendUntil(open_.back().end_ns);
      open_.pop_back();
    }
  }

  // Charges the time from the last moment to this one to the open rows.
  void SpendUntil(int64_t time_ns) {
    if (time_ns <= now_ns_) return;
    const IdleCause cause = open_.empty() ? IdleCause::kOtherCode : open_.back().cause;
    for (auto& [device, gaps] : devices_) {
      size_t& next = next_[device];
      for (; next < gaps.size(); ++next) {
        const IdleGap& gap = *gaps[next].gap;
        const int64_t until_ns = std::clamp(gaps[next].launched_ns, gap.start_ns, gap.end_ns);
        const int64_t from_ns = std::max(now_ns_, gap.start_ns);
        const int64_t to_ns = std::min(time_ns, until_ns);
        if (to_ns > from_ns) Charge(from_ns, to_ns, cause, &gaps[next]);
        if (until_ns > time_ns) break;
        NamePython(&gaps[next]);
      }
    }
    now_ns_ = time_ns;
  }

  void Charge(int64_t from_ns, int64_t to_ns, IdleCause cause, Waiting* waiting) const {
    auto& by_cause_ns = waiting->gap->by_cause_ns;
    int64_t done_ns = from_ns;  // charged until here
    if (IsRefined(cause)) {
      for (auto use = FirstEndingAfter(uses_, from_ns); use != uses_.end() && use->start_ns < to_ns;
           ++use) {
        const int64_t start_ns = std::max(from_ns, use->start_ns);
        const int64_t end_ns = std::min(to_ns, use->end_ns);
        ChargeRest(done_ns, start_ns, cause, &by_cause_ns);
        by_cause_ns[static_cast<size_t>(CauseOf(use->use))] += end_ns - start_ns;
        done_ns = end_ns;
      }
    }
    ChargeRest(done_ns, to_ns, cause, &by_cause_ns);
    if (cause != IdleCause::kOtherCode) return;
    ForEachPython(from_ns, to_ns,
                  [waiting](StackId frame, int64_t ns) { waiting->in_python_ns[frame] += ns; });
  }

  // Charges time about which the kernel's activities tell nothing.
  void ChargeRest(int64_t from_ns, int64_t to_ns, IdleCause cause,
                  std::array<int64_t, kIdleCauses>* by_cause_ns) const {
    int64_t rest_ns = std::max<int64_t>(0, to_ns - from_ns);
    if (cause == IdleCause::kOtherCode) {
      ForEachPython(from_ns, to_ns, [&](StackId, int64_t ns) {
        (*by_cause_ns)[static_cast<size_t>(IdleCause::kPython)] += ns;
        rest_ns -= ns;
      });
    }
    (*by_cause_ns)[static_cast<size_t>(cause)] += rest_ns;
  }

  template <typename Function>
  void ForEachPython(int64_t from_ns, int64_t to_ns, Function function) const {
    for (auto moment = FirstEndingAfter(python_, from_ns);
         moment != python_.end() && moment->start_ns < to_ns; ++moment) {
      function(moment->frame,
               std::min(to_ns, moment->end_ns) - std::max(from_ns, moment->start_ns));
    }
  }

  static void NamePython(Waiting* waiting) {
    waiting->gap->python = LongestIn(waiting->in_python_ns);
    waiting->in_python_ns.clear();
  }

  std::map<size_t, std::vector<Waiting>> devices_;
  std::map<size_t, size_t> next_;  // the first gap that is not over
  std::vector<Open> open_;
  std::vector<TimedUse> uses_;
  PythonMoments rows_;
  std::vector<PythonMoment> python_;
  int64_t now_ns_ = std::numeric_limits<int64_t>::min();
};

// Adds the next piece of work of a device or a stream.
void AddWork(const DeviceActivity& activity, uint32_t index, DeviceIdle* device) {
  if (device->end_ns == 0) {
    device->start_ns = device->end_ns = activity.start_ns;
  } else if (activity.start_ns > device->end_ns) {
    IdleGap& gap = device->gaps.emplace_back();
    gap.start_ns = device->end_ns;
    gap.end_ns = activity.start_ns;
    gap.next_work = index;
    device->idle_ns += gap.end_ns - gap.start_ns;
  }
  const int64_t from_ns = std::max(device->end_ns, activity.start_ns);
  device->busy_ns += std::max<int64_t>(0, activity.end_ns() - from_ns);
  device->end_ns = std::max(device->end_ns, activity.end_ns());
}

using StreamGaps = std::map<uint32_t, DeviceIdle>;
struct DeviceGaps {
  DeviceIdle whole;
  StreamGaps streams;
};

// Adds the streams that a device is mostly used for, where it has several.
void AddBusiestStreams(StreamGaps* streams, std::vector<DeviceIdle>* devices) {
  constexpr int64_t kPartOfTheBusiest = 10;
  if (streams->size() < 2) return;
  int64_t most_ns = 0;
  for (const auto& [number, stream] : *streams) most_ns = std::max(most_ns, stream.busy_ns);
  for (auto& [number, stream] : *streams) {
    if (stream.busy_ns >= most_ns / kPartOfTheBusiest) devices->push_back(std::move(stream));
  }
}

std::vector<DeviceIdle> FindGaps(const Timeline& timeline) {
  std::map<std::pair<uint32_t, uint32_t>, DeviceGaps> found;  // by process and device
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind)) continue;
    DeviceGaps& device = found[{Raw(activity.pid), activity.device}];
    DeviceIdle& stream = device.streams[activity.stream];
    stream.stream = activity.stream;
    for (DeviceIdle* idle : {&device.whole, &stream}) {
      idle->pid = activity.pid;
      idle->device = activity.device;
      AddWork(activity, i, idle);
    }
  }
  std::vector<DeviceIdle> devices;
  for (auto& [key, device] : found) {
    devices.push_back(std::move(device.whole));
    AddBusiestStreams(&device.streams, &devices);
  }
  return devices;
}

}  // namespace

bool IsSynchronizing(const Label& label) {
  return IsCudaCall(label.category) &&
         (label.name.find("Synchronize") != std::string::npos || label.name == "cudaMemcpy" ||
          label.name == "cudaMemset" || label.name.starts_with("cuMemcpyHtoD_") ||
          label.name.starts_with("cuMemcpyDtoH_"));
}

std::string_view IdleCauseName(IdleCause cause) {
  switch (cause) {
    case IdleCause::kOperator:
      return "operator dispatch";
    case IdleCause::kSynchronizing:
      return "synchronizing call";
    case IdleCause::kCudaCall:
      return "CUDA call";
    case IdleCause::kDataLoader:
      return "DataLoader";
    case IdleCause::kOtherCode:
      return "outside of operators";
    case IdleCause::kLaunched:
      return "launched, not begun";
    case IdleCause::kUnknown:
      return "not known";
    case IdleCause::kIo:
      return "I/O";
    case IdleCause::kLock:
      return "lock";
    case IdleCause::kRunQueue:
      return "run queue";
    case IdleCause::kSystem:
      return "other system calls and waits";
    case IdleCause::kPython:
      return "Python";
  }
  return "not known";
}

IdleCause IdleGap::main_cause() const {
  const auto most = std::max_element(by_cause_ns.begin(), by_cause_ns.end());
  return static_cast<IdleCause>(most - by_cause_ns.begin());
}

std::vector<DeviceIdle> FindDeviceIdle(const Timeline& timeline, const PythonRows& python) {
  std::vector<DeviceIdle> devices = FindGaps(timeline);
  std::vector<ThreadWalk> walks(timeline.threads().size());
  for (size_t device = 0; device < devices.size(); ++device) {
    for (IdleGap& gap : devices[device].gaps) {
      const SpanId call = timeline.device_activities().at(gap.next_work).call;
      if (call == kNoSpan) continue;
      const Span& span = timeline.span(call);
      gap.thread = span.thread;
      walks[Raw(span.thread)].AddGap(device, &gap, span.end_ns());
    }
  }
  if (timeline.system_event_count() > 0) {
    const ThreadEvents events(timeline);
    for (uint32_t i = 0; i < walks.size(); ++i) {
      if (!walks[i].empty()) walks[i].SetUses(UsesOfThread(timeline, events, ThreadIndex{i}));
    }
  }
  for (uint32_t i = 0; i < python.size(); ++i) {
    ThreadWalk& walk = walks[Raw(python.at(i).thread)];
    if (!walk.empty()) walk.OnPythonRow(python.at(i));
  }
  for (ThreadWalk& walk : walks) walk.EndPythonRows();
  std::vector<IdleCause> causes;
  for (const Label& label : timeline.labels()) causes.push_back(CauseOf(label));
  const SpanStore& spans = timeline.spans();
  for (uint32_t index = 0; index < spans.size(); ++index) {
    const Span& span = spans.at(index);
    // An end that was not seen, or that came on another thread, does not tell how long this thread
    // was in the row.
    if (span.is_async || !span.is_complete()) continue;
    walks[Raw(span.thread)].OnSpan(span, causes[Raw(span.label)]);
  }
  for (ThreadWalk& walk : walks) walk.Finish();
  for (DeviceIdle& device : devices) {
    for (IdleGap& gap : device.gaps) {
      int64_t rest_ns = gap.end_ns - gap.start_ns;
      for (const int64_t ns : gap.by_cause_ns) rest_ns -= ns;
      const bool has_call = timeline.device_activities().at(gap.next_work).call != kNoSpan;
      const IdleCause rest = has_call ? IdleCause::kLaunched : IdleCause::kUnknown;
      gap.by_cause_ns[static_cast<size_t>(rest)] += rest_ns;
      for (size_t cause = 0; cause < kIdleCauses; ++cause) {
        device.by_cause_ns[cause] += gap.by_cause_ns[cause];
      }
    }
  }
  return devices;
}

std::vector<IdleShare> SharesOf(const DeviceIdle& device) {
  std::vector<IdleShare> shares;
  for (size_t cause = 0; cause < kIdleCauses; ++cause) {
    if (device.by_cause_ns[cause] == 0) continue;
    IdleShare& share = shares.emplace_back();
    share.cause = static_cast<IdleCause>(cause);
    share.ns = device.by_cause_ns[cause];
    std::map<StackId, int64_t> in_python_ns;
    for (const IdleGap& gap : device.gaps) {
      const int64_t ns = gap.by_cause_ns[cause];
      if (ns == 0) continue;
      ++share.gaps;
      share.longest_ns = std::max(share.longest_ns, ns);
      if (gap.python != kNoStack) in_python_ns[gap.python] += ns;
    }
    share.python = LongestIn(in_python_ns);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const IdleShare& a, const IdleShare& b) { return a.ns > b.ns; });
  return shares;
}

std::vector<WindowShare> SumIdleShares(const std::vector<DeviceIdle>& devices,
                                       const StepWindows& windows) {
  WindowShares shares(&windows);
  for (size_t device = 0; device < devices.size(); ++device) {
    for (const IdleGap& gap : devices[device].gaps) {
      for (size_t cause = 0; cause < kIdleCauses; ++cause) {
        const int64_t ns = gap.by_cause_ns[cause];
        if (ns == 0) continue;
        shares.Add(gap.start_ns, static_cast<uint32_t>(device * kIdleCauses + cause),
                   {ns, 1, 0, 0});
      }
    }
  }
  return shares.Take();
}

}  // namespace proftrace
