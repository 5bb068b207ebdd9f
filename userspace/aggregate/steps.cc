#include "userspace/aggregate/steps.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "userspace/aggregate/each_span.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// Items that are kept of a thread to learn from: a few seconds of the busiest jobs, 12 MiB.
constexpr size_t kMaxItems = 1u << 19;
// Threads of one process whose steps are looked for: more do not drive one job.
constexpr size_t kMaxThreads = 4;

// What a first look at a thread gives.
struct ThreadLook {
  uint64_t profiler_steps = 0;
  uint64_t optimizer_steps = 0;
  uint64_t loader_nexts = 0;
  size_t items = 0;
  int64_t busy_ns = 0;
  bool has_workers = false;  // of a DataLoader, in processes of their own

  // The better candidate for the loop's thread first.
  bool IsBetter(const ThreadLook& other) const {
    if (profiler_steps != other.profiler_steps) return profiler_steps > other.profiler_steps;
    if (optimizer_steps != other.optimizer_steps) return optimizer_steps > other.optimizer_steps;
    if (loader_nexts != other.loader_nexts) return loader_nexts > other.loader_nexts;
    return busy_ns > other.busy_ns;
  }
};

// Visits the items of a timeline: what nothing but annotations encloses.
class ItemWalk {
 public:
  explicit ItemWalk(const Timeline& timeline) : timeline_(timeline) {
    for (const Label& label : timeline.labels()) {
      classes_.push_back(ClassifyItem(label.name, label.kind == SpanKind::kAnnotation,
                                      label.kind == SpanKind::kAutograd));
      // torch/utils/data/dataloader.py; 1.13 to 2.11 have the class's name in the row's.
      is_of_workers_.push_back(classes_.back() == ItemClass::kLoaderNext &&
                               label.name.find("MultiProcessing") != std::string::npos);
    }
  }

  // Whether the item waits for workers of a DataLoader.
  bool IsOfWorkers(const StepItem& item) const { return is_of_workers_[item.symbol]; }

  template <typename Visitor>
  void Run(Visitor&& visit) const {
    std::vector<bool> is_open_to(timeline_.span_count());  // its children are items
    ForEachSpan(timeline_, [&](SpanId id, const Span& span) {
      if (span.parent != kNoSpan && !is_open_to[Raw(span.parent)]) return;
      const ItemClass item_class = classes_[Raw(span.label)];
      is_open_to[Raw(id)] = item_class == ItemClass::kAnnotation;
      if (span.is_async) return;
      StepItem item;
      item.start_ns = span.start_ns;
      item.end_ns = span.end_ns();
      item.symbol = Raw(span.label);
      item.item_class = item_class;
      item.may_be_entering = timeline_.label(span.label).name == "aten::zeros";
      item.is_open = !span.is_complete();
      visit(span.thread, item);
    });
  }

 private:
  const Timeline& timeline_;
  std::vector<ItemClass> classes_;
  std::vector<bool> is_of_workers_;  // by LabelId
};

// The threads of a process that may drive its loop, best first.
struct Candidates {
  std::vector<uint32_t> threads;
  size_t items = 0;        // that are kept of them
  bool is_worker = false;  // of a DataLoader of its parent
};

// The children of processes that have DataLoaders with workers. Such a worker goes through a
// dataset in rounds of its own, which are no steps of the job.
void FindWorkers(const RecordingInfo& info, const std::set<uint32_t>& loaders,
                 std::map<uint32_t, Candidates>* by_process) {
  for (const Target& target : info.targets) {
    const auto process = by_process->find(Raw(target.pid));
    if (process != by_process->end() && loaders.contains(Raw(target.ppid))) {
      process->second.is_worker = true;
    }
  }
}

// By process.
std::map<uint32_t, Candidates> CandidateThreads(const Timeline& timeline, const ItemWalk& walk) {
  std::vector<ThreadLook> looks(timeline.threads().size());
  walk.Run([&](ThreadIndex thread, const StepItem& item) {
    ThreadLook& look = looks[Raw(thread)];
    look.profiler_steps += item.item_class == ItemClass::kProfilerStep;
    look.optimizer_steps += item.item_class == ItemClass::kOptimizerStep;
    look.loader_nexts += item.item_class == ItemClass::kLoaderNext;
    look.has_workers |= walk.IsOfWorkers(item);
    ++look.items;
    if (item.item_class != ItemClass::kAnnotation) look.busy_ns += item.end_ns - item.start_ns;
  });
  std::map<uint32_t, Candidates> by_process;
  std::set<uint32_t> loaders;
  for (uint32_t i = 0; i < looks.size(); ++i) {
    if (looks[i].has_workers) loaders.insert(Raw(timeline.threads()[i].pid));
    if (looks[i].busy_ns > 0) by_process[Raw(timeline.threads()[i].pid)].threads.push_back(i);
  }
  for (auto& [pid, candidates] : by_process) {
    std::vector<uint32_t>& threads = candidates.threads;
    std::stable_sort(threads.begin(), threads.end(),
                     [&](uint32_t a, uint32_t b) { return looks[a].IsBetter(looks[b]); });
    if (threads.size() > kMaxThreads) threads.resize(kMaxThreads);
    for (const uint32_t i : threads) candidates.items += std::min(looks[i].items, kMaxItems);
  }
  FindWorkers(timeline.info(), loaders, &by_process);
  return by_process;
}

