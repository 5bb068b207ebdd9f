#include "userspace/compare/run_comparison.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace proftrace {
namespace {

constexpr double kMsPerNs = 1e-6;
// A real change is more than so many standard errors, because many rows are looked at.
constexpr double kRealErrors = 4;
constexpr double kRealPart = 0.05;
// Changes below this part of a step are left out.
constexpr double kWorthPart = 0.01;
// Operators have a factor in common where the median factor is at least kFarFromOne away from 1,
// and operators with kCommonPart of the time are within kCommonWidth of the median.
constexpr double kFarFromOne = 0.05;
constexpr double kCommonPart = 0.75;
constexpr double kCommonWidth = 0.05;
constexpr size_t kFewestCommon = 5;
// A function with a larger part of the time is the loop.
constexpr double kLoopPart = 0.9;
// Findings whose times differ by a smaller part of the time, and of a step, count as the same.
constexpr double kFindingPart = 0.2;
constexpr double kFindingPartOfStep = 0.05;
// Overheads (in percent) that differ by more than this make the times hard to compare.
constexpr double kOverheadDifference = 5;

// What times are divided by: nothing more where they are per step already, else the length of each
// recording's window in seconds.
struct Scale {
  bool by_step = true;
  double before = 1;
  double after = 1;
};

Change MakeChange(std::string name, const StepTime& before, const StepTime& after) {
  Change change;
  change.name = std::move(name);
  change.before_ms = before.mean_ns * kMsPerNs;
  change.after_ms = after.mean_ns * kMsPerNs;
  if (before.error_ns && after.error_ns) {
    change.noise_ms = kRealErrors * std::hypot(*before.error_ns, *after.error_ns) * kMsPerNs;
  }
  return change;
}

StepTime ScaledTotal(int64_t total_ns, double seconds) {
  return {static_cast<double>(total_ns) / seconds, std::nullopt};
}

// Pairs the entries of both lists, which are sorted by name. A name that only one list has took no
// time in the other.
std::vector<Change> MakeChanges(const std::vector<NamedTime>& before,
                                const std::vector<NamedTime>& after, const Scale& scale) {
  std::vector<Change> changes;
  // A name that is not there takes no time, with an error of 0.
  const NamedTime nothing{.name = "", .time = {0, 0.0}};
  size_t i = 0;
  size_t j = 0;
  while (i < before.size() || j < after.size()) {
    const bool has_before =
        i < before.size() && (j >= after.size() || before[i].name <= after[j].name);
    const bool has_after =
        j < after.size() && (i >= before.size() || after[j].name <= before[i].name);
    const NamedTime& a = has_before ? before[i] : nothing;
    const NamedTime& b = has_after ? after[j] : nothing;
    const std::string& name = has_before ? a.name : b.name;
    changes.push_back(scale.by_step ? MakeChange(name, a.time, b.time)
                                    : MakeChange(name, ScaledTotal(a.total_ns, scale.before),
                                                 ScaledTotal(b.total_ns, scale.after)));
    const auto calls = [&](const NamedTime& named, double seconds) {
      return scale.by_step ? named.calls : static_cast<double>(named.total_calls) / seconds;
    };
    changes.back().calls_before = calls(a, scale.before);
    changes.back().calls_after = calls(b, scale.after);
    i += has_before ? 1 : 0;
    j += has_after ? 1 : 0;
  }
  return changes;
}

void KeepLarge(double whole_ms, std::vector<Change>* changes) {
  std::erase_if(*changes, [&](const Change& change) {
    return !change.is_real() || std::abs(change.ms()) < kWorthPart * whole_ms;
  });
  std::stable_sort(changes->begin(), changes->end(), [](const Change& a, const Change& b) {
    return std::abs(a.ms()) > std::abs(b.ms());
  });
}

// Returns the changes of functions. A script of another name counts as the same one. What nearly
// all time is in in both recordings is the loop itself.
std::vector<Change> CompareFunctions(const RunProfile& before, const RunProfile& after,
                                     const Scale& scale, const Change& whole) {
  std::vector<NamedTime> earlier = before.functions;
  if (!before.script.empty() && !after.script.empty() && before.script != after.script) {
    const std::string prefix = before.script + ": ";
    for (NamedTime& function : earlier) {
      if (function.name.starts_with(prefix)) {
        function.name.replace(0, before.script.size(), after.script);
      }
    }
    std::sort(earlier.begin(), earlier.end(),
              [](const NamedTime& a, const NamedTime& b) { return a.name < b.name; });
  }
  std::vector<Change> changes = MakeChanges(earlier, after.functions, scale);
  std::erase_if(changes, [&whole](const Change& change) {
    return change.before_ms >= kLoopPart * whole.before_ms &&
           change.after_ms >= kLoopPart * whole.after_ms;
  });
  return changes;
}

// Returns what the cause of a finding takes in a recording whose verdict has no such finding, as
// where it is too small a part of longer steps to be told. nullopt: it is not known.
std::optional<double> UntoldMs(const RunProfile& run, const Finding& finding) {
  if (!finding.part.has_value()) return std::nullopt;
  return run.parts[static_cast<size_t>(*finding.part)].mean_ns * kMsPerNs;
}

// Returns whether the time of a cause is about the same, also as a part of the steps.
bool IsSameTime(double a_ms, double b_ms, const Change& step) {
  const double off_ms = std::abs(a_ms - b_ms);
  return off_ms < kFindingPart * std::max(a_ms, b_ms) &&
         off_ms < kFindingPartOfStep * std::max(step.before_ms, step.after_ms);
}

// Returns the clause of a finding. The operator that changed most matters, and not the one that
// takes most before and now.
std::string ClauseOf(const Finding& finding, const std::vector<Change>& operators) {
  if (finding.part != StepPart::kOperators) return finding.what;
  if (operators.empty()) return "operators compute";
  return "operators compute, of which " + operators.front().name + " changed most";
}

// Returns whether both recordings tell the same parts of a step apart.
bool KnowTheSame(const RunProfile& a, const RunProfile& b) {
  return a.has_waits == b.has_waits && a.has_calls == b.has_calls && a.has_faults == b.has_faults;
}

// Returns whether a part is told without the kernel's records: by rows alone, or by their absence.
bool IsToldByRows(StepPart part) {
  return part == StepPart::kData || part == StepPart::kCollection || part == StepPart::kBetween;
}

struct PartsOfRun {
  std::array<StepTime, kStepParts> times;
  PartTimes totals{};
};

// Returns the parts of a run; with `joins`, those that IsToldByRows() is false for as one, in the
// place of the operators. It has the error of the step, because nearly all of the step is in it.
PartsOfRun PartsOf(const RunProfile& run, bool joins) {
  PartsOfRun parts{run.parts, run.part_totals};
  if (!joins) return parts;
  StepTime joined{0, run.step.error_ns};
  int64_t total_ns = 0;
  for (size_t part = 0; part < kStepParts; ++part) {
    if (IsToldByRows(static_cast<StepPart>(part))) continue;
    joined.mean_ns += std::exchange(parts.times[part], {0, 0.0}).mean_ns;
    total_ns += std::exchange(parts.totals[part], 0);
  }
  parts.times[static_cast<size_t>(StepPart::kOperators)] = joined;
  parts.totals[static_cast<size_t>(StepPart::kOperators)] = total_ns;
  return parts;
}

// Returns the changes of the parts that took time.
std::vector<Change> CompareParts(const RunProfile& before, const RunProfile& after,
                                 const Scale& scale) {
  const bool joins = !KnowTheSame(before, after);
  const PartsOfRun earlier = PartsOf(before, joins);
  const PartsOfRun later = PartsOf(after, joins);
  std::vector<Change> changes;
  for (size_t part = 0; part < kStepParts; ++part) {
    const bool is_joined = joins && static_cast<StepPart>(part) == StepPart::kOperators;
    std::string name(is_joined ? kUnknownParts : StepPartName(static_cast<StepPart>(part)));
    Change change =
        scale.by_step ? MakeChange(std::move(name), earlier.times[part], later.times[part])
                      : MakeChange(std::move(name), ScaledTotal(earlier.totals[part], scale.before),
                                   ScaledTotal(later.totals[part], scale.after));
    if (change.before_ms != 0 || change.after_ms != 0) changes.push_back(std::move(change));
  }
  return changes;
}

// Returns whether both recordings could have told such a finding.
bool IsComparable(const RunProfile& before, const RunProfile& after, const Finding& finding) {
  if (KnowTheSame(before, after)) return true;
  if (finding.part.has_value()) return IsToldByRows(*finding.part);
  return finding.kind == FindingKind::kRecompilation || finding.kind == FindingKind::kUnevenSteps;
}

// A finding about a part has changed only if the part has, and how uneven steps are only if the
// steps are longer or shorter by more than they vary.
std::vector<FindingChange> CompareFindings(const RunProfile& before, const RunProfile& after,
                                           const RunComparison& comparison) {
  const std::vector<Change>& parts = comparison.parts;
  std::vector<FindingChange> changes;
  const auto is_as_it_was = [&](const Finding& finding) {
    return finding.part.has_value() && std::any_of(parts.begin(), parts.end(), [&](auto& part) {
             return part.name == StepPartName(*finding.part) && !part.is_real();
           });
  };
  // Another kind may tell the same part's time: one operator, many small ones.
  const auto like = [](const Verdict& verdict, const Finding& finding) {
    return std::find_if(
        verdict.findings.begin(), verdict.findings.end(), [&](const Finding& other) {
          return finding.part.has_value() ? other.part == finding.part : other.kind == finding.kind;
        });
  };
  const auto change_of = [](double before_ms, double after_ms) {
    return after_ms > before_ms ? FindingChange::Kind::kMore : FindingChange::Kind::kLess;
  };
  // A verdict leaves out what is small, which is not gone. What is small in a far longer step may
  // be more than before.
  const auto is_there = [](double ms, double step_ms) { return ms >= kWorthPart * step_ms; };
  for (const Finding& finding : after.verdict.findings) {
    if (is_as_it_was(finding) || !IsComparable(before, after, finding)) continue;
    const auto earlier = like(before.verdict, finding);
    const bool is_told = earlier != before.verdict.findings.end();
    const double before_ms =
        is_told ? before.verdict.MsAStep(*earlier) : UntoldMs(before, finding).value_or(0);
    const double after_ms = after.verdict.MsAStep(finding);
    if (IsSameTime(before_ms, after_ms, comparison.whole)) continue;
    if (is_told && finding.is_part_of_others() && !comparison.whole.is_real()) continue;
    const std::string what = ClauseOf(finding, comparison.operators);
    const std::string was = is_told ? ClauseOf(*earlier, comparison.operators) : what;
    const bool is_new =
        !is_told && before_ms < after_ms && !is_there(before_ms, comparison.whole.before_ms);
    changes.push_back({is_new ? FindingChange::Kind::kNew : change_of(before_ms, after_ms), finding,
                       is_new ? 0 : before_ms, after_ms, was == what ? "" : was});
    changes.back().finding.what = what;
  }
  for (const Finding& finding : before.verdict.findings) {
    if (is_as_it_was(finding) || !IsComparable(before, after, finding)) continue;
    if (like(after.verdict, finding) != after.verdict.findings.end()) continue;
    const double before_ms = before.verdict.MsAStep(finding);
    const double after_ms = UntoldMs(after, finding).value_or(0);
    if (IsSameTime(before_ms, after_ms, comparison.whole)) continue;
    const bool is_gone = after_ms < before_ms && !is_there(after_ms, comparison.whole.after_ms);
    changes.push_back({is_gone ? FindingChange::Kind::kGone : change_of(before_ms, after_ms),
                       finding, before_ms, is_gone ? 0 : after_ms, ""});
    changes.back().finding.what = ClauseOf(finding, comparison.operators);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const FindingChange& a, const FindingChange& b) {
                     return std::abs(a.after_ms - a.before_ms) > std::abs(b.after_ms - b.before_ms);
                   });
  return changes;
}

