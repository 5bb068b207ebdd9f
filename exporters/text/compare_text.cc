#include "exporters/text/compare_text.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "exporters/args/recording_json.h"
#include "exporters/sinks/escape.h"
#include "exporters/text/text_table.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

// Parts below this part of a step are in the JSON alone.
constexpr double kShownPart = 0.001;

std::string_view PartText(std::string_view name) {
  for (size_t i = 0; i < kStepParts; ++i) {
    const auto part = static_cast<StepPart>(i);
    if (StepPartName(part) == name) return StepPartText(part);
  }
  return name == kUnknownParts ? "what one recording does not tell apart" : name;
}

// The unit of the times that are printed: microseconds where steps are so short that milliseconds
// would have one digit.
class Unit {
 public:
  explicit Unit(const RunComparison& comparison) {
    constexpr double kShortMs = 0.1;
    const Change& step = comparison.whole;
    is_short_ = comparison.by_step && std::max(step.before_ms, step.after_ms) < kShortMs;
  }

  std::string name() const { return is_short_ ? "us" : "ms"; }
  std::string Text(double ms) const {
    const double value = is_short_ ? 1000 * ms : ms;
    const double size = std::abs(value);
    std::string text = absl::StrFormat("%.*f", size < 1 ? 3 : size < 100 ? 2 : 1, value);
    return text == "-0.000" ? "0.000" : text;
  }
  std::string Signed(double ms) const {
    const std::string text = Text(ms);
    return (ms > 0 && text != "0.000" ? "+" : "") + text;
  }
  std::string Noise(const Change& change) const {
    return change.noise_ms ? Text(*change.noise_ms) : std::string("?");
  }

 private:
  bool is_short_ = false;
};

std::string CallsText(const Change& change) {
  const auto text = [](double calls) {
    const double tenths = std::round(10 * calls);
    return absl::StrFormat("%.*f", std::fmod(tenths, 10) == 0 ? 0 : 1, tenths / 10);
  };
  const std::string before = text(change.calls_before);
  const std::string after = text(change.calls_after);
  return before == after ? after : before + " > " + after;
}

std::string AboutText(const RunComparison& comparison, const Unit& unit) {
  if (!comparison.by_step) return "The recordings are compared by the second.";
  const Change& step = comparison.whole;
  const std::string steps =
      absl::StrFormat("Steps take %s %s (mean of %d); before %s %s (mean of %d)",
                      unit.Text(step.after_ms), unit.name(), comparison.steps_after,
                      unit.Text(step.before_ms), unit.name(), comparison.steps_before);
  const std::string percent =
      step.before_ms > 0 ? absl::StrFormat(", %+.1f %%", 100 * step.ms() / step.before_ms) : "";
  const std::string noise =
      step.noise_ms ? absl::StrFormat(" (within %s %s)", unit.Text(*step.noise_ms), unit.name())
                    : "";
  if (!step.is_real()) {
    return steps + ": no difference that is more than they vary by themselves" + noise + ".";
  }
  return steps + ": " + unit.Signed(step.ms()) + " " + unit.name() + percent + noise + ".";
}

size_t ShownOf(size_t rows, int64_t row_limit) {
  return row_limit < 0 ? rows : std::min(rows, static_cast<size_t>(row_limit));
}

void AddNamed(const std::string& title, const std::vector<Change>& changes, bool has_calls,
              int64_t row_limit, const Unit& unit, std::string* text) {
  if (changes.empty()) return;
  TextTable table({{title},
                   {"Before", true},
                   {"Now", true},
                   {"Change", true},
                   {"Within", true},
                   {has_calls ? "Calls" : "", true}});
  const size_t shown = ShownOf(changes.size(), row_limit);
  for (size_t i = 0; i < shown; ++i) {
    const Change& change = changes[i];
    table.AddRow({change.name, unit.Text(change.before_ms), unit.Text(change.after_ms),
                  unit.Signed(change.ms()), unit.Noise(change),
                  has_calls ? CallsText(change) : ""});
  }
  *text += "\n" + table.Take();
  if (shown < changes.size()) {
    *text += absl::StrFormat("%d more; --row-limit -1 shows all.\n", changes.size() - shown);
  }
}

void AddParts(const RunComparison& comparison, const Unit& unit, std::string* text) {
  TextTable table(
      {{"What the thread does (" + unit.name() + (comparison.by_step ? " a step)" : " a second)")},
       {"Before", true},
       {"Now", true},
       {"Change", true},
       {"Within", true},
       {""}});
  std::vector<const Change*> parts;
  for (const Change& part : comparison.parts) parts.push_back(&part);
  std::stable_sort(parts.begin(), parts.end(), [](const Change* a, const Change* b) {
    return std::abs(a->ms()) > std::abs(b->ms());
  });
  const double whole_ms = std::max(comparison.whole.before_ms, comparison.whole.after_ms);
  for (const Change* part : parts) {
    if (std::max(part->before_ms, part->after_ms) < kShownPart * whole_ms) continue;
    table.AddRow({std::string(PartText(part->name)), unit.Text(part->before_ms),
                  unit.Text(part->after_ms), unit.Signed(part->ms()), unit.Noise(*part),
                  part->is_real() ? "" : "as it was"});
  }
  *text += "\n" + table.Take();
}

