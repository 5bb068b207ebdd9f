#include <absl/strings/str_format.h>

#include <cstdint>
#include <map>
#include <utility>

#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/fleet_questions/report.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr size_t kMostTold = 5;  // slow ranks that have sentences of their own
constexpr int64_t kFewSteps = 5;

// Returns the words for each part of a step (the parts of the view `ranks`).
const std::map<std::string, std::string>& CauseWords() {
  static const auto* const kWords = new std::map<std::string, std::string>{
      {"data", "it waits for its DataLoader"},
      {"io", "its system calls on files and the network take longer"},
      {"lock", "it waits for locks that other threads hold"},
      {"run queue", "it could run and had no CPU: others ran there"},
      {"faults", "its page faults take longer"},
      {"recording", "it has more page faults and system calls, whose records take time"},
      {"garbage collection", "Python collects garbage for longer"},
      {"operators", "its operators take longer on the CPU"},
      {"python", "its Python code outside of operators takes longer"},
      {"system calls",
       "it is in system calls that are no I/O: it sleeps, polls, waits for a process"},
      {"waiting", "it waits for other threads or its GPU, and not for a collective"},
      {"gpu", "its GPU computes for longer"}};
  return *kWords;
}

std::string Text(const json& cell) {
  return cell.is_string() ? ShownText(cell.get_ref<const std::string&>()) : "";
}

int64_t Whole(const json& cell) { return static_cast<int64_t>(NumberOr0(cell)); }

// Gives access to a row's cells by the names of the columns.
struct Row {
  const Answer& answer;
  size_t row;

  const json& operator[](std::string_view column) const { return answer.At(row, column); }
};

bool IsOfSameJob(const Row& row, const Row& other) {
  return row["job"] == other["job"] && row["attempt"] == other["attempt"];
}

std::string JobName(const Row& row) {
  std::string name;
  if (!Text(row["job"]).empty()) name = "job " + Text(row["job"]);
  if (Whole(row["attempt"]) > 0) {
    name += (name.empty() ? "attempt " : ", attempt ") + std::to_string(Whole(row["attempt"]));
  }
  return name;
}

std::string Since(const Row& row) {
  const int64_t from = Whole(row["from_step"]);
  const int64_t to = Whole(row["to_step"]);
  const int64_t last = Whole(row["last_step"]);
  if (Whole(row["has_changed"]) == 0) {
    return absl::StrFormat("from the first step that was seen (%d) on", from);
  }
  if (to == last) return absl::StrFormat("since step %d", from);
  return absl::StrFormat("from step %d to step %d", from, to);
}

std::string Why(const Row& row) {
  const std::string cause = Text(row["cause"]);
  const std::string share = ShareOf(row["coverage"]);
  if (cause == "not recorded") {
    return "Why was not recorded: 'proftrace record --activities cpu,sched,syscalls' records it.";
  }
  const auto words = CauseWords().find(cause == "unknown" ? Text(row["largest_part"]) : cause);
  const std::string said = words == CauseWords().end() ? cause : words->second;
  if (cause == "unknown") {
    return "Why is unknown: the largest part (" + said + ") explains only " + share + " of it.";
  }
  return "Why: " + said + ", which explains " + share + " of it" + [&]() -> std::string {
    if (cause == "operators" && !Text(row["operator"]).empty()) {
      return ": " + Text(row["operator"]) + " takes " + TimeOf(row["operator_excess_ns"]) +
             " more a step.";
    }
    if (cause == "data" && !Text(row["loader_path"]).empty()) {
      return "; its workers read " + Text(row["loader_path"]) + ", and spend " +
             ShareOf(row["loader_io_share"]) + " of these waits in I/O.";
    }
    if (cause == "io" && !Text(row["file"]).empty()) {
      return "; most of it in " + Text(row["file"]) + ".";
    }
    return ".";
  }();
}

std::string Evidence(const Row& row) {
  std::string text = absl::StrFormat(
      "Evidence: %d of %d steps are longer by more than 5 %% than those of %d ranks like it",
      Whole(row["slow_steps"]), Whole(row["steps"]), Whole(row["cohort_ranks"]) - 1);
  if (row["held_up_ns"].is_number()) {
    text += "; the others spend " + TimeOf(row["others_wait_ns"]) +
            " a step more in collectives than it does, which needs no clock; it enters " +
            ShareOf(row["times_last"]) + " of them last, by " + TimeOf(row["held_up_ns"]) +
            " a step, of which " + TimeOf(row["beyond_clock_error_ns"]) +
            " is beyond the clocks' error";
  }
  return text + ".";
}

std::string HowSure(const Row& row) {
  if (Text(row["sure"]) == "sure") {
    return "Sure: all ranks were seen, and what the others wait in collectives says the same.";
  }
  const int64_t seen = Whole(row["ranks_seen"]);
  const int64_t world = Whole(row["world_size"]);
  if (seen < world) {
    return absl::StrFormat("Likely: %d of %d ranks were seen, and one of the others may be slower.",
                           seen, world);
  }
  return "Likely: its own times say so, and no collective with times proves it.";
}

