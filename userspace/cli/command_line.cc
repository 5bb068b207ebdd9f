#include "userspace/cli/command_line.h"

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/say.h"
#include "userspace/cli/version.h"

namespace proftrace {
namespace {

constexpr std::array<std::string_view, 8> kCommands = {"record", "report", "export", "merge",
                                                       "dump",   "clean",  "list",   "doctor"};

// `record` may be left out: everything that is no command and asks for no help is for it.
void InsertRecord(std::vector<std::string>* arguments) {
  if (arguments->empty()) return;
  const std::string& first = arguments->front();
  const bool is_command = std::find(kCommands.begin(), kCommands.end(), first) != kCommands.end();
  if (is_command || first == "--version" || first == "--help" || first == "-h") return;
  arguments->insert(arguments->begin(), "record");
}

// Not to be taken for done where what was printed went nowhere.
absl::Status CheckPrinted() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) {
    return absl::OkStatus();
  }
  return Fail(ExitCode::kOutputFailed, "cannot write to standard output");
}

int Finish(const absl::Status& status, bool json) {
  const int code = static_cast<int>(ExitCodeOf(status));
  if (status.ok() || WasTold(status)) return code;
  std::string message(status.message());
  if (ExitCodeOf(status) == ExitCode::kBug) {
    message +=
        "; this is a bug of proftrace: please report it with the command line and 'proftrace "
        "doctor'";
  }
  if (json) {
    const nlohmann::json error = {{"error", {{"message", message}, {"exit_code", code}}}};
    PrintDocument(error, -1);
  } else {
    Say("%s", message.c_str());
  }
  return code;
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto separator = std::find(all.begin(), all.end(), "--");
  std::vector<std::string> arguments(all.begin(), separator);
  std::vector<std::string> command;
  if (separator != all.end()) command.assign(separator + 1, all.end());
  if (separator != all.end() || !arguments.empty()) {
    if (arguments.empty()) arguments.emplace_back("record");
    InsertRecord(&arguments);
  }
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();

  CLI::App app(
      "proftrace shows what a running PyTorch job does: by PID, with nothing prepared.\n"
      "Example: sudo proftrace -p 4711 -d 10s");
  app.set_version_flag("--version", std::string("proftrace ") + kVersion);
  app.require_subcommand(1);
  Action action;
  AddRecordCommand(app, all, command, &action);
  AddReportCommand(app, &action);
  AddExportCommand(app, &action);
  AddMergeCommand(app, &action);
  AddDumpCommand(app, &action);
  AddCleanCommand(app, &action);
  AddListCommand(app, &action);
  AddDoctorCommand(app, &action);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return Finish(CheckPrinted(), json);
    }
    return Finish(Fail(ExitCode::kUsage,
                       std::string(error.what()) + "; 'proftrace --help' shows what there is"),
                  json);
  }
  absl::Status status = action ? action() : Fail(ExitCode::kBug, "no command was run");
  if (status.ok()) status = CheckPrinted();
  return Finish(status, json);
}

}  // namespace proftrace