// From when on a process was recorded.
int64_t ProbesOn(const RecordingInfo& info, Pid pid) {
  for (const Target& target : info.targets) {
    if (target.pid == pid) return std::max(target.probes_on_ns, info.window.start_ns);
  }
  return info.window.start_ns;
}

// The N of "ProfilerStep#N".
std::optional<int64_t> NumberOfAnnotation(std::string_view name) {
  const size_t hash = name.find('#');
  int64_t number = 0;
  const char* end = name.data() + name.size();
  if (hash == std::string_view::npos) return std::nullopt;
  const auto [last, error] = std::from_chars(name.data() + hash + 1, end, number);
  if (last != end || error != std::errc()) return std::nullopt;
  return number;
}

void SetDurations(ProcessSteps* process) {
  std::vector<int64_t> durations;
  for (const Step& step : process->steps) durations.push_back(step.end_ns - step.start_ns);
  if (durations.empty()) return;
  std::sort(durations.begin(), durations.end());
  const size_t count = durations.size();
  // Nearest rank.
  process->median_ns = durations[(count + 1) / 2 - 1];
  process->p99_ns = durations[(count * 99 + 99) / 100 - 1];
}

ProcessSteps MakeProcess(const Timeline& timeline, ThreadIndex thread, const StepFinder& finder) {
  ProcessSteps process;
  process.pid = timeline.thread(thread).pid;
  process.thread = thread;
  process.how = finder.rule().how;
  process.confidence = finder.confidence();
  process.are_annotated = finder.rule().kind == StepRule::Kind::kProfilerStep;
  int64_t number = 0;
  for (const FoundStep& found : finder.steps()) {
    Step step{found.start_ns, found.end_ns, number};
    if (process.are_annotated) {
      step.number = NumberOfAnnotation(timeline.label(LabelId{found.symbol}).name).value_or(number);
    }
    number = SaturatingSum(step.number, 1);  // the job may name them as it likes
    process.steps.push_back(step);
  }
  return process;
}

// What the recorder found itself, because it was asked to count steps.
std::optional<ProcessSteps> RecordedProcess(const Timeline& timeline,
                                            const std::vector<uint32_t>& threads) {
  const std::optional<RecordedSteps>& recorded = timeline.info().steps;
  if (!recorded.has_value()) return std::nullopt;
  for (const uint32_t index : threads) {
    const Thread& thread = timeline.threads()[index];
    if (thread.pid != recorded->pid || thread.tid != recorded->tid) continue;
    ProcessSteps process;
    process.pid = thread.pid;
    process.thread = ThreadIndex{index};
    process.how = recorded->how;
    process.confidence = recorded->confidence;
    process.are_annotated = recorded->are_annotated;
    int64_t number = recorded->first_number;
    int64_t earliest_ns = timeline.info().window.start_ns;
    for (const auto& [start_ns, end_ns] : recorded->intervals) {
      if (start_ns < earliest_ns || end_ns < start_ns) return std::nullopt;  // a damaged capture
      process.steps.push_back({start_ns, end_ns, number++});
      earliest_ns = end_ns;
    }
    return process;
  }
  return std::nullopt;
}

// Those of `candidates` that have steps, each with those of its best thread that has some.
void FindProcesses(const Timeline& timeline, const ItemWalk& walk,
                   const std::vector<const Candidates*>& candidates,
                   std::vector<ProcessSteps>* processes) {
  const Window& window = timeline.info().window;
  const int64_t end_ns = window.start_ns + window.duration_ns;
  std::vector<std::unique_ptr<StepFinder>> finders(timeline.threads().size());
  for (const Candidates* process : candidates) {
    for (const uint32_t thread : process->threads) {
      const int64_t start_ns = ProbesOn(timeline.info(), timeline.threads()[thread].pid);
      finders[thread] = std::make_unique<StepFinder>(kMaxItems, start_ns);
    }
  }
  walk.Run([&](ThreadIndex thread, const StepItem& item) {
    if (finders[Raw(thread)] != nullptr) finders[Raw(thread)]->Add(item);
  });
  for (const Candidates* process : candidates) {
    for (const uint32_t thread : process->threads) {
      StepFinder& finder = *finders[thread];
      finder.Look(end_ns);
      if (finder.count() == 0) continue;
      if (process->is_worker && finder.rule().kind == StepRule::Kind::kPeriodic) continue;
      processes->push_back(MakeProcess(timeline, ThreadIndex{thread}, finder));
      break;
    }
  }
}