// Returns the median of what `factor_of` gives for the operators of both recordings, weighted by
// time, if that is far from 1 and that of nearly all of them.
std::optional<double> FindCommonFactor(const std::vector<Change>& operators,
                                       double (*factor_of)(const Change&)) {
  std::vector<std::pair<double, double>> factors;  // and the time that it is of
  double all_ms = 0;
  for (const Change& change : operators) {
    if (change.calls_before <= 0 || change.calls_after <= 0 || change.before_ms <= 0) continue;
    factors.emplace_back(factor_of(change), change.before_ms);
    all_ms += change.before_ms;
  }
  if (factors.size() < kFewestCommon) return std::nullopt;
  std::sort(factors.begin(), factors.end());
  double sum_ms = 0;
  double median = 1;
  for (const auto& [factor, ms] : factors) {
    median = factor;
    if ((sum_ms += ms) >= all_ms / 2) break;
  }
  double common_ms = 0;
  for (const auto& [factor, ms] : factors) {
    if (std::abs(factor / median - 1) <= kCommonWidth) common_ms += ms;
  }
  if (std::abs(median - 1) < kFarFromOne || common_ms < kCommonPart * all_ms) return std::nullopt;
  return median;
}

// The factor between the times per call.
double TimeFactor(const Change& change) {
  return (change.after_ms / change.calls_after) / (change.before_ms / change.calls_before);
}

