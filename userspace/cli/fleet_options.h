// What the commands of `fleet` that ask questions share.
#pragma once

#include <absl/status/status.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "userspace/fleet_questions/engine.h"

namespace proftrace {

// Adds --engine and --master. `options` lives as long as the command.
void AddEngineOptions(CLI::App* command, EngineOptions* options);

// The directory that a command asks, and who answers.
struct FleetQuestionOptions {
  std::string directory;
  EngineOptions engine;
};

// Adds DIR, --engine and --master. `options` lives as long as the command.
void AddFleetQuestionOptions(CLI::App* command, FleetQuestionOptions* options);

// What is needed to ask: rights are given away, the directories are there, stops are seen.
struct FleetSession {
  std::unique_ptr<ScratchFolder> scratch;
  std::unique_ptr<FleetRequest> request;  // without a statement at first
  EngineOptions options;

  // Has the names of tables stand for those of `directory` from here on.
  absl::Status UseTables(const std::string& directory);
};

// Begins to ask about these directories. Fails where one is none of a fleet. `says_age`: it is said
// where inputs have come after the alignment.
absl::StatusOr<FleetSession> BeginFleetSession(const EngineOptions& options,
                                               const std::vector<std::string>& directories,
                                               bool says_age = true);

// Begins to ask about one directory, whose tables the request has then.
absl::StatusOr<FleetSession> BeginFleetSession(const FleetQuestionOptions& options,
                                               bool says_age = true);

// Writes an answer to the standard output. A reader that goes away has had enough: it is no error.
void WriteAnswer(const std::string& text);

// Asks what the request has, and ends as a signal would have ended us where one stopped it.
absl::Status AskInSession(FleetSession& session, AnswerSink& sink);

}  // namespace proftrace