// Stands for the recording: the process with the best evidence, the first of those.
std::optional<size_t> MainProcess(const std::vector<ProcessSteps>& processes) {
  std::optional<size_t> main;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!main.has_value() || processes[i].confidence > processes[*main].confidence + 0.1) main = i;
  }
  return main;
}

}  // namespace

const Step* ProcessSteps::At(int64_t time_ns) const {
  auto it = std::upper_bound(steps.begin(), steps.end(), time_ns,
                             [](int64_t time, const Step& step) { return time < step.start_ns; });
  if (it == steps.begin()) return nullptr;
  --it;
  return time_ns < it->end_ns ? &*it : nullptr;
}

std::optional<double> StepsInWindow(const Timeline& timeline, const Steps& steps) {
  if (!steps.main.has_value()) return std::nullopt;
  const ProcessSteps& main = steps.processes[*steps.main];
  if (main.confidence < kGuessBelow || main.median_ns <= 0) return std::nullopt;
  const Window& window = timeline.info().window;
  const auto part = [&main](int64_t from_ns, int64_t to_ns) {
    return std::clamp(static_cast<double>(SaturatingDifference(to_ns, from_ns)) /
                          static_cast<double>(main.median_ns),
                      0.0, 1.0);
  };
  const int64_t end_ns = SaturatingSum(window.start_ns, window.duration_ns);
  return static_cast<double>(main.steps.size()) +
         part(window.start_ns, main.steps.front().start_ns) +
         part(main.steps.back().end_ns, end_ns);
}

Steps FindSteps(const Timeline& timeline, size_t most_items) {
  const ItemWalk walk(timeline);
  const std::map<uint32_t, Candidates> candidates = CandidateThreads(timeline, walk);
  Steps steps;
  std::vector<const Candidates*> together;
  size_t items = 0;
  const auto find = [&] {
    FindProcesses(timeline, walk, together, &steps.processes);
    together.clear();
    items = 0;
  };
  for (const auto& [pid, process] : candidates) {
    if (std::optional<ProcessSteps> recorded = RecordedProcess(timeline, process.threads)) {
      steps.processes.push_back(*std::move(recorded));
      continue;
    }
    if (items + process.items > most_items && !together.empty()) find();
    together.push_back(&process);
    items += process.items;
  }
  if (!together.empty()) find();
  for (ProcessSteps& process : steps.processes) SetDurations(&process);
  std::sort(
      steps.processes.begin(), steps.processes.end(),
      [](const ProcessSteps& a, const ProcessSteps& b) { return Raw(a.thread) < Raw(b.thread); });
  steps.main = MainProcess(steps.processes);
  for (const Thread& thread : timeline.threads()) {
    std::optional<uint32_t>& own = steps.process_of_thread.emplace_back();
    for (uint32_t i = 0; i < steps.processes.size(); ++i) {
      if (steps.processes[i].pid == thread.pid) own = i;
    }
  }
  return steps;
}

StepRows::StepRows(const Timeline& timeline, const Steps& steps) {
  for (const ProcessSteps& process : steps.processes) {
    if (process.are_annotated) continue;
    for (const Step& step : process.steps)
      rows_.push_back({step, process.thread, 0, step.end_ns - step.start_ns});
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return a.step.start_ns < b.step.start_ns; });
  for (Row& row : rows_) {
    uint32_t low = 0;
    uint32_t high = timeline.span_count();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (timeline.span(SpanId{middle}).start_ns < row.step.start_ns) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    row.before_span = low;
  }
  if (rows_.empty()) return;
  rows_of_thread_.resize(timeline.threads().size());
  for (uint32_t i = 0; i < rows_.size(); ++i) rows_of_thread_[Raw(rows_[i].thread)].push_back(i);
  FindParents(timeline);
  FindDeviceAnnotations(timeline);
  const SpanStore& spans = timeline.spans();
  for (uint32_t index = rows_.front().before_span; index < spans.size(); ++index) {
    const Span& span = spans.at(index);
    if (const std::optional<size_t> row = ParentOf(span)) rows_[*row].self_ns -= span.duration_ns;
  }
}

