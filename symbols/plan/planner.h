// Makes the probe plan of a running process.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "symbols/plan/analysed_files.h"
#include "symbols/probe_plan.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/operator_schema.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

enum class CudaCalls : uint8_t {
  kNever,
  kWhereUsed,  // in processes that have the driver's library mapped
  kAlways,
};

struct PlanOptions {
  // Where the analysis of libraries is kept between runs; empty = it is not kept.
  std::string cache_directory;
  // Shared by the processes of one run. May be null.
  std::shared_ptr<AnalysedFiles> analysed = nullptr;
  // Probes for allocations and frees (--profile-memory).
  bool profile_memory = false;
  // Probes that read operators' inputs (--record-shapes). Takes some ten milliseconds more.
  bool record_shapes = false;
  // Probes for the garbage collections of Python (--python-gc).
  bool python_gc = false;
  // Probes for calls of the CUDA Runtime and Driver (--gpu).
  CudaCalls cuda_calls = CudaCalls::kWhereUsed;
  // In processor time: files made to take long must not hold up the tracer. What is not reached in
  // that time is among the plan's gaps.
  int64_t longest_reading_ns = 2 * kLongestAnalysisNs;
  // Set from outside: nothing more is to be read. May be null.
  const std::atomic<bool>* stop = nullptr;
  int64_t longest_analysis_ns = kLongestAnalysisNs;  // of one file
  bool uses_known_plans = true;                      // known_plans.h; tests do without
  // Tells that a large library is analysed, which takes seconds; `bytes`: its size. From the thread
  // that plans. May be empty.
  std::function<void(const std::string& build_id, uint64_t bytes)> on_analysis = nullptr;

  // Sets the limits of one process among many, which are not to wait for it.
  void ShareWithOthers() {
    longest_reading_ns = std::min(longest_reading_ns, kLongestReadingOfManyNs);
    longest_analysis_ns = std::min(longest_analysis_ns, kLongestReadingOfManyNs);
  }
  // Ten times what a real PyTorch takes.
  static constexpr int64_t kLongestReadingOfManyNs = 20'000'000'000;
};

// Finds torch in the process by what its files define, not by their names, and plans every
// operator, boxed operator, autograd node, fixed-name row and catch. Reads the process, never stops
// or changes it. Errors: kNoTarget (no such process, or it has ended), kNotPermitted (its memory
// map may not be read), kNoTorch (no mapped file defines torch's operators), kHostUnfit (this
// program runs on something else than x86-64).
// A worker without rights reads all that the target has made. Where it does not come to its end,
// the status says why.
absl::StatusOr<ProbePlan> BuildProbePlan(Pid pid, const PlanOptions& options);
// Does what that worker does.
absl::StatusOr<ProbePlan> BuildPlanInWorker(Pid pid, const PlanOptions& options,
                                            WorkerChannel* channel);

// Puts another mapping of the module's code into its path where the one is gone at which it was
// planned (it was split, say). False: the process no longer has that very file, as it was analysed,
// or has it elsewhere.
bool RenewPath(Pid pid, ModulePlan* module);

// Returns the Dispatcher's operators as of now, ascending by address: for those registered after
// the plan was made. Empty: they cannot be read (any more).
std::vector<OperatorInfo> ReadOperators(Pid pid, const ProbePlan& plan);

// Reads the schemas of `operators`, which that process has registered. Takes some ten milliseconds,
// so it is not called on the way to the first probe.
SchemaReading ReadSchemas(Pid pid, const ProbePlan& plan,
                          const std::vector<OperatorInfo>& operators);

// The schemas as texts, read by a worker without rights.
struct SchemaTexts {
  std::vector<OperatorInfo> found;  // with their schemas
  uint32_t unreadable = 0;          // as in SchemaReading
  std::string refusal;              // as in SchemaReading
};
SchemaTexts ReadSchemaTexts(Pid pid, const ProbePlan& plan,
                            const std::vector<OperatorInfo>& operators);

// Whether the process has mapped a file that is not in `known` and may have rows of its own (where
// `has_collector`, also an interpreter's of its collections): a new plan has more then. Afterwards
// all of its files are in `known`.
bool HasNewContributor(Pid pid, bool has_collector, std::set<FileId>* known);

// Whether the process still registers operators, as far as the plan tells: the Dispatcher cannot be
// read, or lacks many of those that have functions. Names are guessed then.
bool IsRegistering(const ProbePlan& plan);

// Returns a number that tells the last entry of the Dispatcher's list: it changes when an operator
// is registered, or the last one deregistered. 0 = the list cannot be read.
uint64_t LastOperator(const TargetMemory& memory, uint64_t dispatcher_slot, bool old_string_abi);

}  // namespace proftrace
