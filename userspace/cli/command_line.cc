#include "userspace/cli/command_line.h"

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/standard_output.h"
#include "userspace/base/text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/config_file.h"
#include "userspace/cli/option_help.h"
#include "userspace/cli/pager.h"
#include "userspace/cli/say.h"
#include "userspace/cli/version.h"

namespace proftrace {
namespace {

constexpr char kAbout[] =
    "proftrace shows what a running PyTorch job does: by PID, with nothing prepared.\n"
    "Example: sudo proftrace -p 4711 -d 10s";
constexpr char kNoConfig[] = "--no-config";

// Puts `record` in front of options without a command, because that word may be left out.
void InsertRecord(std::vector<std::string>* arguments) {
  if (arguments->empty() || !arguments->front().starts_with("-")) return;
  for (const std::string_view own : {"--version", "-V", "--help", "-h"}) {
    if (arguments->front() == own) return;
  }
  arguments->insert(arguments->begin(), "record");
}

// Replaces `help` and `help COMMAND` by --help.
void ReplaceHelp(std::vector<std::string>* arguments) {
  if (arguments->empty() || arguments->front() != "help") return;
  arguments->erase(arguments->begin());
  arguments->insert(arguments->begin() + (arguments->empty() ? 0 : 1), "--help");
}

// Appends advice to a sentence or a question.
std::string WithHint(const std::string& text, const std::string& hint) {
  return text + (text.ends_with('?') ? " " : "; ") + hint;
}

bool IsGroup(const CLI::App& command) {
  return !command.get_subcommands([](const CLI::App*) { return true; }).empty();
}

// Returns the command that was given: for a group, the command behind the group's name.
const CLI::App& InnermostCommand(const CLI::App& command) {
  const std::vector<CLI::App*> inner = command.get_subcommands();
  return inner.empty() ? command : InnermostCommand(*inner.front());
}

// Returns what is wrong with a command line, in clearer words than the library's where possible. An
// unknown word is reported first, because anything else that is missing is mostly what that word
// was meant to be.
std::string WhatIsWrong(const CLI::App& app, const std::vector<std::string>& arguments,
                        const CLI::ParseError& error) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (commands.empty()) {
    constexpr char kHint[] = "proftrace --help lists the commands";
    if (arguments.empty()) return WithHint("give a command, or a process: -p PID", kHint);
    return WithHint(UnknownCommand(app, arguments.front()), kHint);
  }
  const CLI::App& command = InnermostCommand(*commands.front());
  const std::vector<std::string> unknown = command.remaining();
  const std::string call = "proftrace " + CommandName(command);
  if (IsGroup(command)) {
    const std::string hint = call + " --help lists the commands";
    if (unknown.empty()) return WithHint("give a command of " + call, hint);
    return WithHint(UnknownCommand(command, unknown.front()), hint);
  }
  const std::string hint = call + " --help lists the options";
  if (!unknown.empty()) return WithHint(UnknownWord(command, unknown.front()), hint);
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string option = text.substr(0, text.find(':'));
    const bool has_several = Contains(text, "At Most");
    return WithHint(option + (has_several ? " was given more than once" : " needs a value"), hint);
  }
  constexpr std::string_view kExcludes = " excludes ";
  const size_t excludes = text.find(kExcludes);
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr && excludes != std::string::npos) {
    return text.replace(excludes, kExcludes.size(), " and ") +
           " exclude each other: give one of them";
  }
  return WithHint(text, hint);
}

// Returns whether help was asked for about a word that is not a command.
bool IsHelpOfNothing(const CLI::App& app, const std::vector<std::string>& arguments) {
  return app.get_subcommands().empty() && !arguments.empty() && !arguments.front().starts_with("-");
}

// Fails where printed output could not be written.
absl::Status CheckPrinted() {
  std::cout.flush();
  absl::Status status = FlushStandardOutput();
  if (!status.ok() || std::cout.good()) return status;
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
    // Where standard output itself is what failed, nobody would see the document.
    if (!FlushStandardOutput().ok()) Say("%s", message.c_str());
  } else {
    Say("%s", message.c_str());
  }
  return code;
}

