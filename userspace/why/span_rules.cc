// Rules about the work itself: operators, calls of CUDA, and the Python between them.
#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "userspace/aggregate/compilations.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/each_span.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// From this part of all time in steps on, the finding is about one operator.
constexpr double kOneOperator = 0.3;
// About the time that dispatching an operator takes. Shorter operators spend more time in dispatch
// than in their work.
constexpr int64_t kSmallNs = 12'000;
constexpr uint64_t kManyOperators = 50;  // in a step
constexpr int64_t kSmallPart = 5;        // they take a fifth of the time
constexpr size_t kNamedOperators = 3;
// Python's garbage collector can hide in Python that takes a quarter of the time.
constexpr int64_t kMuchPython = 4;

struct OperatorSums {
  int64_t self_ns = 0;
  uint64_t calls = 0;
  int64_t double_ns = 0;  // with an input of type double
  absl::flat_hash_map<std::string_view, int64_t> by_shapes;
};

// The self time of each operator on the driving thread, as far as it belongs to the steps' time in
// operators, and to no compilation of torch.compile.
class OperatorTable {
 public:
  explicit OperatorTable(const Case& job)
      : job_(job), moment_(job.parts.moments.begin()), sums_(job.timeline.labels().size()) {
    // All overloads of an operator count as one, by the first label with its name.
    std::map<std::string_view, uint32_t> first_of_name;
    for (uint32_t i = 0; i < sums_.size(); ++i) {
      const std::string_view name = job.timeline.label(LabelId{i}).name;
      first_of_.push_back(LabelId{first_of_name.try_emplace(name, i).first->second});
    }
    std::vector<std::vector<Compilation>> compilations = FindCompilations(job.timeline);
    if (!compilations.empty()) compilations_ = std::move(compilations[Raw(job.parts.thread)]);
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

  // Returns "aten::addmm (12.4 ms a step, 48 calls)".
  std::string Text(LabelId label) const {
    const OperatorSums& sums = of(label);
    const double calls = static_cast<double>(sums.calls) / static_cast<double>(job_.steps());
    return ShownText(job_.timeline.label(label).name) + " (" +
           DurationText(job_.AStep(sums.self_ns)) +
           absl::StrFormat("%s, %.*f calls)", job_.parts.are_steps ? " a step" : "",
                           calls < 10 ? 1 : 0, calls);
  }

  // Returns the shapes with most of the operator's time; empty: not recorded.
  std::string ShapesText(LabelId label) const {
    const OperatorSums& sums = of(label);
    const auto most = LargestValue(sums.by_shapes);
    if (most == sums.by_shapes.end()) return "";
    return PercentText(most->second, sums.self_ns) + " of it with inputs of " +
           ShownText(most->first) +
           (2 * sums.double_ns > sums.self_ns ? ", most of it of type double (float64)" : "");
  }

 private:
  struct Open {
    int64_t end_ns = 0;
    LabelId label{};
    std::string_view shapes;  // empty: not recorded
    bool has_double = false;
  };

  void Add(SpanId id, const Span& span) {
    if (span.thread != job_.parts.thread || span.is_apart) return;
    if (job_.timeline.label(span.label).category != Category::kCpuOp) return;
    SpendUntil(span.start_ns);
    if (IsCompiling(compilations_, span.start_ns, &compiled_)) return;
    const LabelId label = first_of_[Raw(span.label)];
    const OperatorInputs* inputs = job_.timeline.inputs_of(id);
    open_.push_back({span.end_ns(), label,
                     inputs == nullptr ? std::string_view() : std::string_view(inputs->shapes),
                     inputs != nullptr && Contains(inputs->types, "\"double\"")});
    const PartMoment* moment = job_.parts.At(span.start_ns);
    if (moment == nullptr || moment->part == StepPart::kData ||
        moment->part == StepPart::kBetween) {
      return;
    }
    ++sums_[Raw(label)].calls;
  }

  void SpendUntil(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      SpendInside(open_.back().end_ns);
      open_.pop_back();
    }
    SpendInside(time_ns);
  }

