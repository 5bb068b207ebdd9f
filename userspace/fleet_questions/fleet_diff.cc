#include "userspace/fleet_questions/fleet_diff.h"

#include <utility>

#include "userspace/fleet_questions/report_section.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

const std::vector<ReportSection>& DiffSections() {
  const auto columns = [](const char* name, const char* title) -> std::vector<ReportColumn> {
    return {{name, title},
            {"before_ns", "before", Unit::kTime},
            {"after_ns", "after", Unit::kTime},
            {"change_ns", "change", Unit::kTime},
            {"change", "of it", Unit::kShare},
            {"error_ns", "error", Unit::kTime},
            {"is_beyond_noise", "beyond noise", Unit::kNumber}};
  };
  static const auto* const kSections = new std::vector<ReportSection>{
      {"diff_run", "A step and its parts, the average of ranks", columns("what", "part")},
      {"diff_ranks", "Own time of a step, by rank", columns("rank", "rank")}};
  return *kSections;
}

std::string DiffSentence(const Answer& run) {
  const json& before = run.At(0, "before_ns");
  const json& after = run.At(0, "after_ns");
  if (!before.is_number() || !after.is_number()) {
    return "One of the two has no steps: there is nothing to compare.";
  }
  if (NumberOr0(run.At(0, "is_beyond_noise")) == 0) {
    return "Steps take what they took: " + TimeOf(after) + " instead of " + TimeOf(before) +
           ", which is within the noise.";
  }
  std::string text = "Steps take " + TimeOf(after) + " instead of " + TimeOf(before) + " (" +
                     ShareOf(run.At(0, "change")) + ").";
  for (size_t row = 1; row < run.rows.size(); ++row) {
    const json& what = run.At(row, "what");
    if (what == "own time" || NumberOr0(run.At(row, "is_beyond_noise")) == 0) continue;
    return text + " The part that has changed most is " + what.get<std::string>() + ": " +
           TimeOf(run.At(row, "before_ns")) + " before, " + TimeOf(run.At(row, "after_ns")) +
           " now.";
  }
  return text;
}

}  // namespace

std::vector<std::string_view> DiffQuestions() { return {"diff_run", "diff_ranks"}; }

std::string DiffText(const ReportAnswers& answers) {
  std::string text = DiffSentence(answers.Of("diff_run")) + "\n";
  for (const ReportSection& section : DiffSections()) {
    text += SectionText(section, answers.Of(section.question), "");
  }
  return text;
}

nlohmann::ordered_json DiffJson(const ReportAnswers& answers) {
  nlohmann::ordered_json document;
  document["sentences"] = {DiffSentence(answers.Of("diff_run"))};
  for (const std::string_view name : DiffQuestions()) {
    document["answers"][std::string(name)] = RowsJson(answers.Of(name));
  }
  return document;
}

}  // namespace proftrace
