#include "userspace/compare/run_profile.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/base/saturating.h"
#include "userspace/base/shown_text.h"
#include "userspace/compare/batches.h"
#include "userspace/compare/sampled_functions.h"
#include "userspace/why/verdict.h"

namespace proftrace {
namespace {

// Returns the steps of the driving thread alone, because steps of other threads are counted apart.
std::span<const Step> StepsOf(const Aggregates& aggregates) {
  const Steps& steps = aggregates.steps;
  if (!steps.main.has_value()) return {};
  return steps.processes[*steps.main].timed_steps();
}

struct OperatorSums {
  std::vector<int64_t> by_batch;
  uint64_t calls = 0;  // in steps
  int64_t total_ns = 0;
  uint64_t total_calls = 0;
};

std::vector<NamedTime> ProfileOperators(const Timeline& timeline, const Aggregates& aggregates,
                                        Pid pid, const Batches& batches) {
  // The parts are about the last of them.
  const std::span<const Step> timed = StepsOf(aggregates);
  const std::span<const Step> steps = timed.last(std::min(batches.steps(), timed.size()));
  std::vector<OperatorSums> by_label(timeline.labels().size());
  ForEachSpan(timeline, [&](SpanId, const Span& span) {
    if (span.is_apart || !span.is_complete()) return;
    if (timeline.thread(span.thread).pid != pid) return;
    if (timeline.label(span.label).category != Category::kCpuOp) return;
    OperatorSums& sums = by_label[Raw(span.label)];
    sums.total_ns = SaturatingSum(sums.total_ns, span.self_ns);
    ++sums.total_calls;
    if (steps.empty()) return;
    const Step* const step = aggregates.steps.At(span.thread, span.start_ns);
    if (step < steps.data() || step >= steps.data() + steps.size()) return;
    sums.by_batch.resize(batches.count());
    int64_t& sum = sums.by_batch[batches.Of(static_cast<size_t>(step - steps.data()))];
    sum = SaturatingSum(sum, span.self_ns);
    ++sums.calls;
  });

  absl::flat_hash_map<std::string, OperatorSums> by_name;
  for (size_t i = 0; i < by_label.size(); ++i) {
    const OperatorSums& sums = by_label[i];
    if (sums.total_calls == 0) continue;
    OperatorSums& all = by_name[timeline.label(LabelId{static_cast<uint32_t>(i)}).name];
    all.by_batch.resize(batches.count());
    for (size_t batch = 0; batch < sums.by_batch.size(); ++batch) {
      all.by_batch[batch] = SaturatingSum(all.by_batch[batch], sums.by_batch[batch]);
    }
    all.calls += sums.calls;
    all.total_calls += sums.total_calls;
    all.total_ns = SaturatingSum(all.total_ns, sums.total_ns);
  }

  std::vector<NamedTime> operators;
  const auto count = static_cast<double>(std::max<size_t>(steps.size(), 1));
  for (const auto& [name, sums] : by_name) {
    operators.push_back({name, batches.Mean(sums.by_batch), static_cast<double>(sums.calls) / count,
                         sums.total_ns, sums.total_calls});
  }
  std::sort(operators.begin(), operators.end(),
            [](const NamedTime& a, const NamedTime& b) { return a.name < b.name; });
  return operators;
}

// Returns "encoder.layers.0 (Linear)". Modules without a path are one entry per class.
std::string ModuleName(const PythonModule& module) {
  if (!module.has_path) return module.class_name;
  return (module.path.empty() ? "(whole)" : module.path) + " (" + module.class_name + ")";
}

// Profiles modules. A module's time is known for the window as a whole only, so that its error is
// derived from the error of the steps: the smaller a module's part of the steps, the larger its
// relative error.
std::vector<NamedTime> ProfileModules(const Timeline& timeline, const Aggregates& aggregates,
                                      Pid pid, const StepTime& step) {
  // Where the number of steps in the window cannot be told, the steps that were found count.
  const auto found = static_cast<double>(std::max<size_t>(StepsOf(aggregates).size(), 1));
  const double steps = StepsInWindow(timeline, aggregates.steps).value_or(found);
  absl::flat_hash_map<std::string, NamedTime> by_name;
  for (const ModuleTimes& times : aggregates.modules.modules) {
    const PythonModule& module = timeline.python_modules()[times.module];
    if (module.pid != pid) continue;
    NamedTime& named = by_name[ModuleName(module)];
    named.calls += static_cast<double>(times.calls) / steps;
    named.total_calls += times.calls;
    named.total_ns =
        SaturatingSum(named.total_ns, SaturatingSum(times.self_forward_ns, times.self_backward_ns));
  }
  std::vector<NamedTime> modules;
  for (auto& [name, named] : by_name) {
    named.name = name;
    named.time.mean_ns = static_cast<double>(named.total_ns) / steps;
    if (step.error_ns && step.mean_ns > 0) {
      named.time.error_ns =
          *step.error_ns * std::sqrt(std::max(0.0, named.time.mean_ns) / step.mean_ns);
    }
    modules.push_back(std::move(named));
  }
  std::sort(modules.begin(), modules.end(),
            [](const NamedTime& a, const NamedTime& b) { return a.name < b.name; });
  return modules;
}

void ProfileParts(const StepParts& parts, const Batches& batches, RunProfile* profile) {
  std::array<std::vector<int64_t>, kStepParts> sums;
  for (std::vector<int64_t>& of_part : sums) of_part.resize(batches.count());
  std::vector<int64_t> all(batches.count());
  for (const PartMoment& moment : parts.moments) {
    const size_t batch = batches.Of(moment.step);
    const int64_t ns = moment.end_ns - moment.start_ns;
    sums[static_cast<size_t>(moment.part)][batch] += ns;
    all[batch] += ns;
  }
  for (size_t part = 0; part < kStepParts; ++part) profile->parts[part] = batches.Mean(sums[part]);
  profile->step = batches.Mean(all);
  profile->part_totals = parts.sum;
}

// Returns the words as they can be shown. Python's own path tells nothing of the job.
std::string CommandText(const std::vector<std::string>& words) {
  constexpr size_t kLongest = 160;
  std::string text = absl::StrJoin(words, " ");
  if (!words.empty()) text.erase(0, words.front().rfind('/') + 1);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return ShownText(text);
}

// Returns the name of the script, without folders; empty: the process runs none.
std::string ScriptOf(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.ends_with(".py")) return word.substr(word.rfind('/') + 1);
  }
  return "";
}