  // Charges the time up to `time_ns` to the innermost operator.
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
      if (!open_.back().shapes.empty()) sums.by_shapes[open_.back().shapes] += ns;
      if (open_.back().has_double) sums.double_ns += ns;
    }
  }

  const Case& job_;
  std::vector<PartMoment>::const_iterator moment_;
  int64_t now_ns_ = std::numeric_limits<int64_t>::min();
  std::vector<Compilation> compilations_;  // of the thread
  size_t compiled_ = 0;                    // how many of them are over
  std::vector<Open> open_;                 // the innermost last
  std::vector<OperatorSums> sums_;         // by label
  std::vector<LabelId> first_of_;          // by label
  std::vector<LabelId> order_;
};

// The operators that are short on average.
struct SmallOperators {
  uint64_t calls = 0;
  int64_t self_ns = 0;

  explicit SmallOperators(const OperatorTable& table) {
    for (const LabelId label : table.order()) {
      const OperatorSums& sums = table.of(label);
      if (sums.self_ns >= kSmallNs * static_cast<int64_t>(sums.calls)) continue;
      calls += sums.calls;
      self_ns += sums.self_ns;
    }
  }
  // Returns whether they are many, and take most of what operators take and a part of all time that
  // matters.
  bool Matter(const Case& job, int64_t operators_ns) const {
    return calls >= kManyOperators * job.steps() && 2 * self_ns >= operators_ns &&
           kSmallPart * self_ns >= job.parts.total_ns;
  }
};

// Returns whether an operator brings a value that a device computes to the CPU.
bool FetchesValue(std::string_view name) {
  return name == "aten::_local_scalar_dense" || name == "aten::item" || name == "aten::nonzero" ||
         name == "aten::is_nonzero" || name == "aten::equal";
}

// Returns whether a row is of a torch.autograd.Function in Python. The engine's own nodes, which
// are C++, have names that end with a number (MulBackward0), and operators have a namespace.
bool IsOfPython(const Label& label) {
  const std::string& name = label.name;
  const bool ends_with_number = !name.empty() && name.back() >= '0' && name.back() <= '9';
  return label.kind == SpanKind::kAutograd && !name.empty() && !ends_with_number &&
         name.find("::") == std::string::npos;
}

// Makes the finding one about a Function of the job's own, if `first` is one.
bool TellOwnFunction(const Case& job, LabelId first, Finding* finding) {
  const Label& label = job.timeline.label(first);
  if (!IsOfPython(label)) return false;
  finding->what = DriverText(job) + " is in a Function of the job's own, " + ShownText(label.name) +
                  " most of all";
  if (AddPython(job, StepPart::kOperators, finding) != PythonSource::kSamples) {
    finding->evidence.emplace_back("What it runs besides operators is Python code.");
    finding->next = "--sample 99Hz";
  }
  return true;
}

// Adds what operators call in Python. Makes the finding one about that, if it is half of the time
// or more.
bool TellCalledPython(const Case& job, Finding* finding) {
  Finding called;
  const bool is_most = AddCalledPython(job, StepPart::kOperators, &called) >= 0.5;
  const auto at = is_most ? finding->evidence.begin() : finding->evidence.end();
  finding->evidence.insert(at, called.evidence.begin(), called.evidence.end());
  if (!is_most) return false;
  finding->kind = FindingKind::kPython;
  finding->what = DriverText(job) + " runs Python that operators call";
  return true;
}

