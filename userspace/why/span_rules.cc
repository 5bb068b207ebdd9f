// Rules of the work itself: operators, calls of CUDA, and Python between them.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/python_moments.h"
#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/rules.h"

namespace proftrace {
namespace {

// Of all time in steps: from here on one operator is what there is to say.
constexpr double kOneOperator = 0.3;
// What dispatching an operator costs is of this order: below it, more of the time goes there than
// into the work.
constexpr int64_t kSmallNs = 12'000;
constexpr uint64_t kManyOperators = 50;  // in a step
constexpr int64_t kSmallPart = 5;        // they take a fifth of the time
constexpr size_t kNamedOperators = 3;
// Fewer samples tell nothing.
constexpr uint64_t kFewestSamples = 10;

struct OperatorSums {
  int64_t self_ns = 0;
  uint64_t calls = 0;
  absl::flat_hash_map<uint32_t, int64_t> by_inputs;  // InputsId
};

// What each operator of the driving thread computed: its own time, as far as it is the steps' time
// in operators.
class OperatorTable {
 public:
  explicit OperatorTable(const Case& job)
      : job_(job), moment_(job.parts.moments.begin()), sums_(job.timeline.labels().size()) {
    ForEachSpan(job.timeline, [&](SpanId id, const Span& span) { Add(id, span); });
    SpendUntil(std::numeric_limits<int64_t>::max());
    for (uint32_t i = 0; i < sums_.size(); ++i) {
      if (sums_[i].calls > 0) order_.push_back(LabelId{i});
    }
    std::sort(order_.begin(), order_.end(),
              [&](LabelId a, LabelId b) { return of(a).self_ns > of(b).self_ns; });
  }

  const std::vector<LabelId>& order() const { return order_; }  // the longest self time first
  const OperatorSums& of(LabelId label) const { return sums_[Raw(label)]; }
  uint64_t calls() const { return calls_; }

  // "aten::addmm (12.4 ms a step, 48 calls)"
  std::string Text(LabelId label) const {
    const OperatorSums& sums = of(label);
    const double calls = static_cast<double>(sums.calls) / static_cast<double>(job_.steps());
    return ShownText(job_.timeline.label(label).name) + " (" +
           DurationText(job_.AStep(sums.self_ns)) +
           absl::StrFormat(job_.parts.are_steps ? " a step, %.*f calls)" : ", %.*f calls)",
                           calls < 10 ? 1 : 0, calls);
  }

  // The shapes that most of its time went into; empty: not recorded.
  std::string ShapesText(LabelId label) const {
    const OperatorSums& sums = of(label);
    const auto most =
        std::max_element(sums.by_inputs.begin(), sums.by_inputs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == sums.by_inputs.end()) return "";
    const std::string& shapes = job_.timeline.inputs()[most->first].shapes;
    if (shapes.empty()) return "";
    return PercentText(most->second, sums.self_ns) + " of it with inputs of " + ShownText(shapes);
  }

 private:
  struct Open {
    int64_t end_ns = 0;
    LabelId label{};
    InputsId inputs = kNoInputs;
  };

  void Add(SpanId id, const Span& span) {
    if (span.thread != job_.parts.thread || span.is_apart) return;
    if (job_.timeline.label(span.label).category != Category::kCpuOp) return;
    SpendUntil(span.start_ns);
    const bool has_inputs = job_.timeline.inputs_of(id) != nullptr;
    open_.push_back({span.end_ns(), span.label,
                     has_inputs ? job_.timeline.columns().inputs.at(id) : kNoInputs});
    const PartMoment* moment = job_.parts.At(span.start_ns);
    if (moment == nullptr || moment->part == StepPart::kData ||
        moment->part == StepPart::kBetween) {
      return;
    }
    ++sums_[Raw(span.label)].calls;
    ++calls_;
  }

  void SpendUntil(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      SpendInside(open_.back().end_ns);
      open_.pop_back();
    }
    SpendInside(time_ns);
  }

