#include "userspace/why/step_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/aggregate/thread_uses.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// Further layers beside those of StepPart, of which several may hold at one time. kBlocked and
// kInCollective together make kCollective.
constexpr size_t kBlocked = kStepParts;
constexpr size_t kInCollective = kStepParts + 1;
constexpr size_t kLayers = kStepParts + 2;

struct Edge {
  int64_t time_ns = 0;
  uint8_t layer = 0;
  bool is_begin = false;
};

std::optional<StepPart> PartOfUse(TimeUse use) {
  switch (use) {
    case TimeUse::kIo:
      return StepPart::kIo;
    case TimeUse::kLock:
      return StepPart::kLock;
    case TimeUse::kEvent:
      return StepPart::kEvent;
    case TimeUse::kRunQueue:
      return StepPart::kRunQueue;
    case TimeUse::kFaults:
      return StepPart::kFaults;
    case TimeUse::kOther:
      return StepPart::kOther;
    default:
      return std::nullopt;
  }
}

// Returns the part that a row of the driving thread stands for; nullopt: none.
std::optional<StepPart> PartOfRow(const Label& label) {
  if (label.kind == SpanKind::kCollection) return StepPart::kCollection;
  if (IsCudaCall(label.category)) {
    return IsSynchronizing(label) ? std::optional(StepPart::kSynchronizing) : std::nullopt;
  }
  if (label.category == Category::kCpuOp && !IsTitleOfWork(label.name)) return StepPart::kOperators;
  return std::nullopt;
}

class Splitter {
 public:
  Splitter(const Timeline& timeline, StepParts* parts) : timeline_(timeline), parts_(parts) {}

  void Run() {
    AddRows();
    if (parts_->has_kernel) AddUses();
    Sweep();
  }

 private:
  void Add(size_t layer, int64_t start_ns, int64_t end_ns) {
    if (end_ns <= start_ns) return;
    edges_.push_back({start_ns, static_cast<uint8_t>(layer), true});
    edges_.push_back({end_ns, static_cast<uint8_t>(layer), false});
  }
  void Add(StepPart part, const Span& span) {
    // Where rows of the same part lie in each other, the outermost one is enough.
    int64_t& covered_ns = covered_until_ns_[static_cast<size_t>(part)];
    if (span.end_ns() <= covered_ns) return;
    covered_ns = span.end_ns();
    Add(static_cast<size_t>(part), span.start_ns, span.end_ns());
  }

  void AddRows() {
    const DataLoaderRows loader(timeline_);
    std::vector<std::optional<StepPart>> part_of_label;
    std::vector<bool> is_work;
    for (const Label& label : timeline_.labels()) {
      part_of_label.push_back(PartOfRow(label));
      is_work.push_back(IsTitleOfWork(label.name));
    }
    covered_until_ns_.fill(std::numeric_limits<int64_t>::min());
    ForEachSpan(timeline_, [&](SpanId, const Span& span) {
      if (is_work[Raw(span.label)] && timeline_.thread(span.thread).pid == parts_->pid) {
        Add(kInCollective, span.start_ns, span.end_ns());
      }
      if (span.thread != parts_->thread || span.is_apart) return;
      if (loader.Has(span)) Add(StepPart::kData, span);
      if (const auto part = part_of_label[Raw(span.label)]) Add(*part, span);
    });
  }

  void AddUses() {
    const ThreadEvents events(timeline_);
    for (const TimedUse& use : UsesOfThread(timeline_, events, parts_->thread)) {
      if (use.is_blocked) Add(kBlocked, use.start_ns, use.end_ns);
      if (const auto part = PartOfUse(use.use)) {
        Add(static_cast<size_t>(*part), use.start_ns, use.end_ns);
      }
    }
    AddRecording(events);
  }