// Returns the class of modules with most time of its own, forward and backward, or the module if
// the class has one only; empty: not recorded, or it has little to do with the `operators_ns`.
std::string ModuleText(const Case& job, int64_t operators_ns) {
  struct OfClass {
    int64_t forward_ns = 0;
    int64_t backward_ns = 0;
    uint64_t modules = 0;
    uint32_t first = 0;  // an index into python_modules()

    int64_t ns() const { return forward_ns + backward_ns; }
  };
  const std::vector<PythonModule>& modules = job.timeline.python_modules();
  std::map<std::string, OfClass> by_class;
  for (const ModuleTimes& times : job.aggregates.modules.modules) {
    OfClass& sums = by_class[modules[times.module].class_name];
    if (sums.modules == 0) sums.first = times.module;
    sums.modules += times.instances;
    sums.forward_ns += times.self_forward_ns;
    sums.backward_ns += times.self_backward_ns;
  }
  const auto most =
      std::max_element(by_class.begin(), by_class.end(),
                       [](const auto& a, const auto& b) { return a.second.ns() < b.second.ns(); });
  if (most == by_class.end() || !IsWorthTelling(most->second.ns(), operators_ns)) return "";
  const OfClass& sums = most->second;
  std::string text = "Of the modules, ";
  if (sums.modules > 1) {
    text += "the " + std::to_string(sums.modules) + " of class " + ShownText(most->first) + " take";
  } else {
    const PythonModule& module = modules[sums.first];
    text += ShownText(module.class_name);
    if (module.has_path && !module.path.empty()) text += " " + ShownText(module.path);
    text += " takes";
  }
  return text + " the most, without the modules in " + (sums.modules > 1 ? "them: " : "it: ") +
         DurationText(job.AStep(sums.forward_ns)) + " forward and " +
         DurationText(job.AStep(sums.backward_ns)) + " backward a step.";
}

// Adds what is known of the operator that takes most.
void AddFacts(const Case& job, const OperatorTable& table, Finding* finding) {
  if (FetchesValue(job.timeline.label(table.order().front()).name) &&
      job.timeline.has_device_records()) {
    finding->evidence.push_back(
        ShownText(job.timeline.label(table.order().front()).name) +
        " fetches a value from the GPU (.item(), print(loss), an `if` on a tensor): the CPU waits "
        "there for all that was asked for before.");
  }
  const std::string shapes = table.ShapesText(table.order().front());
  if (!shapes.empty()) {
    finding->evidence.push_back(ShownText(job.timeline.label(table.order().front()).name) +
                                " spent " + shapes + ".");
  }
}

}  // namespace

std::optional<Finding> FindOperators(const Case& job) {
  const OperatorTable table(job);
  if (table.order().empty()) return std::nullopt;
  Finding finding;
  finding.ns = job.parts.of(StepPart::kOperators);
  const OperatorSums& first = table.of(table.order().front());
  const SmallOperators small(table);
  if (static_cast<double>(first.self_ns) >=
      kOneOperator * static_cast<double>(job.parts.total_ns)) {
    finding.kind = FindingKind::kOneOperator;
    finding.what = "operators compute, " +
                   ShownText(job.timeline.label(table.order().front()).name) + " most of all";
  } else if (small.Matter(job, finding.ns)) {
    finding.kind = FindingKind::kSmallOperators;
    finding.certainty = Certainty::kLikely;
    finding.what = "many small operators";
    finding.evidence.push_back(absl::StrFormat(
        "%d operators a step take %s each, %s together: as much goes into calling them as into "
        "what "
        "they do. "
        "Larger batches, fused operators (torch.compile, foreach optimizers) call fewer.",
        small.calls / job.steps(), DurationText(small.self_ns / static_cast<int64_t>(small.calls)),
        DurationText(job.AStep(small.self_ns))));
  } else {
    finding.kind = FindingKind::kOperators;
    finding.what = "operators compute";
  }
  std::string text;
  for (size_t i = 0; i < std::min(kNamedOperators, table.order().size()); ++i) {
    text += (i > 0 ? ", "
             : finding.kind == FindingKind::kSmallOperators
                 ? "The calls of these take the most, small or not: "
                 : "The longest: ") +
            table.Text(table.order()[i]);
  }
  finding.evidence.push_back(text + ".");
  AddFacts(job, table, &finding);
  const bool is_one = finding.kind == FindingKind::kOneOperator;
  if (TellCalledPython(job, &finding)) return finding;
  // Operators of an extension are its own code.
  const std::string& longest = job.timeline.label(table.order().front()).name;
  const bool is_of_extension = Contains(longest, "::") && !longest.starts_with("aten::") &&
                               !longest.starts_with("autograd::");
  if (AddForeignNative(job, &finding) >= 0.5 && !is_of_extension) {
    finding.what = DriverText(job) + " runs code of another library inside of operators";
    std::rotate(finding.evidence.begin(), finding.evidence.end() - 1, finding.evidence.end());
  }
  AddCallingLines(job, StepPart::kOperators, &finding);
  AddSecondForward(job, &finding);
  const std::string module = ModuleText(job, finding.ns);
  if (!module.empty()) finding.evidence.push_back(module);
  if (is_one && TellOwnFunction(job, table.order().front(), &finding)) return finding;
  // The inputs of one operator tell most. Where there are many, their modules do.
  if (!job.timeline.has_inputs() && (is_one || job.timeline.has_stacks())) {
    finding.next = "--record-shapes";
  } else if (!job.timeline.has_stacks()) {
    finding.next = "--with-modules";
  }
  return finding;
}

