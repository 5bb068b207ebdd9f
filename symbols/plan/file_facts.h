// Gives the facts of files (module_analysis.h): kept from before, or found out by a worker without
// rights that has one file alone, so that a hostile file cannot say what is in another.
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

// Belongs to the process with rights. Returns bytes for AskForFacts().
class KeptFacts {
 public:
  explicit KeptFacts(const PlanOptions& options);

  // Returns the facts of a file; empty: they are not known.
  std::string Known(const HeldFile& held, const std::string& build_id) const;
  // Returns the facts of a file: finds them out if need be, and keeps them.
  std::string Find(const std::shared_ptr<const HeldFile>& held, const std::string& build_id);

 private:
  absl::StatusOr<ModuleFacts> Analyse(const std::shared_ptr<const HeldFile>& held);

  const std::function<void(const std::string&, uint64_t)> on_analysis_;
  const bool uses_known_plans_;
  PlanCache cache_;
  std::shared_ptr<AnalysedFiles> analysed_;
  const std::atomic<bool>* stop_;
  int64_t longest_ns_;  // for one file
  int64_t left_ns_;     // processor time left for all
};

// Asks, in a worker, for the facts of a file that it was given. `find`: they are found out if need
// be; else nullopt: they are not known. Fails with a sentence where the file could not be analysed.
absl::StatusOr<std::optional<ModuleFacts>> AskForFacts(WorkerChannel* channel, const HeldFile& held,
                                                       const std::string& build_id, bool find);

}  // namespace proftrace
