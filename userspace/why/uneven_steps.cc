// Rules about the recording as a whole: steps that differ, and the cost of recording.
#include <absl/strings/str_format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/median.h"
#include "userspace/base/shown_text.h"
#include "userspace/why/period.h"
#include "userspace/why/rules.h"
#include "userspace/why/sample_looks.h"

namespace proftrace {
namespace {

// A step is slow if it takes this many medians, and is this many times the usual distance away from
// the median.
constexpr double kSlow = 1.5;
constexpr int64_t kDistances = 6;

// Returns "every 10th step".
std::string EveryText(const Period& period) {
  const size_t distance = period.distance;
  return absl::StrFormat("every %d%s step", distance,
                         distance % 10 == 2 && distance % 100 != 12   ? "nd"
                         : distance % 10 == 3 && distance % 100 != 13 ? "rd"
                         : distance % 10 == 1 && distance % 100 != 11 ? "st"
                                                                      : "th");
}

// The time of the rows with one label, and their depth.
struct RowSums {
  double ns = 0;
  uint16_t depth = 0;
};

// Returns the label with the largest time. Where rows lie in each other and are about as large,
// this is the innermost one. nullptr: there is none.
const std::pair<const uint32_t, RowSums>* InnermostLargest(
    const std::map<uint32_t, RowSums>& by_label) {
  double most_ns = 0;
  for (const auto& [label, sums] : by_label) most_ns = std::max(most_ns, sums.ns);
  const std::pair<const uint32_t, RowSums>* largest = nullptr;
  for (const auto& row : by_label) {
    const bool is_alike = row.second.ns > 0.7 * most_ns;
    if (is_alike && (largest == nullptr || row.second.depth > largest->second.depth)) {
      largest = &row;
    }
  }
  return largest;
}

std::string NameOf(const Case& job, uint32_t label) {
  return ShownText(job.timeline.label(LabelId{label}).name);
}

int64_t LengthOf(const StepParts& parts, size_t step) {
  return parts.intervals[step].second - parts.intervals[step].first;
}

// Returns the row whose time grew most in slow steps, compared with the same number of other steps.
// "": no row explains a part of `more_ns` that is worth telling.
std::string GrownRow(const Case& job, const std::vector<bool>& is_slow, size_t slow,
                     int64_t more_ns) {
  const StepParts& parts = job.parts;
  const double fast = static_cast<double>(parts.intervals.size() - slow);
  std::map<uint32_t, RowSums> by_label;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.thread != parts.thread || span.is_apart || !span.is_complete()) return;
    const PartMoment* moment = parts.At(span.start_ns);
    if (moment == nullptr || span.end_ns() > parts.intervals[moment->step].second) return;
    const bool is_whole = span.duration_ns >= LengthOf(parts, moment->step);
    if (is_whole && job.timeline.label(span.label).category != Category::kCpuOp) return;
    RowSums& sums = by_label[Raw(span.label)];
    const auto ns = static_cast<double>(span.duration_ns);
    sums.ns += is_slow[moment->step] ? ns / static_cast<double>(slow) : -ns / fast;
    sums.depth = std::max(sums.depth, span.depth);
  });
  const auto* grown = InnermostLargest(by_label);
  if (grown == nullptr || 5 * grown->second.ns < static_cast<double>(more_ns)) return "";
  return "Of the rows, " + NameOf(job, grown->first) +
         " grows most: " + DurationText(static_cast<int64_t>(grown->second.ns)) +
         " more in such a step.";
}

// Steps of two kinds, of which each has at least this part of all, differ by this factor at least.
constexpr size_t kKindPart = 5;
constexpr double kKindsApart = 2;
// Among few steps a gap comes about by chance, so it has to be this wide.
constexpr size_t kFewForKinds = 20;
constexpr double kWideGap = 3;

// Two kinds of steps: a loop that does something else with every second batch, for example.
struct StepKinds {
  int64_t short_ns = 0;  // medians
  int64_t long_ns = 0;
  int64_t least_long_ns = 0;  // the shortest of the long ones
};