namespace {

// Returns whether most samples of the driving thread outside of operators found it waiting.
bool MostlyWaits(const Case& job) {
  int64_t all = 0;
  int64_t waiting = 0;
  ForEachLook(job, TimesOf(job, StepPart::kPython), [&](const Sample& sample) {
    ++all;
    waiting += IsWaiting(sample);
  });
  return all >= kFewestSamples && 2 * waiting > all;
}

}  // namespace

std::optional<Finding> FindPython(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kPython;
  finding.ns = job.parts.of(StepPart::kPython);
  const bool has_operators = job.timeline.info().system.operators;
  finding.what = DriverText(job);
  if (job.parts.has_kernel) {
    finding.what +=
        has_operators ? " runs code outside of operators, Python as a rule" : " computes";
  } else {
    finding.what +=
        has_operators ? " is in no operator: it runs Python, or waits" : " computes, or waits";
  }
  const PythonSource source = AddPython(job, StepPart::kPython, &finding);
  const NativeSource native = AddNative(job, StepPart::kPython, &finding);
  if (!job.parts.has_kernel && has_operators && MostlyWaits(job)) {
    finding.what = DriverText(job) + " waits, in no operator";
  } else if (native == NativeSource::kOther && has_operators) {
    finding.what = DriverText(job) + " runs native code that is no operator of PyTorch";
  }
  if (source == PythonSource::kSamples) AddCallingLines(job, StepPart::kPython, &finding);
  const bool could_sample = source != PythonSource::kSamples && job.timeline.samples().empty();
  const bool may_collect =
      source == PythonSource::kSamples && has_operators && native == NativeSource::kNone &&
      kMuchPython * finding.ns >= job.parts.total_ns && job.parts.of(StepPart::kCollection) == 0;
  if (!job.parts.has_kernel) {
    finding.certainty = Certainty::kLikely;
    finding.next = kMoreOfKernel;
    if (could_sample) finding.next += " --sample 99Hz";
    if (may_collect) finding.next += " --python-gc";
  } else if (could_sample) {
    finding.next = "--activities cpu,sched,syscalls --sample 99Hz";
  } else if (may_collect) {
    finding.next = "--python-gc";
  }
  return finding;
}

std::optional<Finding> FindSynchronizing(const Case& job) {
  Finding finding;
  finding.kind = FindingKind::kSynchronizing;
  finding.ns = job.parts.of(StepPart::kSynchronizing);
  finding.what = DriverText(job) + " waits for the GPU in calls of CUDA";
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
  const auto most = LargestValue(by_place);
  if (most != by_place.end()) {
    finding.evidence.push_back(
        "Most of it was " + most->first + ", " + DurationText(job.AStep(most->second)) +
        " a step: whoever fetches a value (.item(), .cpu(), printing a loss) has the CPU wait for "
        "all that was asked for before.");
  }
  return finding;
}

}  // namespace proftrace
