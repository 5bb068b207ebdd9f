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

// What is needed to ask: rights are given away, the directories are there, stops are seen.
struct FleetSession {
  std::unique_ptr<ScratchFolder> scratch;
  EngineOptions options;

  // Whether the engine alone understands the directory's name: "s3a://…".
  static bool IsRemote(const std::string& directory);
};

// Fails where a directory is none of a fleet.
absl::StatusOr<FleetSession> BeginFleetSession(const EngineOptions& options,
                                               const std::vector<std::string>& directories);

// Writes an answer to the standard output. A reader that goes away has had enough: it is no error.
void WriteAnswer(const std::string& text);

// Asks, and ends as a signal would have ended us where one stopped it.
absl::Status AskInSession(FleetSession& session, const FleetRequest& request, AnswerSink& sink);

}  // namespace proftrace
