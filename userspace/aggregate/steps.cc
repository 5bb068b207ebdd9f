#include "userspace/aggregate/steps.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "userspace/aggregate/compilations.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/base/saturating.h"
#include "userspace/steps/step_rounds.h"

namespace proftrace {
namespace {

// The most items of a thread that are kept to learn from: a few seconds of the busiest jobs, 12
// MiB.
constexpr size_t kMaxItems = 1u << 19;
// The most threads of a process whose steps are looked for. Pools of servers are rarely larger.
constexpr size_t kMaxThreads = 64;
// The least part of the time in operators: steps of threads that do less are not the job's steps.
constexpr double kMostOfWork = 0.5;
// How alike the rounds of two threads must be for their loops to be of the same kind.
constexpr double kSameLoop = 0.6;

// Returns the step that a time lies in; nullptr: none.
const Step* StepAt(const std::vector<Step>& steps, int64_t time_ns) {
  auto it = std::upper_bound(steps.begin(), steps.end(), time_ns,
                             [](int64_t time, const Step& step) { return time < step.start_ns; });
  if (it == steps.begin()) return nullptr;
  --it;
  return time_ns < it->end_ns ? &*it : nullptr;
}

// The facts that a first pass finds about a thread.
struct ThreadLook {
  uint64_t profiler_steps = 0;
  uint64_t optimizer_steps = 0;
  uint64_t loader_nexts = 0;
  size_t items = 0;
  int64_t busy_ns = 0;
  int64_t backward_ns = 0;   // of it
  bool has_workers = false;  // it uses a DataLoader with workers, in processes of their own

  // Returns whether this thread is more likely to drive the loop than `other`.
  bool IsBetter(const ThreadLook& other) const {
    if (profiler_steps != other.profiler_steps) return profiler_steps > other.profiler_steps;
    if (optimizer_steps != other.optimizer_steps) return optimizer_steps > other.optimizer_steps;
    if (loader_nexts != other.loader_nexts) return loader_nexts > other.loader_nexts;
    return busy_ns > other.busy_ns;
  }
};

// Visits the items of a timeline: the spans that lie in no row except annotations.
class ItemWalk {
 public:
  explicit ItemWalk(const Timeline& timeline)
      : timeline_(timeline), compilations_(FindCompilations(timeline)) {
    for (uint32_t i = 0; i < timeline.labels().size(); ++i) {
      const Label& label = timeline.label(LabelId{i});
      // All versions of compiled code are the same item.
      if (IsCompiledRegion(label.name) && !region_) region_ = i;
      symbols_.push_back(IsCompiledRegion(label.name) ? *region_ : i);
      classes_.push_back(ClassifyItem(label.name, label.overload_name,
                                      label.kind == SpanKind::kAnnotation,
                                      label.kind == SpanKind::kAutograd));
      // In 1.13 to 2.11 the row's name contains that of the class (torch/utils/data/dataloader.py).
      is_of_workers_.push_back(classes_.back() == ItemClass::kLoaderNext &&
                               label.name.find("MultiProcessing") != std::string::npos);
    }
  }

  // Returns whether the item waits for workers of a DataLoader.
  bool IsOfWorkers(const StepItem& item) const { return is_of_workers_[item.symbol]; }