std::vector<std::string> SentencesOf(const Row& row) {
  std::string first = absl::StrFormat("Rank %d", Whole(row["rank"]));
  if (!Text(row["host"]).empty()) first += " (" + Text(row["host"]) + ")";
  first += " is slow " + Since(row) + ": each step takes it " + TimeOf(row["excess_ns"]) +
           " longer by its own doing than the ranks like it, " + ShareOf(row["lost_share"]) +
           " of the step.";
  return {first, "  " + Why(row), "  " + Evidence(row), "  " + HowSure(row)};
}

// Returns a sentence on why nothing can be said about a job, or that no rank stands out; empty
// where one does.
std::string WhyNobody(const Row& coverage, const Answer& balance) {
  const int64_t seen = Whole(coverage["ranks_seen"]);
  const int64_t world = Whole(coverage["world_size"]);
  if (seen == 0) {
    return "The recorded processes say no rank (RANK is not set in them), so that none can be "
           "compared "
           "with others like it. What one of them spends its time on is told by "
           "`proftrace report CAPTURE --why`.";
  }
  const std::string part = seen < world ? absl::StrFormat("%d of %d ranks were seen", seen, world)
                           : seen == 1  ? "1 rank was seen"
                                        : absl::StrFormat("%d ranks were seen", seen);
  for (size_t i = 0; i < balance.rows.size(); ++i) {
    const Row row{balance, i};
    if (!IsOfSameJob(row, coverage)) continue;
    if (Whole(row["ranks_compared"]) == 0) {
      return part + (seen < world
                         ? ": too few to know which rank is slow. A rank is compared with two "
                           "others like it at least; record all ranks."
                         : ": which one is slow cannot be known, as a rank is compared with two "
                           "others like it at least.");
    }
    if (Whole(row["steps"]) < kFewSteps) {
      return absl::StrFormat(
          "Of a rank only %d steps were seen: too few to know which rank is slow. Record longer.",
          Whole(row["steps"]));
    }
    if (Whole(row["slow_ranks"]) > 0) return "";
    std::string text = "No rank stands out: the slowest of " + std::to_string(Whole(row["ranks"])) +
                       " takes " + ShareOf(row["largest_score"]) +
                       " of the step longer by its own doing than the ranks like it.";
    if (seen < world) text += " But only " + part + ": one of the others may be slow.";
    return text;
  }
  return part + ", but no steps were found in them: which rank is slow cannot be known.";
}

}  // namespace

std::vector<std::string> ReportSentences(const ReportAnswers& answers) {
  std::vector<std::string> sentences;
  const Answer& coverage = answers.Of("coverage");
  const Answer& verdict = answers.Of("verdict");
  const Answer& what_if = answers.Of("what_if");
  if (coverage.rows.empty()) return {"There is no recording in these tables."};
  for (size_t i = 0; i < coverage.rows.size(); ++i) {
    const Row job{coverage, i};
    if (coverage.rows.size() > 1) sentences.push_back("Of " + JobName(job) + ":");
    const std::string nobody = WhyNobody(job, answers.Of("balance"));
    if (!nobody.empty()) sentences.push_back(nobody);
    size_t slow = 0;
    for (size_t j = 0; j < verdict.rows.size(); ++j) {
      const Row row{verdict, j};
      if (!IsOfSameJob(row, job)) continue;
      if (++slow > kMostTold) continue;
      const std::vector<std::string> of_rank = SentencesOf(row);
      sentences.insert(sentences.end(), of_rank.begin(), of_rank.end());
    }
    if (slow > kMostTold) {
      sentences.push_back(
          absl::StrFormat("%d more ranks are slow; the tables tell of them.", slow - kMostTold));
    }
    for (size_t j = 0; slow > 0 && j < what_if.rows.size(); ++j) {
      const Row row{what_if, j};
      if (!IsOfSameJob(row, job)) continue;
      sentences.push_back("If the slow ranks were as the others, steps would be shorter by up to " +
                          ShareOf(row["slow_share"]) + "; with perfect balance by up to " +
                          ShareOf(row["share"]) + ".");
    }
  }
  return sentences;
}

std::vector<std::string> SlowRankSentences(const Answer& verdict, size_t row) {
  return SentencesOf(Row{verdict, row});
}

std::string ClockLine(const ReportAnswers& answers) {
  const Answer& clock = answers.Of("clock");
  const Row row{clock, 0};
  const int64_t hosts = Whole(row["hosts"]);
  std::string line =
      "Clocks: " + (hosts == 0 ? "hosts that are not named"
                               : OneOrMore(static_cast<uint64_t>(hosts), "host", "hosts"));
  if (Whole(row["boots"]) == 1) return line + ", one boot: one clock";
  if (row["worst_bound_ns"].is_number()) {
    line += ": +-" + TimeOf(row["bound_ns"]) + " proved (worst +-" + TimeOf(row["worst_bound_ns"]) +
            ")";
    if (row["likely_error_ns"].is_number()) {
      line += ", +-" + TimeOf(row["likely_error_ns"]) + " likely";
    }
  } else {
    line += ": no error is proved";
  }
  if (Whole(row["timelines"]) > 1) {
    line += absl::StrFormat("; %d timelines, which cannot be compared", Whole(row["timelines"]));
  }
  if (Whole(row["not_aligned"]) > 0) {
    line += absl::StrFormat("; %d inputs are not aligned", Whole(row["not_aligned"]));
  }
  return line;
}

}  // namespace proftrace