double CallsFactor(const Change& change) { return change.calls_after / change.calls_before; }

// Returns what a factor common to nearly all operators means. Larger inputs make operators take
// longer, and leave Python outside of them as it was; a slower processor makes both take longer.
// `are_waits_known`: in both recordings, without which waits are in the time of Python.
std::string CommonFactorText(double factor, const std::vector<Change>& parts,
                             bool are_waits_known) {
  std::string text = absl::StrFormat("Nearly all operators take %.2f times as long a call", factor);
  const auto python = std::find_if(parts.begin(), parts.end(), [](const Change& part) {
    return part.name == StepPartName(StepPart::kPython);
  });
  if (are_waits_known && python != parts.end() && python->before_ms > 0) {
    const double of_python = python->after_ms / python->before_ms;
    if (std::abs(of_python / factor - 1) <= kCommonWidth) {
      return text +
             ", and so does Python outside of them: that is a processor that is slower or faster, "
             "or shared with others, rather than the job.";
    }
    if (std::abs(of_python - 1) < kFarFromOne) {
      return text +
             ", and Python outside of them takes as long as before: that is inputs of another size "
             "or type "
             "(a batch, float16), rather than another processor.";
    }
  }
  return text +
         ": that is inputs of another size or type (a batch, float16), or a processor that is "
         "slower "
         "or faster, or shared with others.";
}

