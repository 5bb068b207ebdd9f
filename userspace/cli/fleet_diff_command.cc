#include <memory>
#include <string>
#include <string_view>

#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_options.h"
#include "userspace/cli/say.h"
#include "userspace/fleet_questions/fleet_diff.h"
#include "userspace/fleet_questions/question.h"

namespace proftrace {
namespace {

struct FleetDiffArguments {
  std::string before;
  std::string after;
  bool json = false;
  EngineOptions engine;
};

absl::Status RunFleetDiff(const FleetDiffArguments& arguments) {
  auto session = BeginFleetSession(arguments.engine, {arguments.before, arguments.after});
  if (!session.ok()) return session.status();
  FleetRequest request(*session->scratch);
  const std::string_view run = FindQuestion("run_summary")->text;
  const std::string_view ranks = FindQuestion("rank_summary")->text;
  for (const bool is_after : {false, true}) {
    const std::string& directory = is_after ? arguments.after : arguments.before;
    absl::Status status = request.UseTables(directory, FleetSession::IsRemote(directory));
    if (!status.ok()) return status;
    request.KeepViews({run, ranks});
    request.Keep(is_after ? "after_run" : "before_run", run);
    request.Keep(is_after ? "after_ranks" : "before_ranks", ranks);
  }
  for (const std::string_view name : DiffQuestions()) {
    request.Ask(*FindQuestion(name));
  }
  ReportAnswers answers;
  absl::Status status = AskInSession(*session, request, answers);
  if (!status.ok()) return status;
  if (arguments.json) {
    PrintDocument(nlohmann::json(DiffJson(answers)));
  } else {
    WriteAnswer(DiffText(answers));
  }
  return absl::OkStatus();
}

}  // namespace

void AddFleetDiffCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<FleetDiffArguments>();
  CLI::App* command = fleet.add_subcommand(
      "diff",
      "Tell what has changed from one run of a job to another: steps, the parts of them, ranks.\n"
      "Example: proftrace fleet diff monday tuesday");
  command->add_option("BEFORE", arguments->before, "the directory of the first run's tables")
      ->required();
  command->add_option("AFTER", arguments->after, "the directory of the other run's tables")
      ->required();
  command->add_flag("--json", arguments->json, "print it as one JSON document");
  AddEngineOptions(command, &arguments->engine);
  command->callback(
      [arguments, action] { *action = [arguments] { return RunFleetDiff(*arguments); }; });
}

}  // namespace proftrace
