#include <memory>
#include <string>

#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_options.h"

namespace proftrace {
namespace {

absl::Status RunSql(const FleetQuestionOptions& options) {
  auto session = BeginFleetSession(options);
  if (!session.ok()) return session.status();
  session->request->MakeViews();
  return OpenPrompt(session->options, *session->request, *session->scratch);
}

}  // namespace

void AddFleetSqlCommand(CLI::App& fleet, Action* action) {
  auto options = std::make_shared<FleetQuestionOptions>();
  CLI::App* command = fleet.add_subcommand(
      "sql",
      "Open the engine's own prompt, with a view for each of a fleet's tables and for what "
      "questions are built on.\n"
      "Example: proftrace fleet sql tables");
  AddFleetQuestionOptions(command, options.get());
  command->callback([options, action] { *action = [options] { return RunSql(*options); }; });
}

}  // namespace proftrace