std::string_view KindText(FindingChange::Kind kind) {
  switch (kind) {
    case FindingChange::Kind::kNew:
      return "new";
    case FindingChange::Kind::kGone:
      return "gone";
    case FindingChange::Kind::kMore:
      return "more";
    case FindingChange::Kind::kLess:
      return "less";
  }
  return "";
}

void AddFindings(const RunComparison& comparison, const Unit& unit, std::string* text) {
  if (comparison.findings.empty()) return;
  *text += "\nCauses that changed (report --why tells of each recording's):\n";
  const std::string of_step = " " + unit.name() + " a step";
  for (const FindingChange& change : comparison.findings) {
    const std::string times =
        change.kind == FindingChange::Kind::kNew ? unit.Text(change.after_ms) + of_step
        : change.kind == FindingChange::Kind::kGone
            ? "was " + unit.Text(change.before_ms) + of_step
            : unit.Text(change.after_ms) + of_step + ", was " + unit.Text(change.before_ms) +
                  (change.was.empty() ? "" : ": " + change.was);
    *text += absl::StrFormat("  %s: %s (%s).\n", KindText(change.kind), change.finding.what, times);
  }
}

OrderedJson ChangeJson(const Change& change, bool has_calls) {
  OrderedJson json = {{"name", ToValidUtf8(change.name)},
                      {"before_ms", change.before_ms},
                      {"after_ms", change.after_ms},
                      {"change_ms", change.ms()},
                      {"within_ms", nullptr},
                      {"is_real", change.is_real()}};
  if (change.noise_ms) json["within_ms"] = *change.noise_ms;
  if (has_calls) {
    json["calls_before"] = change.calls_before;
    json["calls_after"] = change.calls_after;
  }
  return json;
}

OrderedJson ChangesJson(const std::vector<Change>& changes, bool has_calls, int64_t row_limit) {
  OrderedJson rows = OrderedJson::array();
  const size_t shown = ShownOf(changes.size(), row_limit);
  for (size_t i = 0; i < shown; ++i) rows.push_back(ChangeJson(changes[i], has_calls));
  return rows;
}

}  // namespace

std::string FormatComparison(const RunComparison& comparison, int64_t row_limit) {
  const Unit unit(comparison);
  std::string text = AboutText(comparison, unit) + "\n";
  for (const std::string& remark : comparison.remarks) text += ShownText(remark) + "\n";
  AddParts(comparison, unit, &text);
  AddFindings(comparison, unit, &text);
  const std::string of = " (" + unit.name() + (comparison.by_step ? " a step)" : " a second)");
  AddNamed("Functions that changed, by samples" + of, comparison.functions, false, row_limit, unit,
           &text);
  AddNamed("Operators that changed, self CPU" + of, comparison.operators, true, row_limit, unit,
           &text);
  AddNamed("Modules that changed, forward and backward" + of, comparison.modules, true, row_limit,
           unit, &text);
  return text;
}

absl::Status ExportComparisonJson(const RunComparison& comparison, int64_t row_limit,
                                  ByteSink& sink) {
  OrderedJson findings = OrderedJson::array();
  for (const FindingChange& change : comparison.findings) {
    findings.push_back({{"change", KindText(change.kind)},
                        {"kind", FindingKindName(change.finding.kind)},
                        {"what", ToValidUtf8(change.finding.what)},
                        {"was", ToValidUtf8(change.was)},
                        {"before_ms", change.before_ms},
                        {"after_ms", change.after_ms}});
  }
  OrderedJson remarks = OrderedJson::array();
  for (const std::string& remark : comparison.remarks) remarks.push_back(ToValidUtf8(remark));
  OrderedJson json = {
      {"by_step", comparison.by_step},
      {"before",
       {{"steps", comparison.steps_before}, {"median_step_ms", comparison.median_before_ms}}},
      {"after",
       {{"steps", comparison.steps_after}, {"median_step_ms", comparison.median_after_ms}}},
      {"step", comparison.by_step ? ChangeJson(comparison.whole, false) : OrderedJson()},
      {"parts", ChangesJson(comparison.parts, false, -1)},
      {"operators", ChangesJson(comparison.operators, true, row_limit)},
      {"modules", ChangesJson(comparison.modules, true, row_limit)},
      {"functions", ChangesJson(comparison.functions, false, row_limit)},
      {"findings", std::move(findings)},
      {"common_factor", nullptr},
      {"remarks", std::move(remarks)}};
  if (comparison.common_factor) json["common_factor"] = *comparison.common_factor;
  return WriteJson(json, sink);
}

}  // namespace proftrace
