#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_options.h"
#include "userspace/cli/say.h"
#include "userspace/fleet_questions/answer_output.h"
#include "userspace/fleet_questions/question.h"

namespace proftrace {
namespace {

struct QueryArguments {
  FleetQuestionOptions asked;  // its directory may be missing: --list and --show need none
  std::string question;
  std::string shown;
  bool lists = false;
  bool csv = false;
  bool json = false;
};

void ListQuestions() {
  size_t width = 0;
  for (const Question& question : Questions()) width = std::max(width, question.name.size());
  for (const Question& question : Questions()) {
    Print("%-*s  %s\n", static_cast<int>(width), std::string(question.name).c_str(),
          std::string(question.title).c_str());
  }
}

absl::Status ShowQuestion(const std::string& name) {
  const Question* question = FindQuestion(name);
  if (question == nullptr) return NoSuchQuestion(name);
  Print("%s", std::string(question->text).c_str());
  return absl::OkStatus();
}

// Returns the SQL of a question that is given by its name, as a file, or as SQL.
absl::StatusOr<std::string> TextOf(const std::string& given) {
  if (const Question* question = FindQuestion(given)) return std::string(question->text);
  if (given.ends_with(".sql")) {
    std::ifstream file(given, std::ios::binary);
    if (!file) {
      return Fail(ExitCode::kUsage, "cannot read " + ShownText(given) + ": " + ErrnoText(errno));
    }
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (given.find_first_of(" \n\t(") == std::string::npos) return NoSuchQuestion(given);
  return given;
}

absl::Status RunQuery(const QueryArguments& arguments) {
  if (arguments.lists) {
    ListQuestions();
    return absl::OkStatus();
  }
  if (!arguments.shown.empty()) return ShowQuestion(arguments.shown);
  if (arguments.asked.directory.empty() || arguments.question.empty()) {
    return Fail(ExitCode::kUsage,
                "give a directory and a question: proftrace fleet query DIR stragglers; --list "
                "lists the questions");
  }
  auto session = BeginFleetSession(arguments.asked);
  if (!session.ok()) return session.status();
  const Question* named = FindQuestion(arguments.question);
  if (named != nullptr && named->is_of_diff) {
    return Fail(ExitCode::kUsage,
                "that question is over two directories; 'proftrace fleet diff' "
                "asks it");
  }
  const absl::StatusOr<std::string> text = TextOf(arguments.question);
  if (!text.ok()) return text.status();
  absl::Status status = CheckOneStatement(*text);
  if (!status.ok()) return status;
  session->request->KeepViews({*text});
  if (named != nullptr) {
    session->request->Ask(*named);
  } else {
    session->request->AskText(*text);
  }
  const AnswerForm form = arguments.csv    ? AnswerForm::kCsv
                          : arguments.json ? AnswerForm::kJson
                                           : AnswerForm::kTable;
  const auto writer = NewAnswerWriter(form, WriteAnswer);
  status = AskInSession(*session, *writer);
  if (status.ok()) writer->Finish();
  return status;
}

}  // namespace

void AddFleetQueryCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<QueryArguments>();
  CLI::App* command = fleet.add_subcommand(
      "query",
      "Ask one question of a fleet's tables: by its name, a file with SQL, or SQL itself.\n"
      "Example: proftrace fleet query tables stragglers\n"
      "Example: proftrace fleet query tables 'SELECT rank, AVG(duration_ns) FROM steps GROUP BY "
      "rank'");
  command->footer("DIR QUESTION [OPTIONS]");
  AddFleetQuestionOptions(command, &arguments->asked);
  command->get_option("DIR")->required(false);
  command->add_option("QUESTION", arguments->question,
                      "a name of --list, a file that ends with .sql, or one SELECT");
  command->add_flag("--list", arguments->lists, "lists the questions that have a name");
  command
      ->add_option("--show", arguments->shown,
                   "prints the SQL of this question, and how to read it")
      ->type_name("NAME");
  auto* csv = command->add_flag("--csv", arguments->csv, "prints the answer as CSV");
  command->add_flag("--json", arguments->json, "prints the answer as one JSON document")
      ->excludes(csv);
  command->callback(
      [arguments, action] { *action = [arguments] { return RunQuery(*arguments); }; });
}

}  // namespace proftrace