  // Adds what each record took, which was written when its event was over, and the way back from a
  // fault.
  void AddRecording(const ThreadEvents& events) {
    const SystemCost& cost = timeline_.info().cost.system;
    for (const uint32_t index : events.of(parts_->thread)) {
      const SystemEvent& event = timeline_.system_event(index);
      if (event.end == SpanEnd::kTruncated) continue;
      const bool is_fault = event.kind == SystemKind::kFault;
      const int64_t begin_ns = event.end_ns() + (is_fault ? std::llround(cost.fault_beside) : 0);
      Add(static_cast<size_t>(StepPart::kFaults), event.end_ns(), begin_ns);
      Add(static_cast<size_t>(StepPart::kRecording), begin_ns,
          begin_ns + std::llround(is_fault ? cost.fault : cost.call));
    }
  }

  StepPart PartNow() const {
    if (open_[static_cast<size_t>(StepPart::kRunQueue)] > 0) return StepPart::kRunQueue;
    for (size_t layer = 0; layer < kStepParts; ++layer) {
      const auto part = static_cast<StepPart>(layer);
      const bool holds = part == StepPart::kCollective
                             ? open_[kBlocked] > 0 && open_[kInCollective] > 0
                             : open_[layer] > 0;
      if (holds) return part;
    }
    return StepPart::kPython;
  }

