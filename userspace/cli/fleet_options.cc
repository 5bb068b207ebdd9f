#include "userspace/cli/fleet_options.h"

#include <array>
#include <cerrno>
#include <cstdio>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/calling_user.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/fleet_questions/fleet_tables.h"
#include "userspace/fleet_tables/align.h"

namespace proftrace {
namespace {

constexpr std::array<Choice<EngineKind>, 2> kEngines = {
    {{"duckdb", EngineKind::kDuckDb}, {"spark", EngineKind::kSpark}}};

bool g_reader_is_gone = false;

// Returns whether only the engine understands the directory's name: "s3a://…".
bool IsRemote(const std::string& directory) { return directory.find("://") != std::string::npos; }

// Warns where inputs were added or removed after the alignment, because answers would miss that
// silently.
void SayIfOutOfDate(const std::string& directory) {
  const auto fleet = FleetDirectory::Open(directory);
  if (!fleet.ok()) return;  // the tables were made by another program
  const absl::StatusOr<bool> is_current = IsAlignmentCurrent(**fleet);
  if (!is_current.ok() || *is_current) return;
  Say("inputs of %s were added or replaced after it was aligned, so that the answers lack them; "
      "type 'proftrace fleet align %s' to take them in",
      ShownText(directory).c_str(), ShownText(directory).c_str());
}

}  // namespace

void AddEngineOptions(CLI::App* command, EngineOptions* options) {
  AddChoice(command, "--engine", &options->kind, kEngines,
            "the engine that answers. duckdb: the program duckdb, or python3 with the package "
            "duckdb; spark: spark-submit, or python3 with the package pyspark");
  command
      ->add_option("--master", options->master,
                   "the master of --engine spark: local[4], yarn, spark://HOST:7077")
      ->type_name("URL");
}

void AddFleetQuestionOptions(CLI::App* command, FleetQuestionOptions* options) {
  command->add_option("DIR", options->directory, "the directory of 'fleet ingest'")->required();
  AddEngineOptions(command, &options->engine);
}

absl::Status FleetSession::UseTables(const std::string& directory) {
  return request->UseTables(directory, IsRemote(directory));
}

absl::StatusOr<FleetSession> BeginFleetSession(const EngineOptions& options,
                                               const std::vector<std::string>& directories,
                                               bool says_age) {
  absl::Status status = GiveUpRights();
  if (!status.ok()) return status;
  if (!options.master.empty() && options.kind != EngineKind::kSpark) {
    return Fail(ExitCode::kUsage, "--master is for Spark; give --engine spark with it");
  }
  for (const std::string& directory : directories) {
    const bool is_remote = IsRemote(directory);
    if (is_remote && options.kind == EngineKind::kSpark) continue;
    if (is_remote) {
      return Fail(ExitCode::kUsage,
                  ShownText(directory) + " is no directory here; --engine spark reads it");
    }
    status = CheckFleetDirectory(directory);
    if (!status.ok()) return status;
    if (says_age) SayIfOutOfDate(directory);
  }
  StopOnSignals();  // before there is a folder that a signal would leave behind
  auto scratch = ScratchFolder::Make();
  if (!scratch.ok()) return scratch.status();
  FleetSession session;
  session.scratch = *std::move(scratch);
  session.request = std::make_unique<FleetRequest>(*session.scratch);
  session.options = options;
  session.options.stop = &StopAsked();
  return session;
}

absl::StatusOr<FleetSession> BeginFleetSession(const FleetQuestionOptions& options, bool says_age) {
  auto session = BeginFleetSession(options.engine, {options.directory}, says_age);
  if (!session.ok()) return session.status();
  absl::Status status = session->UseTables(options.directory);
  if (!status.ok()) return status;
  return session;
}

void WriteAnswer(const std::string& text) {
  if (g_reader_is_gone) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  if (errno != EPIPE) return;  // any other error is reported at the end
  std::clearerr(stdout);
  g_reader_is_gone = true;
  StopAsked().store(true);
}

absl::Status AskInSession(FleetSession& session, AnswerSink& sink) {
  absl::Status status = AskEngine(session.options, *session.request, *session.scratch, sink);
  if (g_reader_is_gone) return absl::OkStatus();
  if (!StopAsked()) return status;
  return Fail(ExitCode::kOutputFailed, "stopped before the answer was there");
}

}  // namespace proftrace