void StepRows::FindDeviceAnnotations(const Timeline& timeline) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, DeviceAnnotation> found;
  const auto around = [&](SpanId span) {
    return span == kNoSpan ? std::nullopt : Around(timeline, timeline.span(span));
  };
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind)) continue;
    const std::optional<size_t> step =
        around(activity.call != kNoSpan ? activity.call : activity.op);
    const bool is_steps = step.has_value() && around(activity.annotation) != step;
    if (!is_steps && activity.annotation == kNoSpan) continue;
    DeviceAnnotation whole{kNoSpan,         kNowhere,          activity.pid,     activity.device,
                           activity.stream, activity.start_ns, activity.end_ns()};
    if (is_steps) {
      whole.step = static_cast<uint32_t>(*step);
    } else {
      whole.annotation = activity.annotation;
    }
    const auto [it, inserted] =
        found.try_emplace({whole.step, Raw(whole.annotation), whole.device, whole.stream}, whole);
    it->second.start_ns = std::min(it->second.start_ns, whole.start_ns);
    it->second.end_ns = std::max(it->second.end_ns, whole.end_ns);
  }
  for (const auto& [key, annotation] : found) device_annotations_.push_back(annotation);
  std::stable_sort(device_annotations_.begin(), device_annotations_.end(), ComesBefore);
}

std::string StepRows::NameOf(const Timeline& timeline, const DeviceAnnotation& annotation) const {
  if (annotation.step != kNowhere) {
    return "ProfilerStep#" + std::to_string(rows_[annotation.step].step.number);
  }
  return timeline.label(timeline.span(annotation.annotation).label).name;
}

void StepRows::FindParents(const Timeline& timeline) {
  std::vector<SpanId> last(timeline.threads().size(), kNoSpan);  // that began, by thread
  const SpanStore& spans = timeline.spans();
  uint32_t index = 0;
  for (Row& row : rows_) {
    for (; index < row.before_span; ++index) {
      const Span& span = spans.at(index);
      if (!span.is_async) last[Raw(span.thread)] = SpanId{index};
    }
    SpanId around = last[Raw(row.thread)];
    while (around != kNoSpan && spans.at(Raw(around)).end_ns() < row.step.end_ns) {
      around = spans.at(Raw(around)).parent;
    }
    row.parent = around;
  }
}

uint64_t StepRows::NumberOf(SpanId span) const {
  if (rows_.empty()) return Raw(span);
  const auto before =
      std::upper_bound(rows_.begin(), rows_.end(), Raw(span),
                       [](uint32_t index, const Row& row) { return index < row.before_span; });
  return Raw(span) + static_cast<uint64_t>(before - rows_.begin());
}

uint64_t StepRows::ExternalId(const Timeline& timeline, const Span& span, uint64_t number) const {
  if (!IsCudaCall(timeline.label(span.label).category)) return number + 1;
  // Kineto's: the innermost row around it that is no annotation, as of what the call asks for.
  SpanId around = span.parent;
  while (around != kNoSpan &&
         timeline.label(timeline.span(around).label).category != Category::kCpuOp) {
    around = timeline.span(around).parent;
  }
  return around == kNoSpan ? 0 : NumberOf(around) + 1;
}

std::optional<size_t> StepRows::At(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const {
  if (Raw(thread) >= rows_of_thread_.size()) return std::nullopt;
  const std::vector<uint32_t>& rows = rows_of_thread_[Raw(thread)];
  const auto behind = std::upper_bound(
      rows.begin(), rows.end(), start_ns,
      [this](int64_t time_ns, uint32_t row) { return time_ns < rows_[row].step.start_ns; });
  if (behind == rows.begin()) return std::nullopt;
  // Steps of one process do not overlap: no other one can.
  const Step& step = rows_[*(behind - 1)].step;
  if (start_ns >= step.end_ns || end_ns > step.end_ns) return std::nullopt;
  return *(behind - 1);
}

std::optional<size_t> StepRows::ParentOf(const Span& span) const {
  if (span.is_async) return std::nullopt;
  const std::optional<size_t> row = At(span.thread, span.start_ns, span.end_ns());
  return row.has_value() && rows_[*row].parent == span.parent ? row : std::nullopt;
}

std::optional<size_t> StepRows::Around(const Timeline& timeline, const Span& span) const {
  if (rows_.empty()) return std::nullopt;
  const std::optional<size_t> row = At(span.thread, span.start_ns, span.start_ns);
  if (!row.has_value()) return std::nullopt;
  const Span* at = &span;
  while (at->parent != rows_[*row].parent) {
    if (at->parent == kNoSpan) return std::nullopt;
    at = &timeline.span(at->parent);
    if (at->start_ns < rows_[*row].step.start_ns) return std::nullopt;  // and what is around it
  }
  return ParentOf(*at) == row ? row : std::nullopt;
}

}  // namespace proftrace
