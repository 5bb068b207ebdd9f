// The engines that answer: programs that are found when something is asked, started as processes of
// their own. No engine is linked. They have the rights of this process: who starts one has given
// away those that it must not have.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/fleet_questions/answer.h"
#include "userspace/fleet_questions/request.h"
#include "userspace/fleet_questions/scratch_folder.h"

namespace proftrace {

enum class EngineKind : uint8_t { kDuckDb, kSpark };

struct EngineOptions {
  EngineKind kind = EngineKind::kDuckDb;
  std::string master;  // of Spark; empty: its own choice
  // Ends the engine when it is set.
  const std::atomic<bool>* stop = nullptr;
};

// A way to start an engine.
struct EngineProgram {
  std::string path;
  // Runs fleet/engine/driver.py; else it is DuckDB's own program.
  bool runs_driver = false;
};

// Returns the programs that may be the engine, the preferred one first:
//   DuckDB  $PROFTRACE_DUCKDB alone where it is set, a `duckdb` or a Python; else `duckdb` in
//   $PATH,
//           what scripts/install-deps.sh --fleet has installed, `python3` in $PATH
//   Spark   $PROFTRACE_SPARK alone where it is set, a `spark-submit` or a Python; else
//   `spark-submit`
//           in $PATH, `python3` in $PATH
std::vector<EngineProgram> FindEngines(EngineKind kind);

// Asks. Fails with kHostUnfit where there is no engine, with kUsage where it refuses a text,
// with kInputDamaged where it cannot read a file, and with what the sink returned.
absl::Status AskEngine(const EngineOptions& options, const FleetRequest& request,
                       ScratchFolder& scratch, AnswerSink& sink);

// Opens the engine's own prompt at the terminal, with what the request makes, and returns when it
// has ended. Fails with kHostUnfit where there is no engine.
absl::Status OpenPrompt(const EngineOptions& options, const FleetRequest& request,
                        ScratchFolder& scratch);

}  // namespace proftrace
