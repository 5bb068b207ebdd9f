#include "userspace/fleet_questions/fleet_diff.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/fleet_questions/question.h"
#include "userspace/fleet_questions/report_section.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

// Names of the answers that list the chosen runs.
constexpr std::string_view kBeforeRuns = "before_runs";
constexpr std::string_view kAfterRuns = "after_runs";
constexpr size_t kMostNamed = 8;

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

void AddRun(const RunChoice& choice, bool is_after, FleetRequest* request) {
  const std::string_view run = FindQuestion("run_summary")->text;
  const std::string_view ranks = FindQuestion("rank_summary")->text;
  request->KeepViews({run, ranks});
  std::string chosen = "SELECT * FROM own_time WHERE 1 = 1";
  // The name's bytes are written as hex digits, because engines differ in how they read quoted
  // texts.
  if (choice.job) {
    absl::StrAppend(&chosen, " AND HEX(job) = '",
                    absl::AsciiStrToUpper(absl::BytesToHexString(*choice.job)), "'");
  }
  if (choice.attempt) absl::StrAppend(&chosen, " AND attempt = ", *choice.attempt);
  request->Keep("chosen_time", chosen);
  request->Keep("own_time", "SELECT * FROM chosen_time");
  request->Keep(is_after ? "after_run" : "before_run", run);
  request->Keep(is_after ? "after_ranks" : "before_ranks", ranks);
  request->AskNamed(is_after ? kAfterRuns : kBeforeRuns,
                    "SELECT DISTINCT job, attempt FROM own_time ORDER BY job, attempt");
}

absl::Status CheckIsOneRun(const ReportAnswers& answers, const RunChoice& choice, bool is_after,
                           const std::string& directory) {
  const Answer& runs = answers.Of(is_after ? kAfterRuns : kBeforeRuns);
  const bool is_chosen = choice.job || choice.attempt;
  // A directory without steps has no run to choose from; the page says so.
  if (runs.rows.size() == 1 || (runs.rows.empty() && !is_chosen)) return absl::OkStatus();
  std::string names;
  for (size_t row = 0; row < runs.rows.size(); ++row) {
    const json& job = runs.At(row, "job");
    absl::StrAppend(&names, names.empty() ? "" : ", ", "job ",
                    job.is_string() ? ShownText(job.get_ref<const std::string&>()) : "",
                    " attempt ", DumpedJson(runs.At(row, "attempt")));
    if (row + 1 == kMostNamed && runs.rows.size() > kMostNamed) {
      absl::StrAppend(&names, " and ", runs.rows.size() - kMostNamed, " more");
      break;
    }
  }
  return Fail(ExitCode::kUsage, names.empty()
                                    ? ShownText(directory) + " has no steps of that job and attempt"
                                    : ShownText(directory) + " has several runs: " + names +
                                          "; choose one with --job and --attempt");
}

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
