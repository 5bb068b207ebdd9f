#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_options.h"
#include "userspace/cli/say.h"
#include "userspace/fleet_questions/question.h"
#include "userspace/fleet_questions/report.h"

namespace proftrace {
namespace {

struct FleetReportArguments {
  FleetQuestionOptions question;
  bool json = false;
};

absl::Status RunFleetReport(const FleetReportArguments& arguments) {
  auto session = BeginFleetSession(arguments.question);
  if (!session.ok()) return session.status();
  std::vector<std::string_view> texts;
  for (const std::string_view name : ReportQuestions()) texts.push_back(FindQuestion(name)->text);
  session->request->KeepViews(texts);
  for (const std::string_view name : ReportQuestions()) {
    session->request->Ask(*FindQuestion(name));
  }
  ReportAnswers answers;
  absl::Status status = AskInSession(*session, answers);
  if (!status.ok()) return status;
  if (arguments.json) {
    PrintDocument(nlohmann::json(ReportJson(answers)));
  } else {
    WriteAnswer(ReportText(answers, arguments.question.directory));
  }
  return absl::OkStatus();
}

}  // namespace

void AddFleetReportCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<FleetReportArguments>();
  CLI::App* command = fleet.add_subcommand(
      "report",
      "Tell on one page which rank of a fleet is slow, since when, by how much, why and how sure "
      "that is; then what ranks wait for.\n"
      "Example: proftrace fleet report tables");
  command->add_flag("--json", arguments->json, "prints one JSON document");
  AddFleetQuestionOptions(command, &arguments->question);
  command->callback(
      [arguments, action] { *action = [arguments] { return RunFleetReport(*arguments); }; });
}

}  // namespace proftrace
