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
  kWhereUsed,  // in processes that have mapped the library of the CUDA Driver
  kAlways,
};

struct PlanOptions {
  // The folder where the facts of libraries are kept between runs; empty = they are not kept.
  std::string cache_directory;
  // Facts of files that all processes of one run share. May be null.
  std::shared_ptr<AnalysedFiles> analysed = nullptr;
  // Probes for allocations and frees (--profile-memory).
  bool profile_memory = false;
  // Probes that read operators' inputs (--record-shapes). Takes some ten milliseconds more.
  bool record_shapes = false;
  // Probes for the garbage collections of Python (--python-gc).
  bool python_gc = false;
  // Probes for calls of the CUDA Runtime and Driver (--gpu).
  CudaCalls cuda_calls = CudaCalls::kWhereUsed;
  // The limit of processor time for all files of the process, because files made to take long must
  // not hold up the tracer. Files that are not reached in that time are named in the plan's gaps.
  int64_t longest_reading_ns = 2 * kLongestAnalysisNs;
  // Another thread sets this flag to have the reading ended. May be null.
  const std::atomic<bool>* stop = nullptr;
  int64_t longest_analysis_ns = kLongestAnalysisNs;  // limit of processor time for one file
  bool uses_known_plans = true;  // whether facts are taken from known_plans.h; tests turn this off
  // Called when the analysis of a large library begins, which takes seconds; `bytes`: the size of
  // the library. Called by the thread that makes the plan. May be empty.
  std::function<void(const std::string& build_id, uint64_t bytes)> on_analysis = nullptr;

  // Sets the limits for one process among many, so that the others do not wait long for it.
  void ShareWithOthers() {
    longest_reading_ns = std::min(longest_reading_ns, kLongestReadingOfManyNs);
    longest_analysis_ns = std::min(longest_analysis_ns, kLongestReadingOfManyNs);
  }
  // Ten times the time that a real PyTorch takes.
  static constexpr int64_t kLongestReadingOfManyNs = 20'000'000'000;
};

// Finds torch in the process by what its files define, not by their names, and plans every
// operator, boxed operator, autograd node, fixed-name row and catch. Only reads the process, never
// stops or changes it. Fails with kNoTarget (there is no such process, or it has ended),
// kNotPermitted (its memory map may not be read), kNoTorch (no mapped file defines torch's
// operators) or kHostUnfit (this machine is not x86-64, or torch's code is displaced or cannot be
// read). A worker without rights reads everything that the target can influence. Where the worker
// ends early, the status says why.
absl::StatusOr<ProbePlan> BuildProbePlan(Pid pid, const PlanOptions& options);
// Makes the plan of a process. The worker of BuildProbePlan() calls this.
absl::StatusOr<ProbePlan> BuildPlanInWorker(Pid pid, const PlanOptions& options,
                                            WorkerChannel* channel);

// Sets the module's path to another mapping of its code, where the mapping at which it was planned
// is gone (because it was split, for example). False: the process no longer has the file that was
// analysed, or has it at another address.
bool RenewPath(Pid pid, ModulePlan* module);

// Returns the Dispatcher's operators as they are now, ascending by address, to find those that were
// registered after the plan was made. Empty: they cannot be read.
std::vector<OperatorInfo> ReadOperators(Pid pid, const ProbePlan& plan);

// Reads the schemas of `operators`, which that process has registered. Takes some ten milliseconds,
// so that it is not called before the first probe is attached.
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

// Whether the process has mapped a file that is not in `known` and may have rows of its own, so
// that a new plan has more rows. Where `has_collector`, an interpreter counts too, for its garbage
// collections. Adds all files of the process to `known`.
bool HasNewContributor(Pid pid, bool has_collector, std::set<FileId>* known);

// Whether the process was still registering operators when the plan was made: the Dispatcher could
// not be read, or lacks many of the operators that have functions. The plan's names of these are
// guessed then.
bool IsRegistering(const ProbePlan& plan);

// Returns a number that identifies the last entry of the Dispatcher's list. It changes when an
// operator is registered, or when the last one is deregistered. 0 = the list cannot be read.
uint64_t LastOperator(const TargetMemory& memory, uint64_t dispatcher_slot, bool old_string_abi);

}  // namespace proftrace