// Adds what differs between the recordings themselves, and between the runs that they are of.
void AddRemarksOfRuns(const RunProfile& before, const RunProfile& after,
                      std::vector<std::string>* remarks) {
  if (before.tier != after.tier || before.options != after.options) {
    remarks->push_back("They were recorded in different ways (before: --tier " + before.tier + " " +
                       absl::StrJoin(before.options, " ") + "; now: --tier " + after.tier + " " +
                       absl::StrJoin(after.options, " ") +
                       "): a part of the difference is that of the recordings.");
  }
  if (!KnowTheSame(before, after)) {
    remarks->emplace_back(
        "Waits, system calls or page faults are in one of the recordings alone, so that only a few "
        "parts of a step and causes can be compared: record both with the same --activities.");
  }
  if (std::abs(before.overhead_percent - after.overhead_percent) > kOverheadDifference) {
    remarks->push_back(absl::StrFormat(
        "Recording itself slowed the job down by about %.0f %% before and by about %.0f %% now, by "
        "its own estimate.",
        before.overhead_percent, after.overhead_percent));
  }
  if (before.host != after.host) {
    remarks->push_back("They are of different hosts: " + before.host + " before, " + after.host +
                       " now.");
  }
  if (before.command != after.command) {
    remarks->push_back("They were started in different ways: " + before.command + " before, " +
                       after.command + " now.");
  }
  if (before.torch_version != after.torch_version) {
    remarks->push_back("PyTorch is another one: " + before.torch_version + " before, " +
                       after.torch_version + " now.");
  }
  for (const auto& [run, when] : {std::pair{&before, "Before: "}, {&after, "Now: "}}) {
    const Verdict& verdict = run->verdict;
    if (!verdict.growth.has_value()) continue;
    remarks->push_back(when + verdict.remarks[*verdict.growth] +
                       " How long a mean step takes depends on when it was recorded.");
  }
  if (before.has_loss || after.has_loss) {
    remarks->emplace_back("Records were lost: times and counts may be too small.");
  }
  if (before.has_modules != after.has_modules) {
    remarks->emplace_back(
        "Modules are in one of the recordings alone; record both with --with-modules to compare "
        "them.");
  }
}