// Finds whether the steps are of two kinds, between which there is nothing; nullopt: they are not.
std::optional<StepKinds> FindKinds(std::vector<int64_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  const size_t fewest = std::max<size_t>(2, lengths.size() / kKindPart);
  size_t at = 0;  // where the long ones begin: behind the widest gap
  double widest = lengths.size() < kFewForKinds ? kWideGap : kSlow;
  for (size_t i = fewest; i + fewest <= lengths.size(); ++i) {
    const double gap =
        static_cast<double>(lengths[i]) / static_cast<double>(std::max<int64_t>(1, lengths[i - 1]));
    if (gap <= widest) continue;
    widest = gap;
    at = i;
  }
  if (at == 0) return std::nullopt;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(at);
  const StepKinds kinds{Median(std::vector<int64_t>(lengths.begin(), middle)),
                        Median(std::vector<int64_t>(middle, lengths.end())), lengths[at]};
  const auto least_ns = kKindsApart * static_cast<double>(kinds.short_ns);
  if (static_cast<double>(kinds.long_ns) < least_ns) return std::nullopt;
  return kinds;
}

// The steps that take much longer than the median. Where some of them follow a rhythm, only those
// of the rhythm: others that are slow now and then have other reasons.
struct SlowSteps {
  int64_t middle_ns = 0;  // the median; where there are two kinds, that of the short ones
  int64_t longest_ns = 0;
  size_t count = 0;
  std::vector<bool> is_slow;  // by step
  std::optional<StepKinds> kinds;
  std::optional<Period> period;
};

SlowSteps FindSlowSteps(const StepParts& parts) {
  SlowSteps slow;
  std::vector<int64_t> lengths, distances;
  for (size_t i = 0; i < parts.intervals.size(); ++i) lengths.push_back(LengthOf(parts, i));
  slow.middle_ns = Median(lengths);
  for (const int64_t ns : lengths) distances.push_back(std::abs(ns - slow.middle_ns));
  int64_t least_ns = std::max(static_cast<int64_t>(kSlow * static_cast<double>(slow.middle_ns)),
                              slow.middle_ns + kDistances * Median(distances));
  slow.kinds = FindKinds(lengths);
  if (slow.kinds.has_value()) {
    slow.middle_ns = slow.kinds->short_ns;
    least_ns = slow.kinds->least_long_ns;
  }
  std::vector<int64_t> excess_ns;
  for (const int64_t ns : lengths) excess_ns.push_back(ns >= least_ns ? ns - slow.middle_ns : 0);
  slow.period = FindPeriod(excess_ns);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const bool has_rhythm = slow.period.has_value() && !slow.kinds.has_value();
    slow.is_slow.push_back(excess_ns[i] > 0 && (!has_rhythm || slow.period->Has(i)));
    if (!slow.is_slow.back()) continue;
    ++slow.count;
    slow.longest_ns = std::max(slow.longest_ns, lengths[i]);
  }
  return slow;
}

// Returns how many operators each step called. Empty: none was recorded.
std::vector<int64_t> CallsByStep(const Case& job) {
  std::vector<int64_t> calls(job.parts.intervals.size());
  bool is_any = false;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.thread != job.parts.thread || span.is_apart) return;
    if (job.timeline.label(span.label).category != Category::kCpuOp) return;
    const PartMoment* moment = job.parts.At(span.start_ns);
    if (moment == nullptr) return;
    ++calls[moment->step];
    is_any = true;
  });
  return is_any ? calls : std::vector<int64_t>();
}

// Returns whether the steps from `begin` to `end` call as many operators as the other steps.
bool CallTheSame(const std::vector<int64_t>& calls, size_t begin, size_t end) {
  if (calls.empty()) return false;
  const auto first = calls.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = calls.begin() + static_cast<std::ptrdiff_t>(end);
  std::vector<int64_t> others(calls.begin(), first);
  others.insert(others.end(), last, calls.end());
  return !others.empty() && Median(std::vector<int64_t>(first, last)) == Median(std::move(others));
}

