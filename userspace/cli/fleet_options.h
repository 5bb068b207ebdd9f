// Options and set-up that the question-asking commands of `fleet` share.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "userspace/fleet_questions/engine.h"

namespace proftrace {

// Adds --engine and --master. `options` must live as long as the command.
void AddEngineOptions(CLI::App* command, EngineOptions* options);

// The directory that a command asks about, and the engine that answers.
struct FleetQuestionOptions {
  std::string directory;
  EngineOptions engine;
};

// Adds DIR, --engine and --master. `options` must live as long as the command.
void AddFleetQuestionOptions(CLI::App* command, FleetQuestionOptions* options);

// A session of questions. When it begins, rights are given up, the directories are checked, and
// signals that stop it are handled.
struct FleetSession {
  std::unique_ptr<ScratchFolder> scratch;
  std::unique_ptr<FleetRequest> request;  // has no statement at first
  EngineOptions options;

  // Makes the names of tables mean the tables of `directory` from here on.
  absl::Status UseTables(const std::string& directory);
};

// Begins a session about these directories. Fails where one is not a fleet's directory. `says_age`:
// whether to warn where inputs have been added after the alignment.
absl::StatusOr<FleetSession> BeginFleetSession(const EngineOptions& options,
                                               const std::vector<std::string>& directories,
                                               bool says_age = true);

// Begins a session about one directory; its request already has the directory's tables.
absl::StatusOr<FleetSession> BeginFleetSession(const FleetQuestionOptions& options,
                                               bool says_age = true);

// Writes an answer to standard output. It is no error where the reader closes the pipe early.
void WriteAnswer(const std::string& text);

// Asks the session's request. Where a signal has stopped the engine, this process ends by that
// signal.
absl::Status AskInSession(FleetSession& session, AnswerSink& sink);

}  // namespace proftrace