  template <typename Visitor>
  void Run(Visitor&& visit) const {
    Run(std::forward<Visitor>(visit), [](ThreadIndex) {});
  }
  // `visit_batch` is called for spans in an iterator of a DataLoader that is the thread's last
  // item.
  template <typename Visitor, typename BatchVisitor>
  void Run(Visitor&& visit, BatchVisitor&& visit_batch) const {
    std::vector<bool> is_open_to(timeline_.span_count());  // its children are items
    std::vector<size_t> compiled(compilations_.size());    // by thread: those that are over
    ForEachSpan(timeline_, [&](SpanId id, const Span& span) {
      if (span.parent != kNoSpan && !is_open_to[Raw(span.parent)]) {
        const Span& parent = timeline_.span(span.parent);
        if (classes_[Raw(parent.label)] == ItemClass::kLoaderNext) visit_batch(span.thread);
        return;
      }
      const ItemClass item_class = classes_[Raw(span.label)];
      const uint32_t thread = Raw(span.thread);
      if (!compilations_.empty() &&
          IsCompiling(compilations_[thread], span.start_ns, &compiled[thread])) {
        return;
      }
      is_open_to[Raw(id)] = item_class == ItemClass::kAnnotation;
      if (span.is_async || timeline_.label(span.label).kind == SpanKind::kCollection) return;
      StepItem item;
      item.start_ns = span.start_ns;
      item.end_ns = span.end_ns();
      item.symbol = symbols_[Raw(span.label)];
      item.item_class = item_class;
      item.may_be_entering = timeline_.label(span.label).name == "aten::zeros";
      item.is_open = !span.is_complete();
      visit(span.thread, item);
    });
  }

