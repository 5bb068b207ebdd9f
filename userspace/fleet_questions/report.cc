#include "userspace/fleet_questions/report.h"

#include <absl/strings/str_format.h>

#include <utility>

#include "userspace/fleet_questions/report_section.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

// Answers that are shown as sentences instead of a table.
constexpr std::string_view kTold[] = {"coverage", "balance", "verdict", "what_if", "clock"};

const std::vector<ReportSection>& ReportSections() {
  static const auto* const kSections = new std::vector<ReportSection>{
      {"stragglers",
       "Ranks by what they take longer by their own doing, a step",
       {{"rank", "rank", Unit::kNumber},
        {"host", "host"},
        {"excess_ns", "longer by", Unit::kTime},
        {"score", "of the step", Unit::kShare},
        {"spread_ns", "usual", Unit::kTime},
        {"slow_steps", "slow steps", Unit::kNumber},
        {"steps", "of", Unit::kNumber},
        {"is_slow", "stands out", Unit::kNumber},
        {"cause", "largest cause"},
        {"coverage", "explains", Unit::kShare}}},
      {"causes",
       "Where the time of slow ranks goes, a step",
       {{"rank", "rank", Unit::kNumber},
        {"part", "part"},
        {"ns", "longer by", Unit::kTime},
        {"share", "of its excess", Unit::kShare}}},
      {"wait_transfer",
       "Waits and transfers by group, sums over ranks",
       {{"group_name", "group"},
        {"op", "collective"},
        {"group_size", "ranks", Unit::kNumber},
        {"instances", "instances", Unit::kNumber},
        {"wait_ns", "wait", Unit::kTime},
        {"transfer_ns", "transfer", Unit::kTime},
        {"tail_ns", "tail", Unit::kTime},
        {"wait_without_clocks_ns", "wait without clocks", Unit::kTime},
        {"bound_ns", "clock error of one", Unit::kTime}}},
      {"late_ranks",
       "Ranks that others wait for",
       {{"rank", "rank", Unit::kNumber},
        {"times_last", "times last", Unit::kNumber},
        {"held_up_ns", "held others up", Unit::kTime},
        {"beyond_clock_error_ns", "beyond clock error", Unit::kTime}}},
      {"step_times",
       "Step times",
       {{"rank", "rank", Unit::kNumber},
        {"host", "host"},
        {"steps", "steps", Unit::kNumber},
        {"median_ns", "median", Unit::kTime},
        {"p99_ns", "p99", Unit::kTime},
        {"own_median_ns", "own median", Unit::kTime},
        {"variation", "variation", Unit::kShare}}},
      {"exposed_communication",
       "Communication that nothing hides",
       {{"rank", "rank", Unit::kNumber},
        {"comm_ns", "communication", Unit::kTime},
        {"exposed_ns", "exposed", Unit::kTime},
        {"exposed_share", "of the steps", Unit::kShare},
        {"overlap_share", "hidden", Unit::kShare}}},
      {"slow_groups",
       "Groups with slow transfers",
       {{"group_name", "group"},
        {"group_key", "key"},
        {"op", "collective"},
        {"in_bytes", "bytes", Unit::kBytes},
        {"transfer_ns", "transfer", Unit::kTime},
        {"middle_ns", "usual", Unit::kTime},
        {"ratio", "ratio", Unit::kNumber}}},
      {"loader_stalls",
       "Waits for DataLoaders",
       {{"rank", "rank", Unit::kNumber},
        {"host", "host"},
        {"waits", "waits", Unit::kNumber},
        {"blocked_ns", "blocked", Unit::kTime},
        {"share", "of the steps", Unit::kShare},
        {"io_share", "worker in I/O", Unit::kShare},
        {"worst_path", "worst file"}}},
      {"cpu_contention",
       "Waits for a CPU, by host",
       {{"host", "host"},
        {"ranks", "ranks", Unit::kNumber},
        {"run_queue_ns", "run queue", Unit::kTime},
        {"share", "of the steps", Unit::kShare},
        {"lock_share", "in locks", Unit::kShare},
        {"worst_rank", "worst rank", Unit::kNumber},
        {"worst_rank_ns", "its wait", Unit::kTime}}},
      {"slow_gpus",
       "GPUs by the speed of the same kernels (1 is usual)",
       {{"rank", "rank", Unit::kNumber},
        {"host", "host"},
        {"gpu_score", "score", Unit::kNumber},
        {"kernels_compared", "kernels", Unit::kNumber},
        {"total_ns", "their time", Unit::kTime}}},
      {"slow_files",
       "Files that take longest",
       {{"host", "host"},
        {"file", "file"},
        {"calls", "calls", Unit::kNumber},
        {"time_ns", "time", Unit::kTime},
        {"ns_a_call", "a call", Unit::kTime},
        {"longest_ns", "longest", Unit::kTime},
        {"bytes_read", "read", Unit::kBytes}}},
      {"incomplete_collectives",
       "Collectives that not all ranks were seen in",
       {{"group_name", "group"},
        {"op", "collective"},
        {"group_size", "ranks", Unit::kNumber},
        {"ranks_seen", "seen", Unit::kNumber},
        {"instances", "instances", Unit::kNumber},
        {"first_seq", "first number", Unit::kNumber},
        {"last_seq", "last number", Unit::kNumber}}},
      {"losses",
       "What recordings have lost",
       {{"rank", "rank", Unit::kNumber},
        {"host", "host"},
        {"ledger", "ledger"},
        {"counter", "counter"},
        {"count", "count", Unit::kNumber}}},
  };
  return *kSections;
}

