// Gives the facts of files (module_analysis.h). They were kept from before, or a worker without
// rights finds them. Each worker sees one file only, so that a hostile file cannot influence the
// facts of another.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "symbols/plan/analysed_files.h"
#include "symbols/plan/plan_cache.h"
#include "symbols/plan/planner.h"
#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// The side of the process with rights. Its answers are bytes for AskForFacts().
class KeptFacts {
 public:
  explicit KeptFacts(const PlanOptions& options);

  // Returns the facts of a file as far as they are kept; empty: they are not.
  std::string Known(const HeldFile& held, const std::string& build_id) const;
  // Returns the facts of a file. Where they are not kept, has the file analysed and keeps the
  // result.
  std::string Find(const std::shared_ptr<const HeldFile>& held, const std::string& build_id);

 private:
  absl::StatusOr<ModuleFacts> Analyse(const std::shared_ptr<const HeldFile>& held);

  const std::function<void(const std::string&, uint64_t)> on_analysis_;
  const bool uses_known_plans_;
  PlanCache cache_;
  std::shared_ptr<AnalysedFiles> analysed_;
  const std::atomic<bool>* stop_;
  int64_t longest_ns_;  // limit of processor time for one file
  int64_t left_ns_;     // processor time that is left for all files
};

// Asks, in a worker, for the facts of a file that the worker was given. `find`: the file is
// analysed where its facts are not kept; without it, nullopt: they are not kept. Fails with a
// sentence where the file could not be analysed.
absl::StatusOr<std::optional<ModuleFacts>> AskForFacts(WorkerChannel* channel, const HeldFile& held,
                                                       const std::string& build_id, bool find);

}  // namespace proftrace