 private:
  const Timeline& timeline_;
  std::vector<std::vector<Compilation>> compilations_;  // by ThreadIndex; empty: there are none
  std::vector<ItemClass> classes_;
  std::optional<uint32_t> region_;   // the first label of compiled code
  std::vector<uint32_t> symbols_;    // by LabelId
  std::vector<bool> is_of_workers_;  // by LabelId
};

// The threads of a process that may drive its loop, the most likely ones first.
struct Candidates {
  std::vector<uint32_t> threads;
  std::vector<uint32_t> all;  // that have items
  size_t items = 0;           // that are kept of them
  bool is_worker = false;     // it is a worker of a DataLoader in its parent
};

// Marks the children of processes that have DataLoaders with workers as such workers. A worker goes
// through a dataset in rounds of its own, which are no steps of the job.
void FindWorkers(const RecordingInfo& info, const std::set<uint32_t>& loaders,
                 std::map<uint32_t, Candidates>* by_process) {
  for (const Target& target : info.targets) {
    const auto process = by_process->find(Raw(target.pid));
    if (process != by_process->end() && loaders.contains(Raw(target.ppid))) {
      process->second.is_worker = true;
    }
  }
}

// Returns the candidates by process.
std::map<uint32_t, Candidates> CandidateThreads(const Timeline& timeline, const ItemWalk& walk,
                                                size_t most_items, std::vector<ThreadLook>* found) {
  std::vector<ThreadLook>& looks = *found;
  looks.resize(timeline.threads().size());
  walk.Run([&](ThreadIndex thread, const StepItem& item) {
    ThreadLook& look = looks[Raw(thread)];
    look.profiler_steps += item.item_class == ItemClass::kProfilerStep;
    look.optimizer_steps += item.item_class == ItemClass::kOptimizerStep;
    look.loader_nexts += item.item_class == ItemClass::kLoaderNext;
    look.has_workers |= walk.IsOfWorkers(item);
    ++look.items;
    if (item.item_class == ItemClass::kAnnotation) return;
    look.busy_ns += item.end_ns - item.start_ns;
    if (IsBackward(item.item_class)) look.backward_ns += item.end_ns - item.start_ns;
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
    candidates.all = threads;
    if (threads.size() > kMaxThreads) threads.resize(kMaxThreads);
    size_t kept = 0;
    for (; kept < threads.size(); ++kept) {
      const size_t items = std::min(looks[threads[kept]].items, kMaxItems);
      if (kept > 0 && candidates.items + items > most_items) break;
      candidates.items += items;
    }
    threads.resize(kept);
  }
  FindWorkers(timeline.info(), loaders, &by_process);
  return by_process;
}

// Returns the time from which on a process was recorded.
int64_t ProbesOn(const RecordingInfo& info, Pid pid) {
  for (const Target& target : info.targets) {
    if (target.pid == pid) return std::max(target.probes_on_ns, info.window.start_ns);
  }
  return info.window.start_ns;
}

// Returns the N of "ProfilerStep#N"; nullopt: the name is another one.
std::optional<int64_t> NumberOfAnnotation(std::string_view name) {
  const size_t hash = name.find('#');
  int64_t number = 0;
  const char* end = name.data() + name.size();
  if (hash == std::string_view::npos) return std::nullopt;
  const auto [last, error] = std::from_chars(name.data() + hash + 1, end, number);
  if (last != end || error != std::errc()) return std::nullopt;
  return number;
}

// Returns the durations of steps, the shortest first.
std::vector<int64_t> DurationsOf(std::span<const Step> steps) {
  std::vector<int64_t> durations;
  for (const Step& step : steps) durations.push_back(step.end_ns - step.start_ns);
  std::sort(durations.begin(), durations.end());
  return durations;
}

// Returns the percentile by the nearest rank; 0: there is no duration.
int64_t Percentile(const std::vector<int64_t>& sorted, size_t percent) {
  return sorted.empty() ? 0 : sorted[(sorted.size() * percent + 99) / 100 - 1];
}

void SetDurations(ProcessSteps* process) {
  constexpr size_t kFewest = 8;  // steps that tell how long a thread's steps take
  std::vector<int64_t> durations = DurationsOf(process->timed_steps());
  process->own_median_ns = Percentile(durations, 50);
  const bool is_known = durations.size() >= kFewest;
  std::vector<int64_t> of_all = durations;
  for (ThreadSteps& other : process->others) {
    const std::vector<int64_t> its = DurationsOf(other.steps);
    other.median_ns = Percentile(its, 50);
    of_all.insert(of_all.end(), its.begin(), its.end());
    if (!is_known || its.size() < kFewest) continue;
    const auto [less_ns, more_ns] = std::minmax(process->own_median_ns, other.median_ns);
    if (more_ns > 2 * less_ns) process->are_alike = false;
  }
  if (process->are_alike) {
    durations = std::move(of_all);
    std::sort(durations.begin(), durations.end());
  }
  process->median_ns = Percentile(durations, 50);
  process->p99_ns = Percentile(durations, 99);
}

std::vector<Step> StepsOf(const Timeline& timeline, const StepFinder& finder) {
  std::vector<Step> steps;
  int64_t number = 0;
  for (const FoundStep& found : finder.steps()) {
    Step step{found.start_ns, found.end_ns, number, found.is_cut};
    if (finder.rule().kind == StepRule::Kind::kProfilerStep) {
      step.number = NumberOfAnnotation(timeline.label(LabelId{found.symbol}).name).value_or(number);
    }
    number = SaturatingSum(step.number, 1);  // the job may name them as it likes
    steps.push_back(step);
  }
  return steps;
}

ProcessSteps MakeProcess(const Timeline& timeline, ThreadIndex thread, const StepFinder& finder) {
  ProcessSteps process;
  process.pid = timeline.thread(thread).pid;
  process.thread = thread;
  process.how = finder.rule().how;
  process.confidence = finder.confidence();
  process.are_annotated = finder.rule().kind == StepRule::Kind::kProfilerStep;
  process.steps = StepsOf(timeline, finder);
  return process;
}

// Returns whether two threads run loops of the same kind.
bool AreOfOneKind(const StepRule& a, const StepRule& b) {
  if (a.ends_with_marker() && b.ends_with_marker()) return true;
  if (a.kind != b.kind) return false;
  if (a.kind == StepRule::Kind::kProfilerStep) return true;
  if (a.slots.empty() || b.slots.empty()) return false;
  return Similarity(a.slots.front(), b.slots.front()) >= kSameLoop;
}

// Numbers the steps of several threads together, in the order of their start.
void NumberTogether(ProcessSteps* process) {
  if (process->others.empty() || process->are_annotated) return;
  std::vector<Step*> all;
  for (Step& step : process->steps) all.push_back(&step);
  for (ThreadSteps& other : process->others) {
    for (Step& step : other.steps) all.push_back(&step);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Step* a, const Step* b) { return a->start_ns < b->start_ns; });
  for (size_t i = 0; i < all.size(); ++i) all[i]->number = static_cast<int64_t>(i);
}

// Returns the steps that the recorder itself found because it was asked to count steps; nullopt:
// there are none.
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

// Finds the processes among `candidates` that have steps, each with those of its best thread that
// has some.
void FindProcesses(const Timeline& timeline, const ItemWalk& walk,
                   const std::vector<const Candidates*>& candidates, std::set<uint32_t>* looping,
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
  walk.Run(
      [&](ThreadIndex thread, const StepItem& item) {
        if (finders[Raw(thread)] != nullptr) finders[Raw(thread)]->Add(item);
      },
      [&](ThreadIndex thread) {
        StepItem* next = finders[Raw(thread)] != nullptr ? finders[Raw(thread)]->last() : nullptr;
        if (next != nullptr) next->has_calls = true;
      });
  for (const Candidates* process : candidates) {
    const StepFinder* first = nullptr;
    for (const uint32_t thread : process->threads) {
      StepFinder& finder = *finders[thread];
      finder.Look(end_ns);
      if (finder.count() == 0) continue;
      if (process->is_worker && finder.rule().kind == StepRule::Kind::kPeriodic) continue;
      looping->insert(thread);
      if (first == nullptr) {
        first = &finder;
        processes->push_back(MakeProcess(timeline, ThreadIndex{thread}, finder));
      } else if (AreOfOneKind(first->rule(), finder.rule())) {
        ProcessSteps& made = processes->back();
        made.others.push_back({ThreadIndex{thread}, StepsOf(timeline, finder)});
        made.confidence = std::min(made.confidence, finder.confidence());
      }
    }
    if (first == nullptr || processes->back().others.empty()) continue;
    ProcessSteps& made = processes->back();
    std::sort(
        made.others.begin(), made.others.end(),
        [](const ThreadSteps& a, const ThreadSteps& b) { return Raw(a.thread) < Raw(b.thread); });
    NumberTogether(&made);
  }
}

// Finds whether threads work for the thread that drives the loop. They do if they do about as much
// in each of its steps.
class EvenWork {
 public:
  explicit EvenWork(const ProcessSteps& process)
      : process_(process), items_of_step_(process.steps.size()) {}

