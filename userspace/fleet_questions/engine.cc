#include "userspace/fleet_questions/engine.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "userspace/base/dumped_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/fleet_questions/child_process.h"
#include "userspace/fleet_questions/embedded.h"

namespace proftrace {
namespace {

constexpr int kNoPackage = 3;  // exit code of fleet/engine/driver.py where the package is missing
// Exit code of the engine or the driver where the engine refuses a question.
constexpr int kRefused = 1;
// The longest argument that a program may be started with (Linux: 32 pages).
constexpr size_t kMostArgument = 128 << 10;

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

std::optional<std::string> InPath(std::string_view name) {
  const std::string path = Variable("PATH");
  for (const std::string_view folder : SplitText(path, ":", /*skip_empty=*/true)) {
    // Relative folders in $PATH are skipped, so that no program from the current directory is run.
    if (!folder.starts_with('/')) continue;
    std::string program = std::string(folder) + "/" + std::string(name);
    if (IsProgram(program)) return program;
  }
  return std::nullopt;
}

// Returns the path at which scripts/install-fleet-engine.sh puts DuckDB.
std::string InstalledDuckDb() {
  const std::string data = Variable("XDG_DATA_HOME");
  return (data.starts_with('/') ? data : Variable("HOME") + "/.local/share") +
         "/proftrace/duckdb/bin/duckdb";
}

absl::Status NoEngine(EngineKind kind) {
  if (kind == EngineKind::kSpark) {
    return Fail(ExitCode::kHostUnfit,
                "Spark is not there: neither a spark-submit nor a python3 with pyspark; 'pip "
                "install pyspark' installs it (it needs a JDK)");
  }
  return Fail(ExitCode::kHostUnfit,
              "DuckDB, which answers, is not there: neither a program duckdb nor a python3 with "
              "the package; 'pip install duckdb-cli' installs it");
}

// Returns the line of an error that says what is wrong. The other lines only tell the place.
std::string FirstLineOf(std::string_view errors) {
  std::string_view last;
  for (const std::string_view line : SplitText(errors, "\n", /*skip_empty=*/true)) {
    if (Contains(line, " Error: ") || Contains(line, "Exception: ") || Contains(line, "Error: ")) {
      return std::string(StripBlanks(line));
    }
    if (!StripBlanks(line).empty()) last = StripBlanks(line);
  }
  return std::string(last);
}

absl::Status Refusal(const EngineOptions& options, const FleetRequest& request,
                     const ChildEnd& end) {
  const std::string name = options.kind == EngineKind::kSpark ? "Spark" : "DuckDB";
  const std::string line = request.WithGivenNames(FirstLineOf(end.errors));
  if (end.exit_code != kRefused) {
    return Fail(ExitCode::kHostUnfit,
                name + " has ended early (exit code " + std::to_string(end.exit_code) + ")" +
                    (line.empty() ? "; a lack of memory does that" : ": " + line));
  }
  if (line.starts_with("Out of Memory")) {
    return Fail(ExitCode::kHostUnfit, name + " has not enough memory: " + line);
  }
  const bool is_file = line.starts_with("IO Error") || line.starts_with("Invalid Input Error") ||
                       Contains(line, "FAILED_READ_FILE");
  return Fail(is_file ? ExitCode::kInputDamaged : ExitCode::kUsage,
              name + " refuses the question: " + line);
}

// Returns the command line of DuckDB's shell, with options that stop it from reading a settings
// file and from colouring its output.
std::vector<std::string> DuckDbCall(const std::string& program) {
  return {program, "-no-init", "-batch", "-bail", "-jsonlines"};
}

absl::StatusOr<std::vector<std::string>> DriverCall(const EngineOptions& options,
                                                    const EngineProgram& program,
                                                    nlohmann::json request,
                                                    ScratchFolder& scratch) {
  const absl::StatusOr<std::string> driver = scratch.Write("driver.py", std::string(kEngineDriver));
  if (!driver.ok()) return driver.status();
  if (!options.master.empty()) request["master"] = options.master;
  const absl::StatusOr<std::string> file = scratch.Write("request.json", DumpedJson(request));
  if (!file.ok()) return file.status();
  std::vector<std::string> call = {program.path};
  if (FileName(program.path).starts_with("spark-submit") && !options.master.empty()) {
    call.insert(call.end(), {"--master", options.master});
  }
  call.insert(call.end(), {*driver, *file});
  // Spark's answer goes into a file, because Spark's programs write messages on standard output.
  if (options.kind == EngineKind::kSpark) call.push_back(scratch.path() + "/answer.jsonl");
  return call;
}

absl::Status ReadAnswerFile(const std::string& path, AnswerReader* reader) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    absl::Status status = reader->ReadLine(line);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Asks one program. Sets `*is_there` to false where the program lacks the engine's Python package.
absl::Status AskProgram(const EngineOptions& options, const EngineProgram& program,
                        const FleetRequest& request, ScratchFolder& scratch, AnswerSink& sink,
                        bool* is_there) {
  const bool is_spark = options.kind == EngineKind::kSpark;
  std::vector<std::string> call;
  if (program.runs_driver) {
    auto driver =
        DriverCall(options, program, request.AsJson(is_spark ? "spark" : "duckdb"), scratch);
    if (!driver.ok()) return driver.status();
    call = *std::move(driver);
  } else {
    const std::string sql = request.AsSql();
    if (sql.size() >= kMostArgument) {
      return Fail(ExitCode::kUsage, "the question is too long for one: 128 KiB with its views");
    }
    call = DuckDbCall(program.path);
    call.insert(call.end(), {"-c", sql});
  }
  AnswerReader reader(sink);
  ChildEnd end;
  const auto on_line = [&](std::string_view line) {
    return is_spark ? absl::OkStatus() : reader.ReadLine(line);
  };
  absl::Status status = RunChild(call, options.stop, on_line, &end);
  if (!status.ok() || end.was_stopped) return status;
  *is_there = !(program.runs_driver && end.exit_code == kNoPackage);
  if (!*is_there) return absl::OkStatus();
  if (end.exit_code != 0) return Refusal(options, request, end);
  return is_spark ? ReadAnswerFile(scratch.path() + "/answer.jsonl", &reader) : status;
}

EngineProgram ProgramAt(const std::string& path, std::string_view own_name) {
  return {path, own_name != "duckdb" || FileName(path).starts_with("python")};
}

}  // namespace

std::vector<EngineProgram> FindEngines(EngineKind kind) {
  const bool is_spark = kind == EngineKind::kSpark;
  const std::string_view own_name = is_spark ? "spark-submit" : "duckdb";
  const std::string named = Variable(is_spark ? "PROFTRACE_SPARK" : "PROFTRACE_DUCKDB");
  if (!named.empty()) return {ProgramAt(named, own_name)};
  std::vector<EngineProgram> programs;
  if (const auto program = InPath(own_name)) programs.push_back(ProgramAt(*program, own_name));
  if (!is_spark && IsProgram(InstalledDuckDb())) programs.push_back({InstalledDuckDb(), false});
  if (const auto python = InPath("python3")) programs.push_back({*python, true});
  return programs;
}

absl::Status AskEngine(const EngineOptions& options, const FleetRequest& request,
                       ScratchFolder& scratch, AnswerSink& sink) {
  for (const EngineProgram& program : FindEngines(options.kind)) {
    if (!IsProgram(program.path)) continue;
    bool is_there = true;
    absl::Status status = AskProgram(options, program, request, scratch, sink, &is_there);
    if (is_there) return status;
  }
  return NoEngine(options.kind);
}

absl::Status OpenPrompt(const EngineOptions& options, const FleetRequest& request,
                        ScratchFolder& scratch) {
  for (const EngineProgram& program : FindEngines(options.kind)) {
    if (!IsProgram(program.path)) continue;
    std::vector<std::string> call = {program.path, "-cmd", request.AsSql()};
    if (program.runs_driver) {
      nlohmann::json json = request.AsJson(options.kind == EngineKind::kSpark ? "spark" : "duckdb");
      json["prompt"] = true;
      auto driver = DriverCall(options, program, std::move(json), scratch);
      if (!driver.ok()) return driver.status();
      call = *std::move(driver);
    }
    ChildEnd end;
    absl::Status status = RunAtTerminal(call, &end);
    if (!status.ok()) return status;
    if (program.runs_driver && end.exit_code == kNoPackage) continue;
    return absl::OkStatus();
  }
  return NoEngine(options.kind);
}

}  // namespace proftrace