void AddCommands(CLI::App& app, const std::vector<std::string>& all,
                 const std::vector<std::string>& command, Action* action) {
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("-V,--version", std::string("proftrace ") + kVersion);
  app.add_flag_callback(
      kNoConfig, [] {}, "read no defaults of options from files; with any command");
  app.require_subcommand(1);
  AddRecordCommand(app, all, command, action);
  AddTopCommand(app, all, command, action);
  AddReportCommand(app, action);
  AddExportCommand(app, action);
  AddViewCommand(app, action);
  AddMergeCommand(app, action);
  AddFleetCommand(app, action);
  AddDumpCommand(app, action);
  AddCleanCommand(app, action);
  AddListCommand(app, action);
  AddDoctorCommand(app, action);
  AddCompletionCommand(app, action);
  app.footer("COMMAND [OPTIONS]");  // set last, because commands would inherit it
}

// Parses the arguments. They are reversed because the library takes them from the back.
void Parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
}

// Inserts the defaults of the configuration files behind the command that `app` has parsed. Returns
// whether there are any.
absl::StatusOr<bool> AddDefaults(const CLI::App& app, std::vector<std::string>* arguments) {
  const absl::StatusOr<std::vector<OptionDefault>> defaults = ReadConfigFiles();
  if (!defaults.ok()) return defaults.status();
  const CLI::App& command = InnermostCommand(*app.get_subcommands().front());
  const absl::StatusOr<std::vector<std::string>> words = WordsOfDefaults(command, *defaults);
  if (!words.ok()) return words.status();
  const size_t names = SplitText(CommandName(command), " ", /*skip_empty=*/true).size();
  arguments->insert(arguments->begin() + static_cast<std::ptrdiff_t>(names), words->begin(),
                    words->end());
  return !words->empty();
}

absl::Status OfDefaults(const absl::Status& status, bool has_defaults) {
  if (!has_defaults || ExitCodeOf(status) != ExitCode::kUsage) return status;
  return Fail(ExitCode::kUsage,
              std::string(status.message()) +
                  " (a file of defaults has more options; --no-config reads none)");
}

// Returns whether the command prints text that may be longer than a screen.
bool IsPaged(const CLI::App& app) {
  const std::string command = CommandName(InnermostCommand(*app.get_subcommands().front()));
  return command == "report" || command == "dump" || command == "fleet report";
}

int RunAction(const CLI::App& app, const Action& action, bool json, bool has_defaults) {
  Pager pager;
  if (!json && IsPaged(app)) pager.Start();
  absl::Status status = action ? action() : Fail(ExitCode::kBug, "no command was run");
  if (!pager.Finish() && status.ok()) status = CheckPrinted();
  return Finish(OfDefaults(status, has_defaults), json);
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  std::vector<std::string> all(argv + 1, argv + argc);
  const auto separator = std::find(all.begin(), all.end(), "--");
  std::vector<std::string> arguments(all.begin(), separator);
  std::vector<std::string> command;
  const bool has_separator = separator != all.end();
  if (has_separator) command.assign(separator + 1, all.end());
  const bool reads_config = std::erase(arguments, kNoConfig) == 0;
  if (has_separator || !arguments.empty()) {
    if (arguments.empty()) arguments.emplace_back("record");
    ReplaceHelp(&arguments);
    InsertRecord(&arguments);
  }
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();

  CLI::App app(kAbout);
  CLI::App with_defaults(kAbout);
  Action action;
  bool has_defaults = false;
  AddCommands(app, all, command, &action);
  try {
    Parse(app, arguments);
    if (reads_config) {
      const absl::StatusOr<bool> added = AddDefaults(app, &arguments);
      if (!added.ok()) return Finish(added.status(), json);
      has_defaults = *added;
    }
    if (has_defaults) {
      // The recording keeps its command line with the defaults, as if all of them had been typed.
      all = arguments;
      if (has_separator) all.emplace_back("--");
      all.insert(all.end(), command.begin(), command.end());
      AddCommands(with_defaults, all, command, &action);
      Parse(with_defaults, arguments);
    }
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 && !IsHelpOfNothing(app, arguments)) {
      app.exit(error);
      return Finish(CheckPrinted(), json);
    }
    const absl::Status wrong = Fail(ExitCode::kUsage, WhatIsWrong(app, arguments, error));
    return Finish(OfDefaults(wrong, has_defaults), json);
  }
  return RunAction(app, action, json, has_defaults);
}

}  // namespace proftrace
