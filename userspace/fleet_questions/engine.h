// Finds and starts the engines that answer questions. An engine is a program of its own, which is
// searched when a question is asked; none is linked. It gets the rights of this process, so that
// the caller must first give up the rights that an engine must not have.
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
  std::string master;  // Spark's master; empty: Spark's default
  // Ends the engine when it is set; may be null.
  const std::atomic<bool>* stop = nullptr;
};

// A way to start an engine.
struct EngineProgram {
  std::string path;
  // True: `path` is to run fleet/engine/driver.py. False: it is DuckDB's own program.
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

// Asks the engine what the request holds, and passes its answers to `sink`. Fails with kHostUnfit
// where there is no engine, with kUsage where the engine refuses a text, with kInputDamaged where
// it cannot read a file, and with any error of the sink.
absl::Status AskEngine(const EngineOptions& options, const FleetRequest& request,
                       ScratchFolder& scratch, AnswerSink& sink);

// Opens the engine's own prompt on the terminal, with the tables and views of the request, and
// returns when the prompt has ended. Fails with kHostUnfit where there is no engine.
absl::Status OpenPrompt(const EngineOptions& options, const FleetRequest& request,
                        ScratchFolder& scratch);

}  // namespace proftrace