  void Sweep() {
    std::sort(edges_.begin(), edges_.end(),
              [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
    for (uint32_t step = 0; step < parts_->intervals.size(); ++step) {
      const auto [start_ns, end_ns] = parts_->intervals[step];
      if (step > 0) SpendUntil(start_ns, step - 1, /*is_between=*/true);
      now_ns_ = start_ns;
      SpendUntil(end_ns, step, /*is_between=*/false);
    }
  }

  void SpendUntil(int64_t end_ns, uint32_t step, bool is_between) {
    for (; next_ < edges_.size() && edges_[next_].time_ns < end_ns; ++next_) {
      Spend(edges_[next_].time_ns, step, is_between);
      open_[edges_[next_].layer] += edges_[next_].is_begin ? 1 : -1;
    }
    Spend(end_ns, step, is_between);
  }

  void Spend(int64_t until_ns, uint32_t step, bool is_between) {
    if (until_ns <= now_ns_) return;
    const StepPart inside = PartNow();
    const StepPart part = is_between ? StepPart::kBetween : inside;
    const int64_t from_ns = std::exchange(now_ns_, until_ns);
    const int64_t ns = until_ns - from_ns;
    PartTimes& times = is_between ? parts_->between : parts_->by_step[step];
    times[static_cast<size_t>(inside)] += ns;
    parts_->sum[static_cast<size_t>(part)] += ns;
    parts_->total_ns += ns;
    std::vector<PartMoment>& moments = parts_->moments;
    const bool goes_on = !moments.empty() && moments.back().part == part &&
                         moments.back().step == step && moments.back().end_ns == from_ns;
    if (goes_on) {
      moments.back().end_ns = until_ns;
    } else {
      moments.push_back({from_ns, until_ns, step, part});
    }
  }

  const Timeline& timeline_;
  StepParts* parts_;
  std::vector<Edge> edges_;
  size_t next_ = 0;  // an index into edges_
  int64_t now_ns_ = 0;
  std::array<int64_t, kStepParts> covered_until_ns_{};
  std::array<int32_t, kLayers> open_{};
};

}  // namespace

std::string_view StepPartName(StepPart part) {
  static constexpr std::array<std::string_view, kStepParts> kNames = {
      "data",  "collection", "collective", "run_queue",     "faults",    "recording", "lock",
      "event", "io",         "other",      "synchronizing", "operators", "python",    "between"};
  return kNames[static_cast<size_t>(part)];
}

std::string_view StepPartText(StepPart part) {
  static constexpr std::array<std::string_view, kStepParts> kTexts = {
      "waits for the DataLoader",
      "Python's garbage collector",
      "waits in collectives",
      "waits for a CPU",
      "page faults",
      "records of system activity",
      "waits for locks",
      "waits for other threads",
      "I/O",
      "sleeps, other waits and calls",
      "waits for the GPU",
      "operators",
      "Python, outside operators",
      "between two steps"};
  return kTexts[static_cast<size_t>(part)];
}

const PartMoment* StepParts::At(int64_t time_ns) const {
  const auto after =
      std::upper_bound(moments.begin(), moments.end(), time_ns,
                       [](int64_t time, const PartMoment& moment) { return time < moment.end_ns; });
  return after != moments.end() && after->start_ns <= time_ns ? &*after : nullptr;
}

std::optional<size_t> StepParts::StepAt(int64_t time_ns) const {
  const auto after = std::upper_bound(
      intervals.begin(), intervals.end(), time_ns,
      [](int64_t time, const std::pair<int64_t, int64_t>& step) { return time < step.second; });
  if (after == intervals.end() || time_ns < after->first) return std::nullopt;
  return static_cast<size_t>(after - intervals.begin());
}

PartTimes StepParts::TimesIn(const TimeIntervals& times) const {
  PartTimes parts{};
  auto moment = moments.begin();
  for (const auto& [start_ns, end_ns] : times) {
    while (moment != moments.end() && moment->end_ns <= start_ns) ++moment;
    for (auto at = moment; at != moments.end() && at->start_ns < end_ns; ++at) {
      parts[static_cast<size_t>(at->part)] +=
          std::min(at->end_ns, end_ns) - std::max(at->start_ns, start_ns);
    }
  }
  return parts;
}

namespace {

// The time in which proftrace itself still starts: it reads names, and the tables by which stacks
// are walked. On a busy host the job lacks that time of the CPUs.
constexpr int64_t kStartNs = 500'000'000;

// Leaves out the steps that began while the recording started, if there are enough others.
void LeaveOutStart(const RecordingInfo& info, TimeIntervals* steps) {
  const bool is_start = !info.flight.has_value();  // a flight recorder's window begins later
  if (!is_start || info.window.duration_ns < 5 * kStartNs) return;
  const auto first = std::find_if(steps->begin(), steps->end(), [&info](const auto& step) {
    return step.first >= info.window.start_ns + kStartNs;
  });
  if (3 * (first - steps->begin()) <= steps->end() - first) steps->erase(steps->begin(), first);
}

std::optional<StepParts> Split(const Timeline& timeline, const Steps& steps, bool leave_out_start) {
  StepParts parts;
  if (steps.main.has_value()) {
    const ProcessSteps& process = steps.processes[*steps.main];
    parts.thread = process.thread;
    parts.are_steps = true;
    for (const Step& step : process.timed_steps()) {
      parts.intervals.emplace_back(step.start_ns, step.end_ns);
    }
    if (leave_out_start) LeaveOutStart(timeline.info(), &parts.intervals);
  } else {
    const std::optional<ThreadIndex> thread = FindMainThread(timeline);
    if (!thread.has_value()) return std::nullopt;
    parts.thread = *thread;
    const Window& window = timeline.info().window;
    parts.intervals.emplace_back(window.start_ns, window.start_ns + window.duration_ns);
  }
  parts.pid = timeline.thread(parts.thread).pid;
  parts.has_kernel = IsSchedulerWhole(timeline);
  parts.by_step.resize(parts.intervals.size());
  Splitter(timeline, &parts).Run();
  if (parts.total_ns <= 0) return std::nullopt;
  return parts;
}

}  // namespace

std::optional<StepParts> SplitSteps(const Timeline& timeline, const Steps& steps) {
  return Split(timeline, steps, /*leave_out_start=*/false);
}

std::optional<StepParts> SplitSettledSteps(const Timeline& timeline, const Steps& steps) {
  return Split(timeline, steps, /*leave_out_start=*/true);
}

}  // namespace proftrace
