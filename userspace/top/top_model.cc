#include "userspace/top/top_model.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>

#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/base/clock.h"
#include "userspace/steps/step_rule.h"
#include "userspace/why/verdict.h"

namespace proftrace {
namespace {

void AddTarget(const Timeline& timeline, TopModel* model) {
  const RecordingInfo& info = timeline.info();
  model->tier = info.tier;
  model->processes = info.targets.size();
  if (info.targets.empty()) return;
  // Takes the process whose steps these are, where that is known; else the first one.
  const Target* target = &info.targets.front();
  for (const Target& other : info.targets) {
    if (model->driver == other.pid) target = &other;
  }
  model->target = absl::StrFormat("PID %d %s", Raw(target->pid), target->comm);
  model->torch_version = target->torch_version;
  if (target->rank.has_value()) {
    model->rank = std::to_string(*target->rank);
    if (target->world_size.has_value()) model->rank += "/" + std::to_string(*target->world_size);
  }
}

void AddSteps(const Aggregates& aggregates, TopModel* model) {
  if (!aggregates.steps.main.has_value()) return;
  const ProcessSteps& process = aggregates.steps.processes[*aggregates.steps.main];
  model->are_steps = true;
  model->is_guess = process.confidence < kGuessBelow;
  model->driver = process.pid;
  model->median_step_ns = process.median_ns;
  model->p99_step_ns = process.p99_ns;
  const std::span<const Step> steps = process.timed_steps();
  for (const Step& step : steps) {
    model->steps.push_back({step.start_ns, step.end_ns - step.start_ns});
  }
  const double seconds = ToSeconds(steps.back().end_ns - steps.front().start_ns);
  if (seconds > 0) model->steps_per_s = static_cast<double>(steps.size()) / seconds;
}

void AddParts(const std::optional<StepParts>& parts, const TopScale& scale, TopModel* model) {
  if (!parts.has_value() || parts->total_ns <= 0) return;
  for (size_t i = 0; i < kStepParts; ++i) {
    if (parts->sum[i] <= 0) continue;
    model->parts.push_back(
        {static_cast<StepPart>(i), scale.Ms(parts->sum[i]),
         static_cast<double>(parts->sum[i]) / static_cast<double>(parts->total_ns)});
  }
  std::stable_sort(model->parts.begin(), model->parts.end(),
                   [](const TopPart& a, const TopPart& b) { return a.ms > b.ms; });
}

void AddDevices(const Timeline& timeline, const Aggregates& aggregates, TopModel* model) {
  for (const DeviceIdle& device : aggregates.device_idle) {
    const auto all = static_cast<double>(device.busy_ns + device.idle_ns);
    if (device.stream.has_value() || all <= 0) continue;
    TopDevice& shown = model->devices.emplace_back();
    shown.pid = device.pid;
    shown.device = device.device;
    shown.busy_share = static_cast<double>(device.busy_ns) / all;
    for (const IdleShare& share : SharesOf(device)) {
      std::string cause(IdleCauseName(share.cause));
      if (share.python != kNoStack) cause += " " + PythonFrameText(timeline, share.python);
      shown.idle.emplace_back(std::move(cause), static_cast<double>(share.ns) / all);
    }
  }
}

void AddCost(const Timeline& timeline, TopModel* model) {
  const Cost& cost = timeline.info().cost;
  model->cost.overhead_percent =
      cost.busiest_thread_percent.value_or(cost.estimated_overhead_percent);
  model->cost.ns_per_hit = cost.jumps > 0 ? cost.ns_per_jump : cost.probe_ns_per_hit;
  model->cost.hits = cost.probe_hits + cost.jumps;
  model->cost.tracer_cpu_s = cost.tracer_cpu_s;
  const Ledger& ledger = timeline.ledger();
  model->lost = ledger.ring_lost + ledger.system_lost + ledger.samples_lost;
  model->has_loss = timeline.any_loss();
}

}  // namespace

std::string_view TopViewName(TopView view) {
  static constexpr std::array<std::string_view, kTopViews> kNames = {
      "operators", "modules", "python", "threads", "files", "waits", "gpu"};
  return kNames[static_cast<size_t>(view)];
}

TopModel BuildTopModel(const Timeline& timeline, const Aggregates& aggregates,
                       const TopThreads& threads) {
  TopModel model;
  const Window& window = timeline.info().window;
  model.window_ns = window.duration_ns;
  model.end_unix_ns = timeline.ToUnixNs(window.start_ns + window.duration_ns);
  AddSteps(aggregates, &model);
  AddTarget(timeline, &model);
  TopScale scale;
  scale.per = model.are_steps ? static_cast<double>(model.steps.size())
                              : std::max(1e-3, ToSeconds(window.duration_ns));
  const std::optional<StepParts> parts = SplitSteps(timeline, aggregates.steps);
  AddParts(parts, scale, &model);
  model.verdict = FindVerdict(timeline, aggregates, parts);
  AddDevices(timeline, aggregates, &model);
  AddCost(timeline, &model);
  AddTopTables(timeline, aggregates, threads, scale, &model);
  return model;
}

}  // namespace proftrace
