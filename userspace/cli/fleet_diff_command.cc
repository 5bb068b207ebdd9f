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
  // One job for both runs, or the job of the first and that of the second.
  std::vector<std::string> jobs;
  std::vector<int64_t> attempts;
  bool json = false;
  EngineOptions engine;
};

RunChoice ChoiceOf(const FleetDiffArguments& arguments, bool is_after) {
  RunChoice choice;
  const auto take = [is_after](const auto& given, auto* taken) {
    if (!given.empty()) *taken = is_after ? given.back() : given.front();
  };
  take(arguments.jobs, &choice.job);
  take(arguments.attempts, &choice.attempt);
  return choice;
}

absl::Status RunFleetDiff(const FleetDiffArguments& arguments) {
  auto session = BeginFleetSession(arguments.engine, {arguments.before, arguments.after});
  if (!session.ok()) return session.status();
  for (const bool is_after : {false, true}) {
    const std::string& directory = is_after ? arguments.after : arguments.before;
    absl::Status status = session->UseTables(directory);
    if (!status.ok()) return status;
    AddRun(ChoiceOf(arguments, is_after), is_after, session->request.get());
  }
  for (const std::string_view name : DiffQuestions()) {
    session->request->Ask(*FindQuestion(name));
  }
  ReportAnswers answers;
  if (absl::Status status = AskInSession(*session, answers); !status.ok()) return status;
  for (const bool is_after : {false, true}) {
    const absl::Status status = CheckIsOneRun(answers, ChoiceOf(arguments, is_after), is_after,
                                              is_after ? arguments.after : arguments.before);
    if (!status.ok()) return status;
  }
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
  command
      ->add_option("--job", arguments->jobs,
                   "compares this job, where a directory has several. Given twice, the first is "
                   "the job in BEFORE and the second the job in AFTER")
      ->expected(1, 2)
      ->type_name("NAME");
  command
      ->add_option("--attempt", arguments->attempts,
                   "compares this attempt of the job, where it was restarted. Given twice, the "
                   "first is the attempt in BEFORE and the second that in AFTER")
      ->expected(1, 2)
      ->type_name("N");
  command->add_flag("--json", arguments->json, "prints one JSON document");
  AddEngineOptions(command, &arguments->engine);
  command->callback(
      [arguments, action] { *action = [arguments] { return RunFleetDiff(*arguments); }; });
}

}  // namespace proftrace