  void Add(const StepItem& item) {
    const Step* step = StepAt(process_.steps, item.start_ns);
    if (step == nullptr) return;
    ++items_of_step_[static_cast<size_t>(step - process_.steps.data())];
  }
  bool IsEven() const {
    constexpr double kMost = 0.8;   // of the steps
    constexpr double kNear = 0.15;  // of the number
    std::vector<int64_t> counts = items_of_step_;
    const auto usual = static_cast<double>(ReorderingMedian(counts));
    const auto near = std::count_if(counts.begin(), counts.end(), [usual](int64_t count) {
      return std::abs(static_cast<double>(count) - usual) <= kNear * usual;
    });
    return usual > 0 && static_cast<double>(near) >= kMost * static_cast<double>(counts.size());
  }

 private:
  const ProcessSteps& process_;
  std::vector<int64_t> items_of_step_;
};

// Sets which threads belong to steps. Halves the confidence of a process's steps where its threads
// with steps do less than kMostOfWork of its work.
void SetThreads(const Timeline& timeline, const ItemWalk& walk,
                const std::map<uint32_t, Candidates>& candidates,
                const std::vector<ThreadLook>& looks, const std::set<uint32_t>& looping,
                Steps* steps) {
  std::vector<std::optional<uint32_t>>& of_thread = steps->process_of_thread;
  of_thread.resize(timeline.threads().size());
  std::vector<EvenWork> work;
  std::vector<std::vector<uint32_t>> may_help(steps->processes.size());
  std::vector<std::optional<uint32_t>> asked(timeline.threads().size());
  for (uint32_t i = 0; i < steps->processes.size(); ++i) {
    ProcessSteps& process = steps->processes[i];
    work.emplace_back(process);
    of_thread[Raw(process.thread)] = i;
    for (const ThreadSteps& other : process.others) of_thread[Raw(other.thread)] = i;
    const auto found = candidates.find(Raw(process.pid));
    if (found == candidates.end()) continue;
    for (const uint32_t thread : found->second.all) {
      if (of_thread[thread].has_value() || looping.contains(thread)) continue;
      if (!process.others.empty()) continue;  // it is not known for which of the threads it works
      if (looks[thread].backward_ns * 2 > looks[thread].busy_ns) {
        of_thread[thread] = i;  // a thread of autograd's engine, for a backward pass
      } else {
        may_help[i].push_back(thread);
        asked[thread] = i;
      }
    }
  }
  walk.Run([&](ThreadIndex thread, const StepItem& item) {
    if (asked[Raw(thread)].has_value()) work[*asked[Raw(thread)]].Add(item);
  });
  for (uint32_t i = 0; i < steps->processes.size(); ++i) {
    ProcessSteps& process = steps->processes[i];
    if (work[i].IsEven()) {
      for (const uint32_t thread : may_help[i]) of_thread[thread] = i;
    }
    const auto found = candidates.find(Raw(process.pid));
    if (found == candidates.end()) continue;
    int64_t own_ns = 0;
    int64_t all_ns = 0;
    size_t others = 0;
    for (const uint32_t thread : found->second.all) {
      const int64_t work_ns = looks[thread].busy_ns - looks[thread].backward_ns;
      all_ns = SaturatingSum(all_ns, work_ns);
      if (of_thread[thread].has_value()) own_ns = SaturatingSum(own_ns, work_ns);
      others += !of_thread[thread].has_value();
    }
    if (!process.others.empty()) {
      process.how += ", in " + std::to_string(process.others.size() + 1) + " threads";
    }
    if (static_cast<double>(own_ns) >= kMostOfWork * static_cast<double>(all_ns)) continue;
    process.how += "; " + std::to_string(others) +
                   " other threads, which together have much of the work, are left out";
    process.confidence *= 0.5;
  }
}

// Returns the process that stands for the recording: the first of those with the best evidence.
std::optional<size_t> MainProcess(const std::vector<ProcessSteps>& processes) {
  std::optional<size_t> main;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (!main.has_value() || processes[i].confidence > processes[*main].confidence + 0.1) main = i;
  }
  return main;
}

}  // namespace