// Returns that half of the slow steps or more follow each other; empty: they do not. `most`: what
// they have more of.
std::string SeriesText(const Case& job, const SlowSteps& slow, StepPart most) {
  const StepParts& parts = job.parts;
  size_t longest = 0, end = 0, length = 0;
  for (size_t i = 0; i < slow.is_slow.size(); ++i) {
    length = slow.is_slow[i] ? length + 1 : 0;
    if (length <= longest) continue;
    longest = length;
    end = i + 1;
  }
  if (longest < kFewestStepsToCompare || 2 * longest < slow.count) return "";
  const size_t begin = end - longest;
  const int64_t after_ns = parts.intervals[begin].first - parts.intervals.front().first;
  return absl::StrFormat(
      "%d of them follow each other, %s, from %s on: %s.", longest,
      end == slow.is_slow.size() ? "up to the last step" : "in a row",
      begin == 0 ? "the first step" : DurationText(after_ns) + " after the first step",
      most == StepPart::kRunQueue ? "other threads had the CPUs then"
      : most == StepPart::kOperators && CallTheSame(CallsByStep(job), begin, end)
          ? "the same number of operators took longer then, as where inputs are larger, or other "
            "programs slow the host down"
          : "the job did something else then");
}

// Returns "steps are of two kinds: 61 take 6.5 ms, 60 take 68.0 ms (medians); every 2nd step is
// long".
std::string KindsText(const SlowSteps& slow, size_t steps) {
  return absl::StrFormat("steps are of two kinds: %d take %s, %d take %s (medians)",
                         steps - slow.count, DurationText(slow.kinds->short_ns), slow.count,
                         DurationText(slow.kinds->long_ns)) +
         (slow.period ? "; " + EveryText(*slow.period) + " is long" : "");
}

// Returns words that a few of the slow steps have most of what slow steps have of that part, so
// that the mean is true of none; empty: they are alike.
std::string MostlyInFew(const StepParts& parts, const SlowSteps& slow, StepPart part) {
  std::vector<int64_t> times;
  int64_t all_ns = 0;
  for (size_t i = 0; i < slow.is_slow.size(); ++i) {
    if (!slow.is_slow[i]) continue;
    times.push_back(parts.by_step[i][static_cast<size_t>(part)]);
    all_ns += times.back();
  }
  if (times.size() < 2) return "";
  std::sort(times.begin(), times.end(), std::greater<>());
  if (2 * times.front() > all_ns) {
    return " on average, of which one step alone has " + PercentText(times.front(), all_ns);
  }
  int64_t of_few_ns = 0;
  size_t few = 0;
  while (few < times.size() && 10 * of_few_ns < 9 * all_ns) of_few_ns += times[few++];
  if (2 * few > times.size()) return "";
  return absl::StrFormat(" on average, of which %d steps have %s", few,
                         PercentText(of_few_ns, all_ns));
}

StepPart LargestOf(const PartTimes& times) {
  return static_cast<StepPart>(std::max_element(times.begin(), times.end()) - times.begin());
}

}  // namespace

