#include <memory>
#include <string>

#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_options.h"

namespace proftrace {
namespace {

struct SqlArguments {
  std::string directory;
  EngineOptions engine;
};

absl::Status RunSql(const SqlArguments& arguments) {
  auto session = BeginFleetSession(arguments.engine, {arguments.directory});
  if (!session.ok()) return session.status();
  FleetRequest request(*session->scratch);
  absl::Status status =
      request.UseTables(arguments.directory, FleetSession::IsRemote(arguments.directory));
  if (!status.ok()) return status;
  request.MakeViews();
  return OpenPrompt(session->options, request, *session->scratch);
}

}  // namespace

void AddFleetSqlCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<SqlArguments>();
  CLI::App* command = fleet.add_subcommand(
      "sql",
      "Open the engine's own prompt, with a view for each of a fleet's tables and for what "
      "questions are built on.\n"
      "Example: proftrace fleet sql tables");
  command->add_option("DIR", arguments->directory, "the directory of 'fleet ingest'")->required();
  AddEngineOptions(command, &arguments->engine);
  command->callback([arguments, action] { *action = [arguments] { return RunSql(*arguments); }; });
}

}  // namespace proftrace