std::span<const Step> ProcessSteps::timed_steps() const {
  const bool is_left_out = steps.size() > 1 && steps.back().is_cut;
  return std::span(steps).first(steps.size() - (is_left_out ? 1 : 0));
}

size_t ProcessSteps::count() const {
  size_t count = steps.size();
  for (const ThreadSteps& other : others) count += other.steps.size();
  return count;
}

const Step* Steps::At(ThreadIndex thread, int64_t time_ns) const {
  const std::optional<uint32_t> index = process_of_thread[Raw(thread)];
  if (!index.has_value()) return nullptr;
  const ProcessSteps& process = processes[*index];
  const auto other = std::lower_bound(
      process.others.begin(), process.others.end(), thread,
      [](const ThreadSteps& one, ThreadIndex asked) { return Raw(one.thread) < Raw(asked); });
  const bool is_others = other != process.others.end() && other->thread == thread;
  return StepAt(is_others ? other->steps : process.steps, time_ns);
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
  const auto in_window = [&](const std::vector<Step>& steps_of_thread) {
    return static_cast<double>(steps_of_thread.size()) +
           part(window.start_ns, steps_of_thread.front().start_ns) +
           part(steps_of_thread.back().end_ns, end_ns);
  };
  double all = in_window(main.steps);
  for (const ThreadSteps& other : main.others) all += in_window(other.steps);
  return all;
}

Steps FindSteps(const Timeline& timeline, size_t most_items) {
  const ItemWalk walk(timeline);
  std::vector<ThreadLook> looks;
  const std::map<uint32_t, Candidates> candidates =
      CandidateThreads(timeline, walk, most_items, &looks);
  std::set<uint32_t> looping;  // threads that go round loops of their own
  Steps steps;
  std::vector<const Candidates*> together;
  size_t items = 0;
  const auto find = [&] {
    FindProcesses(timeline, walk, together, &looping, &steps.processes);
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
  SetThreads(timeline, walk, candidates, looks, looping, &steps);
  steps.main = MainProcess(steps.processes);
  return steps;
}

}  // namespace proftrace