std::optional<Finding> FindUnevenSteps(const Case& job) {
  const StepParts& parts = job.parts;
  if (!parts.are_steps || parts.intervals.size() < kFewestStepsToCompare) return std::nullopt;
  const SlowSteps slow = FindSlowSteps(parts);
  const size_t steps = parts.intervals.size();
  if (slow.count == 0 || (!slow.kinds && 2 * slow.count > steps)) return std::nullopt;
  PartTimes in_slow{}, in_others{};
  Finding finding;
  finding.kind = FindingKind::kUnevenSteps;
  for (size_t i = 0; i < steps; ++i) {
    PartTimes& sums = slow.is_slow[i] ? in_slow : in_others;
    for (size_t part = 0; part < kStepParts; ++part) sums[part] += parts.by_step[i][part];
    if (slow.is_slow[i]) finding.ns += LengthOf(parts, i) - slow.middle_ns;
  }
  finding.what = slow.kinds ? KindsText(slow, steps)
                            : (slow.period ? EveryText(*slow.period)
                                           : absl::StrFormat("%d of %d steps", slow.count, steps)) +
                                  (slow.count == 1 ? " takes longer than the others: "
                                   : slow.period   ? " takes longer than the others: up to "
                                                   : " take longer than the others: up to ") +
                                  DurationText(slow.longest_ns) + " instead of " +
                                  DurationText(slow.middle_ns);
  const auto slow_steps = static_cast<int64_t>(slow.count);
  const auto other_steps = static_cast<int64_t>(steps - slow.count);
  PartTimes more{};
  for (size_t part = 0; part < kStepParts; ++part) {
    more[part] = in_slow[part] / slow_steps - in_others[part] / other_steps;
  }
  const StepPart most = LargestOf(more);
  const std::string a_slow = slow.kinds ? "A long step has " : "A slow step has ";
  const bool may_be_a_wait = most == StepPart::kPython && !parts.has_kernel;
  finding.evidence.push_back(
      a_slow + DurationText(more[static_cast<size_t>(most)]) + " more of " +
      (may_be_a_wait ? "time in no operator" : std::string(StepPartText(most))) +
      MostlyInFew(parts, slow, most) + ".");
  const std::string series = SeriesText(job, slow, most);
  if (!series.empty()) finding.evidence.push_back(series);
  const int64_t more_ns = finding.ns / slow_steps;
  const std::string row = GrownRow(job, slow.is_slow, slow.count, more_ns);
  if (!row.empty()) finding.evidence.push_back(row);
  if (!parts.has_kernel) finding.next = kMoreOfKernel;
  return finding;
}

namespace {

// Returns the values that `part` (0 to 1) of each of `pieces` pieces of about the same size lie
// below.
std::vector<int64_t> QuantilesOfPieces(const std::vector<int64_t>& values, size_t pieces,
                                       double part) {
  std::vector<int64_t> quantiles;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const auto begin = static_cast<std::ptrdiff_t>(piece * values.size() / pieces);
    const auto end = static_cast<std::ptrdiff_t>((piece + 1) * values.size() / pieces);
    std::vector<int64_t> of(values.begin() + begin, values.begin() + end);
    std::sort(of.begin(), of.end());
    quantiles.push_back(of[static_cast<size_t>(part * static_cast<double>(of.size()))]);
  }
  return quantiles;
}

std::vector<int64_t> MediansOfPieces(const std::vector<int64_t>& values, size_t pieces) {
  return QuantilesOfPieces(values, pieces, 0.5);
}

bool Grows(const std::vector<int64_t>& values, double factor) {
  return static_cast<double>(values.back()) >= factor * static_cast<double>(values.front());
}

bool Ascends(const std::vector<int64_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

}  // namespace

std::string GrowthRemark(const Case& job) {
  constexpr size_t kFewestSteps = 16;
  constexpr double kGrows = 1.2;
  constexpr double kShortAndLongGrow = 1.1;
  constexpr double kMoreCalls = 1.02;
  const StepParts& parts = job.parts;
  if (!parts.are_steps || parts.intervals.size() < kFewestSteps) return "";
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < parts.intervals.size(); ++i) lengths.push_back(LengthOf(parts, i));
  const std::vector<int64_t> quarters = MediansOfPieces(lengths, 4);
  // Steps that only vary are not longer in each piece than in the one before.
  if (!Ascends(quarters)) return "";
  if (!Grows(quarters, kGrows)) return "";
  // Where steps are of two kinds, the median changes from one to the other by a few steps.
  for (const double part : {0.25, 0.75}) {
    if (!Grows(QuantilesOfPieces(lengths, 4, part), kShortAndLongGrow)) return "";
  }
  const std::vector<int64_t> calls = CallsByStep(job);
  const std::vector<int64_t> called =
      calls.empty() ? std::vector<int64_t>() : MediansOfPieces(calls, 4);
  const bool call_more = !called.empty() && Grows(called, kMoreCalls);
  // The same work takes longer for a while where a host is disturbed.
  if (!call_more && !Ascends(MediansOfPieces(lengths, 8))) return "";
  const std::string text = "Steps become longer: " + DurationText(quarters.front()) +
                           " at first, " + DurationText(quarters.back()) +
                           " at last (medians of the first and the last quarter of the steps)";
  if (called.empty()) return text + ".";
  if (!call_more) return text + ", with no more operators.";
  return text + absl::StrFormat(
                    ". They call %d operators at first, %d at last, as where a list or an "
                    "autograd graph is kept and grows.",
                    called.front(), called.back());
}