  // Gives the time up to then to the innermost operator.
  void SpendInside(int64_t time_ns) {
    if (time_ns <= now_ns_) return;
    const int64_t from_ns = std::exchange(now_ns_, time_ns);
    if (open_.empty()) return;
    const std::vector<PartMoment>& moments = job_.parts.moments;
    while (moment_ != moments.end() && moment_->end_ns <= from_ns) ++moment_;
    for (auto at = moment_; at != moments.end() && at->start_ns < time_ns; ++at) {
      if (at->part != StepPart::kOperators) continue;
      const int64_t ns = std::min(at->end_ns, time_ns) - std::max(at->start_ns, from_ns);
      OperatorSums& sums = sums_[Raw(open_.back().label)];
      sums.self_ns += ns;
      if (open_.back().inputs != kNoInputs) sums.by_inputs[Raw(open_.back().inputs)] += ns;
    }
  }

  const Case& job_;
  std::vector<PartMoment>::const_iterator moment_;
  int64_t now_ns_ = std::numeric_limits<int64_t>::min();
  std::vector<Open> open_;          // the innermost last
  std::vector<OperatorSums> sums_;  // by label
  std::vector<LabelId> order_;
  uint64_t calls_ = 0;
};

// The module in whose own operators, forward and backward, most time went; empty: not recorded.
std::string ModuleText(const Case& job) {
  const ModuleTimes* most = nullptr;
  const auto self_ns = [](const ModuleTimes& times) {
    return times.self_forward_ns + times.self_backward_ns;
  };
  for (const ModuleTimes& times : job.aggregates.modules.modules) {
    if (most == nullptr || self_ns(times) > self_ns(*most)) most = &times;
  }
  if (most == nullptr || self_ns(*most) <= 0) return "";
  const PythonModule& module = job.timeline.python_modules()[most->module];
  std::string text = "Of the modules, " + ShownText(module.class_name);
  if (module.has_path && !module.path.empty()) text += " " + ShownText(module.path);
  return text + " takes the most: " + DurationText(job.AStep(most->self_forward_ns)) +
         " forward and " + DurationText(job.AStep(most->self_backward_ns)) + " backward a step.";
}

struct PythonPlaces {
  std::map<std::string, int64_t> by_function;  // ns, or looks of samples
  int64_t all = 0;
  int64_t waiting = 0;  // of samples
  bool are_samples = false;
};

PythonPlaces PlacesOfSamples(const Case& job) {
  PythonPlaces places;
  places.are_samples = true;
  for (const Sample& sample : job.timeline.samples()) {
    if (sample.thread != job.parts.thread) continue;
    for (uint32_t i = 0; i < sample.count; ++i) {
      const int64_t time_ns = sample.time_ns + static_cast<int64_t>(i) * sample.period_ns;
      if (!job.parts.IsIn(StepPart::kPython, time_ns)) continue;
      ++places.all;
      if (sample.state == SampleState::kSleeping || sample.state == SampleState::kUninterruptible) {
        ++places.waiting;
      }
      for (uint32_t frame = sample.frame; frame != 0;) {
        const SampleFrame& at = job.timeline.sample_frames()[frame];
        if (job.timeline.sample_function(at).kind == SampleFrameKind::kPython) {
          ++places.by_function[ShownText(SampleLineText(job.timeline, at))];
          break;
        }
        frame = at.parent;
      }
    }
  }
  return places;
}

PythonPlaces PlacesOfStacks(const Case& job) {
  PythonPlaces places;
  PythonMoments rows;
  const PythonRows& python = job.aggregates.python_rows;
  for (uint32_t i = 0; i < python.size(); ++i) {
    if (python.at(i).thread == job.parts.thread) rows.OnRow(python.at(i));
  }
  const std::vector<PythonMoment> in_python = rows.Take();
  auto at = in_python.begin();
  for (const PartMoment& moment : job.parts.moments) {
    if (moment.part != StepPart::kPython) continue;
    places.all += moment.end_ns - moment.start_ns;
    while (at != in_python.end() && at->end_ns <= moment.start_ns) ++at;
    for (auto of = at; of != in_python.end() && of->start_ns < moment.end_ns; ++of) {
      const int64_t ns =
          std::min(of->end_ns, moment.end_ns) - std::max(of->start_ns, moment.start_ns);
      places.by_function[ShownText(PythonFrameText(job.timeline, of->frame))] += ns;
    }
  }
  return places;
}

}  // namespace