void ProfileRecording(const Timeline& timeline, Pid pid, RunProfile* profile) {
  const RecordingInfo& info = timeline.info();
  profile->host = info.host.name;
  profile->tier = info.tier;
  for (const Target& target : info.targets) {
    if (target.pid != pid) continue;
    profile->torch_version = target.torch_version;
    profile->command = CommandText(target.cmdline);
    profile->script = ScriptOf(target.cmdline);
  }
  profile->options = {"--activities " + info.system.ToText()};
  if (timeline.has_inputs()) profile->options.emplace_back("--record-shapes");
  if (!timeline.python_modules().empty()) {
    profile->options.emplace_back("--with-modules");
  } else if (timeline.has_stacks()) {
    profile->options.emplace_back("--with-stack");
  }
  if (!timeline.samples().empty()) profile->options.emplace_back("--sample");
  if (timeline.has_memory()) profile->options.emplace_back("--profile-memory");
  profile->overhead_percent =
      info.cost.busiest_thread_percent.value_or(info.cost.estimated_overhead_percent);
  profile->has_loss = timeline.any_record_lost();
  profile->has_calls = info.system.calls || info.system.io;
  profile->has_faults = info.system.faults;
  profile->window_ns = info.window.duration_ns;
}

}  // namespace

std::optional<RunProfile> ProfileRun(const Timeline& timeline, const Aggregates& aggregates) {
  const std::optional<StepParts> parts = SplitSettledSteps(timeline, aggregates.steps);
  if (!parts.has_value()) return std::nullopt;
  RunProfile profile;
  ProfileRecording(timeline, parts->pid, &profile);
  profile.has_waits = parts->has_kernel;
  profile.are_steps = parts->are_steps;
  if (parts->are_steps) {
    profile.steps = parts->intervals.size();
  } else {
    profile.window_ns = parts->total_ns;
  }
  const Batches batches(parts->intervals.size());
  ProfileParts(*parts, batches, &profile);
  profile.operators = ProfileOperators(timeline, aggregates, parts->pid, batches);
  profile.has_modules = !aggregates.modules.modules.empty();
  profile.modules = ProfileModules(timeline, aggregates, parts->pid, profile.step);
  profile.has_samples = !timeline.samples().empty();
  profile.functions = ProfileFunctions(timeline, *parts, batches);
  profile.verdict = FindVerdict(timeline, aggregates);
  if (parts->are_steps) profile.median_ns = profile.verdict.median_step_ns;
  return profile;
}

}  // namespace proftrace