// `calls_factor`: how much more often nearly all operators are called, where that is so.
void AddRemarks(const RunProfile& before, const RunProfile& after,
                const std::optional<double>& calls_factor, RunComparison* comparison) {
  std::vector<std::string>& remarks = comparison->remarks;
  if (calls_factor && comparison->by_step) {
    remarks.push_back(absl::StrFormat(
        "Nearly all operators are called %.2f times as often a step: a step is another number of "
        "batches (gradients are accumulated, for example), or what a step is was found by "
        "something else.",
        *calls_factor));
  }
  if (!comparison->by_step) {
    remarks.push_back(before.are_steps || after.are_steps
                          ? "Steps were found in one of the recordings alone: all times are for a "
                            "second of the window."
                          : "No steps were found: all times are for a second of the window.");
    remarks.emplace_back("How much they vary by themselves is not known.");
  } else if (!comparison->whole.noise_ms) {
    remarks.emplace_back(
        "One recording has too few steps to tell how much they vary: record ten or more of each.");
  }
  AddRemarksOfRuns(before, after, &remarks);
  if (comparison->common_factor) {
    remarks.push_back(CommonFactorText(*comparison->common_factor, comparison->parts,
                                       before.has_waits && after.has_waits));
  }
  if (comparison->whole.is_real() || !comparison->operators.empty() ||
      !comparison->findings.empty()) {
    remarks.emplace_back(
        "Two recordings of an unchanged job can differ by more than \"within\", which is how much "
        "steps vary in one recording, above all where other programs use the host: record each "
        "once more before you act on a small difference.");
  }
}

}  // namespace

bool Change::is_real() const {
  if (noise_ms) return std::abs(ms()) > *noise_ms;
  return std::abs(ms()) >= kRealPart * std::max(before_ms, after_ms);
}

RunComparison CompareRuns(const RunProfile& before, const RunProfile& after) {
  RunComparison comparison;
  comparison.by_step = before.are_steps && after.are_steps;
  Scale scale{.by_step = comparison.by_step};
  if (comparison.by_step) {
    comparison.whole = MakeChange("step", before.step, after.step);
    comparison.steps_before = before.steps;
    comparison.steps_after = after.steps;
    comparison.median_before_ms = static_cast<double>(before.median_ns) * kMsPerNs;
    comparison.median_after_ms = static_cast<double>(after.median_ns) * kMsPerNs;
  } else {
    const auto seconds = [](const RunProfile& run) {
      return std::max(1e-9, static_cast<double>(run.window_ns) * 1e-9);
    };
    scale.before = seconds(before);
    scale.after = seconds(after);
    comparison.whole = {.name = "second", .before_ms = 1000, .after_ms = 1000};
  }
  comparison.parts = CompareParts(before, after, scale);
  comparison.operators = MakeChanges(before.operators, after.operators, scale);
  comparison.common_factor = FindCommonFactor(comparison.operators, TimeFactor);
  const std::optional<double> calls = FindCommonFactor(comparison.operators, CallsFactor);
  const double whole_ms = std::max(comparison.whole.before_ms, comparison.whole.after_ms);
  KeepLarge(whole_ms, &comparison.operators);
  if (before.has_modules && after.has_modules) {
    comparison.modules = MakeChanges(before.modules, after.modules, scale);
    KeepLarge(whole_ms, &comparison.modules);
  }
  if (before.has_samples && after.has_samples) {
    comparison.functions = CompareFunctions(before, after, scale, comparison.whole);
    KeepLarge(whole_ms, &comparison.functions);
  }
  // Findings are compared by step only: without steps, the windows may differ in length.
  if (scale.by_step) comparison.findings = CompareFindings(before, after, comparison);
  AddRemarks(before, after, calls, &comparison);
  return comparison;
}

}  // namespace proftrace
