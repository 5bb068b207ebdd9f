#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/cli/calling_user.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/fleet_compaction.h"
#include "userspace/cli/fleet_options.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"

namespace proftrace {
namespace {

struct CompactArguments {
  std::string directory;
  double after_s = 7200;
  bool json = false;
};

absl::Status RunCompact(const CompactArguments& arguments) {
  // The rights are given up for good, because an engine is started that must have the user's rights
  // only.
  if (absl::Status status = GiveUpRights(); !status.ok()) return status;
  const auto directory = FleetDirectory::Open(arguments.directory);
  if (!directory.ok()) return directory.status();
  StopOnSignals();
  EngineOptions engine;
  engine.stop = &StopAsked();
  const auto totals = CompactSummaries(**directory, engine, arguments.after_s);
  if (StopAsked()) {
    return Fail(ExitCode::kOutputFailed,
                "stopped; the hours that were not reached are as they were, and the same command "
                "goes on with them");
  }
  if (!totals.ok()) return totals.status();
  if (arguments.json) {
    PrintDocument({{"inputs", totals->inputs}, {"summaries", totals->summaries}});
  } else {
    Say("%s: %s became %s", ShownText(arguments.directory).c_str(),
        OneOrMore(totals->summaries, "summary", "summaries").c_str(),
        OneOrMore(totals->inputs, "input", "inputs").c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddFleetCompactCommand(CLI::App& fleet, Action* action) {
  auto arguments = std::make_shared<CompactArguments>();
  CLI::App* command = fleet.add_subcommand(
      "compact",
      "Put the summaries that flight recorders have written of a process in an hour (record "
      "--fleet) into one file a table: the same rows in a twentieth of the space. Killed at any "
      "moment, nothing is lost. 'fleet watch' does it by itself. Needs DuckDB.\n"
      "Example: proftrace fleet compact tables");
  command->footer("DIR [OPTIONS]");
  command->add_option("DIR", arguments->directory, "the directory that flight recorders write into")
      ->required();
  AddParsed(command, "--older-than", "TIME", &arguments->after_s, ParseDuration,
            "compacts only hours that ended at least this long ago")
      ->default_str("2h");
  command->add_flag("--json", arguments->json, "prints what was done as one JSON document");
  command->callback(
      [arguments, action] { *action = [arguments] { return RunCompact(*arguments); }; });
}

}  // namespace proftrace
