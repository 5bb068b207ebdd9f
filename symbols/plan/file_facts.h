// Gives the facts of files (module_analysis.h). They were kept from before, or a worker without
// rights finds them. Each worker sees one file only, so that a hostile file cannot influence the
// facts of another.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbols/plan/analysed_files.h"
#include "symbols/plan/plan_cache.h"
#include "symbols/plan/planner.h"
#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// A file whose facts are asked for.
struct FactsWanted {
  std::shared_ptr<const HeldFile> file;
  std::string build_id;
};

// The side of the process with rights. Its answers are bytes for AskForFacts().
class KeptFacts {
 public:
  explicit KeptFacts(const PlanOptions& options);

  // Returns the facts of a file as far as they are kept; empty: they are not.
  std::string Known(const HeldFile& held, const std::string& build_id) const;
  // Returns the facts of a file. Where they are not kept, has the file analysed and keeps the
  // result.
  std::string Find(const std::shared_ptr<const HeldFile>& held, const std::string& build_id);
  // Has the files whose facts are not kept analysed at the same time, for Find().
  void Prepare(const std::vector<FactsWanted>& files);

 private:
  struct Analysed {
    std::shared_ptr<const HeldFile> file;  // held, so that no other file can get its numbers
    absl::StatusOr<ModuleFacts> facts;
  };

  // Returns the facts of the file, found in at most that processor time; adds to `cost_ns` what it
  // took. May be called by several threads.
  absl::StatusOr<ModuleFacts> Analyse(const std::shared_ptr<const HeldFile>& held,
                                      int64_t longest_ns, std::atomic<int64_t>* cost_ns) const;
  // Keeps the facts for later runs, if that may be.
  void Keep(const std::shared_ptr<const HeldFile>& held, const std::string& build_id,
            const absl::StatusOr<ModuleFacts>& facts);
  void TellOfAnalysis(const HeldFile& held, const std::string& build_id) const;

  const std::function<void(const std::string&, uint64_t)> on_analysis_;
  const bool uses_known_plans_;
  PlanCache cache_;
  std::shared_ptr<AnalysedFiles> analysed_;
  const std::atomic<bool>* stop_;
  int64_t longest_ns_;  // limit of processor time for one file
  int64_t left_ns_;     // processor time that is left for all files
  std::map<FileState, Analysed> prepared_;
};

// The most files that are prepared at once; further ones are analysed one by one.
inline constexpr size_t kMostPrepared = 64;

// Asks, in a worker, to have the files analysed at the same time. Later calls of AskForFacts() with
// `find` give the results.
void AskToPrepare(WorkerChannel* channel, const std::vector<FactsWanted>& files);
// Returns the files that such a question is about, by their states.
std::vector<std::pair<FileState, std::string>> FilesToPrepare(std::string_view question);

// Asks, in a worker, for the facts of a file that the worker was given. `find`: the file is
// analysed where its facts are not kept; without it, nullopt: they are not kept. Fails with a
// sentence where the file could not be analysed.
absl::StatusOr<std::optional<ModuleFacts>> AskForFacts(WorkerChannel* channel, const HeldFile& held,
                                                       const std::string& build_id, bool find);

}  // namespace proftrace