namespace {

// Tells that a DataLoader starts and ends its workers there, as at the begin of each epoch, by
// samples.
void TellWorkerStarts(const Case& job, Finding* finding) {
  int64_t all = 0;
  int64_t in_loader = 0;
  int64_t of_workers = 0;
  ForEachLook(job, TimesOf(job, StepPart::kBetween), [&](const Sample& sample) {
    bool is_in_loader = false;
    bool is_of_workers = false;
    for (const SampleFrame* frame : PythonFramesOf(job.timeline, sample.frame)) {
      const SampleFunction& function = job.timeline.sample_function(*frame);
      is_in_loader |= function.file.ends_with("torch/utils/data/dataloader.py");
      is_of_workers |= function.file.ends_with("multiprocessing/process.py");
    }
    ++all;
    in_loader += is_in_loader;
    of_workers += is_in_loader && is_of_workers;
  });
  constexpr int64_t kWorkersPart = 5;
  if (all < kFewestSamples || 2 * in_loader < all || kWorkersPart * of_workers < all) return;
  finding->what = DriverText(job) + " is between two steps: it starts workers of a DataLoader anew";
  finding->evidence.push_back(
      PercentText(in_loader, all) +
      " of the samples there are in the DataLoader, which starts workers, waits for their first "
      "batch, or ends them, as for each epoch: persistent_workers=True spares that.");
}

}  // namespace

std::optional<Finding> FindBetweenSteps(const Case& job) {
  const StepParts& parts = job.parts;
  Finding finding;
  finding.kind = FindingKind::kBetweenSteps;
  finding.ns = parts.of(StepPart::kBetween);
  finding.what = DriverText(job) + " is between two steps: checkpoints, evaluation, or the like";
  uint64_t gaps = 0;
  int64_t longest_ns = 0;
  for (const PartMoment& moment : parts.moments) {
    if (moment.part != StepPart::kBetween) continue;
    ++gaps;
    longest_ns = std::max(longest_ns, moment.end_ns - moment.start_ns);
  }
  const StepPart most = LargestOf(parts.between);
  const int64_t most_ns = parts.between[static_cast<size_t>(most)];
  finding.evidence.push_back(CountText(gaps, "time", "times") + ", " + DurationText(longest_ns) +
                             " at the longest; " + PercentText(most_ns, finding.ns) + " of it is " +
                             std::string(StepPartText(most)) + ".");
  std::map<uint32_t, RowSums> by_label;
  ForEachSpan(job.timeline, [&](SpanId, const Span& span) {
    if (span.thread != parts.thread || span.is_apart) return;
    if (!parts.IsIn(StepPart::kBetween, span.start_ns)) return;
    RowSums& sums = by_label[Raw(span.label)];
    sums.ns += static_cast<double>(span.duration_ns);
    sums.depth = std::max(sums.depth, span.depth);
  });
  const auto* row = InnermostLargest(by_label);
  if (row != nullptr && 5 * row->second.ns > static_cast<double>(finding.ns)) {
    finding.evidence.push_back(
        "Of the rows there, " + NameOf(job, row->first) +
        " takes the most: " + DurationText(static_cast<int64_t>(row->second.ns)) + " in all.");
  }
  TellWorkerStarts(job, &finding);
  const PythonSource source = AddPython(job, StepPart::kBetween, &finding);
  if (source == PythonSource::kSamples) {
    AddCallingLines(job, StepPart::kBetween, &finding);
  } else if (most == StepPart::kPython && job.timeline.samples().empty()) {
    finding.next = "--sample 99Hz";
  }
  if (!parts.has_kernel) finding.next = kMoreOfKernel;
  return finding;
}

}  // namespace proftrace