std::optional<Finding> FindOperators(const Case& job) {
  const OperatorTable table(job);
  if (table.order().empty()) return std::nullopt;
  Finding finding;
  finding.ns = job.parts.of(StepPart::kOperators);
  const OperatorSums& first = table.of(table.order().front());
  const uint64_t calls_a_step = table.calls() / job.steps();
  const int64_t mean_ns = finding.ns / static_cast<int64_t>(table.calls());
  if (static_cast<double>(first.self_ns) >=
      kOneOperator * static_cast<double>(job.parts.total_ns)) {
    finding.kind = FindingKind::kOneOperator;
    finding.what = "operators compute, " +
                   ShownText(job.timeline.label(table.order().front()).name) + " most of all";
  } else if (mean_ns < kSmallNs && calls_a_step >= kManyOperators &&
             kSmallPart * finding.ns >= job.parts.total_ns) {
    finding.kind = FindingKind::kSmallOperators;
    finding.certainty = Certainty::kLikely;
    finding.what = "many small operators";
    finding.evidence.push_back(absl::StrFormat(
        "%d operators a step take %s each: as much goes into calling them as into what they do. "
        "Larger batches, fused operators (torch.compile, foreach optimizers) call fewer.",
        calls_a_step, DurationText(mean_ns)));
  } else {
    finding.kind = FindingKind::kOperators;
    finding.what = "operators compute";
  }
  std::string text;
  for (size_t i = 0; i < std::min(kNamedOperators, table.order().size()); ++i) {
    text += (i == 0 ? "The longest: " : ", ") + table.Text(table.order()[i]);
  }
  finding.evidence.push_back(text + ".");
  const std::string shapes = table.ShapesText(table.order().front());
  if (!shapes.empty()) {
    finding.evidence.push_back(ShownText(job.timeline.label(table.order().front()).name) +
                               " spent " + shapes + ".");
  }
  const std::string module = ModuleText(job);
  if (!module.empty()) finding.evidence.push_back(module);
  if (!job.timeline.has_stacks())
    finding.next = "--with-modules";
  else if (!job.timeline.has_inputs())
    finding.next = "--record-shapes";
  return finding;
}

std::optional<Finding> FindPython(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kPython;
  finding.ns = job.parts.of(StepPart::kPython);
  finding.what = job.parts.has_kernel
                     ? "the training thread runs code outside of operators, Python as a rule"
                     : "the training thread is in no operator: it runs Python, or waits";
  PythonPlaces places = PlacesOfSamples(job);
  if (static_cast<uint64_t>(places.all) < kFewestSamples) places = PlacesOfStacks(job);
  const auto most = std::max_element(places.by_function.begin(), places.by_function.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most != places.by_function.end() && 10 * most->second >= places.all) {
    finding.evidence.push_back("It was in " + most->first + " for " +
                               PercentText(most->second, places.all) + " of that" +
                               (places.are_samples ? ", by samples." : ", by operators' stacks."));
  }
  if (places.are_samples && !job.parts.has_kernel && 2 * places.waiting > places.all) {
    finding.evidence.push_back(PercentText(places.waiting, places.all) +
                               " of the samples there found it waiting, not running.");
  }
  if (!job.parts.has_kernel) {
    finding.certainty = Certainty::kLikely;
    finding.next = "--activities cpu,sched,syscalls";
  } else if (!places.are_samples) {
    finding.next = "--sample 99Hz";
  }
  return finding;
}

std::optional<Finding> FindSynchronizing(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kSynchronizing;
  finding.ns = job.parts.of(StepPart::kSynchronizing);
  finding.what = "the training thread waits for the GPU in calls of CUDA";
  std::map<std::string, int64_t> by_place;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    const Label& label = job.timeline.label(span.label);
    if (span.thread != job.parts.thread || !IsSynchronizing(label)) return;
    if (job.parts.At(span.start_ns) == nullptr) return;
    std::string place = ShownText(label.name);
    if (span.parent != kNoSpan) {
      const Span& around = job.timeline.span(span.parent);
      place += " in " + ShownText(job.timeline.label(around.label).name);
    }
    by_place[place] += span.duration_ns;
  });
  const auto most = std::max_element(by_place.begin(), by_place.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most != by_place.end()) {
    finding.evidence.push_back(
        "Most of it was " + most->first + ", " + DurationText(job.AStep(most->second)) +
        " a step: whoever fetches a value (.item(), .cpu(), printing a loss) has the CPU wait for "
        "all that was asked for before.");
  }
  return finding;
}

}  // namespace proftrace
