// The commands of proftrace. Each function adds a command to the command line. When the user has
// chosen the command, its parser's callback sets `*action` to what is to be run.
#pragma once

#include <absl/status/status.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace proftrace {

// Runs the chosen command; set by the option parser's callback.
using Action = std::function<absl::Status()>;

// `arguments`: the whole command line. `command`: the words after "--".
void AddRecordCommand(CLI::App& app, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& command, Action* action);
void AddTopCommand(CLI::App& app, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& command, Action* action);
void AddReportCommand(CLI::App& app, Action* action);
void AddExportCommand(CLI::App& app, Action* action);
void AddViewCommand(CLI::App& app, Action* action);
void AddMergeCommand(CLI::App& app, Action* action);
// Adds the group `fleet`, whose commands have a file each.
void AddFleetCommand(CLI::App& app, Action* action);
void AddFleetReportCommand(CLI::App& fleet, Action* action);
void AddFleetAlignCommand(CLI::App& fleet, Action* action);
void AddFleetCompactCommand(CLI::App& fleet, Action* action);
void AddFleetIngestCommand(CLI::App& fleet, Action* action);
void AddFleetQueryCommand(CLI::App& fleet, Action* action);
void AddFleetSqlCommand(CLI::App& fleet, Action* action);
void AddFleetDiffCommand(CLI::App& fleet, Action* action);
void AddFleetWatchCommand(CLI::App& fleet, Action* action);
void AddDumpCommand(CLI::App& app, Action* action);
void AddCleanCommand(CLI::App& app, Action* action);
void AddListCommand(CLI::App& app, Action* action);
void AddDoctorCommand(CLI::App& app, Action* action);
// To be called last, because it needs the commands that were added before.
void AddCompletionCommand(CLI::App& app, Action* action);

}  // namespace proftrace