std::string CoverageText(const Answer& coverage) {
  std::string text;
  for (size_t row = 0; row < coverage.rows.size(); ++row) {
    const auto number = [&](std::string_view column) {
      return static_cast<int64_t>(NumberOr0(coverage.At(row, column)));
    };
    const std::string world = coverage.At(row, "world_size").is_null()
                                  ? "a number of ranks that is not known"
                                  : std::to_string(number("world_size"));
    // The number of hosts is 0 where traces of other profilers do not tell their host.
    const std::string hosts = number("hosts") == 0 ? "not known" : std::to_string(number("hosts"));
    text +=
        absl::StrFormat("Coverage: %d of %s ranks, hosts: %s; %d events lost in %d of %d inputs\n",
                        number("ranks_seen"), world, hosts, number("lost"),
                        number("inputs_with_loss"), number("inputs"));
  }
  return text;
}

}  // namespace

std::vector<std::string_view> ReportQuestions() {
  std::vector<std::string_view> names(std::begin(kTold), std::end(kTold));
  for (const ReportSection& section : ReportSections()) names.emplace_back(section.question);
  return names;
}

absl::Status ReportAnswers::OnQuestion(const std::string& name,
                                       const std::vector<AnswerColumn>& columns) {
  last_ = &answers_[name];
  last_->columns = columns;
  return absl::OkStatus();
}

absl::Status ReportAnswers::OnRow(const std::vector<json>& cells) {
  last_->rows.push_back(cells);
  return absl::OkStatus();
}

const Answer& ReportAnswers::Of(std::string_view name) const {
  static const auto* const kNone = new Answer();
  const auto found = answers_.find(name);
  return found == answers_.end() ? *kNone : found->second;
}

std::string ReportText(const ReportAnswers& answers, const std::string& directory) {
  std::string text;
  for (const std::string& sentence : ReportSentences(answers)) text += sentence + "\n";
  text += CoverageText(answers.Of("coverage")) + ClockLine(answers) + "\n";
  std::string empty;
  for (const ReportSection& section : ReportSections()) {
    const Answer& answer = answers.Of(section.question);
    if (answer.rows.empty()) {
      empty += (empty.empty() ? "" : ", ") + std::string(section.question);
    } else {
      text += SectionText(section, answer, directory);
    }
  }
  if (!empty.empty()) text += "\nNothing to show: " + empty + "\n";
  return text;
}

nlohmann::ordered_json ReportJson(const ReportAnswers& answers) {
  nlohmann::ordered_json document;
  document["sentences"] = ReportSentences(answers);
  document["clock"] = ClockLine(answers);
  for (const std::string_view name : ReportQuestions()) {
    document["answers"][std::string(name)] = RowsJson(answers.Of(name));
  }
  return document;
}

}  // namespace proftrace
