// The commands of proftrace. Each adds itself to the command line and, when it is chosen, runs.
#pragma once

#include <absl/status/status.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace proftrace {

// Does what the chosen command does; set by the option parser's callback.
using Action = std::function<absl::Status()>;

// `arguments`: the whole command line; `command`: what stands after "--".
void AddRecordCommand(CLI::App& app, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& command, Action* action);
void AddTopCommand(CLI::App& app, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& command, Action* action);
void AddReportCommand(CLI::App& app, Action* action);
void AddExportCommand(CLI::App& app, Action* action);
void AddViewCommand(CLI::App& app, Action* action);
void AddMergeCommand(CLI::App& app, Action* action);
// A group of commands, which have a file each.
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
// To be called last: it knows the commands that are there.
void AddCompletionCommand(CLI::App& app, Action* action);

}  // namespace proftrace
