// Makes the probe plan of a running process.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "symbols/analysed_files.h"
#include "symbols/module_analysis.h"
#include "symbols/operator_schema.h"
#include "symbols/probe_plan.h"
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
  // Between the processes of one run. May be null.
  std::shared_ptr<AnalysedFiles> analysed = nullptr;
  // Probes for allocations and frees (--profile-memory).
  bool profile_memory = false;
  // Probes that read operators' inputs (--record-shapes). Takes some ten milliseconds more.
  bool record_shapes = false;
  // Probes for calls of the CUDA Runtime and Driver (--gpu).
  CudaCalls cuda_calls = CudaCalls::kWhereUsed;
  // Of processor time: files made to take long must not hold up the tracer. What is not reached in
  // that time is among the plan's gaps.
  int64_t longest_reading_ns = 2 * kLongestAnalysisNs;
  // Set from outside: nothing more is to be read. May be null.
  const std::atomic<bool>* stop = nullptr;
  int64_t longest_analysis_ns = kLongestAnalysisNs;  // of one file

  // As those of one process among many, which are not to wait for it.
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
// All that the target has made is read by a worker without rights. Where that does not come to its
// end, the status says why.
absl::StatusOr<ProbePlan> BuildProbePlan(Pid pid, const PlanOptions& options);
// What that worker does.
absl::StatusOr<ProbePlan> BuildPlanInWorker(Pid pid, const PlanOptions& options,
                                            WorkerChannel* channel);

// Where the mapping is gone at which `module` was planned (it was split, say): the path of another
// one of its code. False where the process has that very file, as it was analysed, no more, or
// elsewhere.
bool RenewPath(Pid pid, ModulePlan* module);

// The Dispatcher's operators as of now, ascending by address: for those registered after the plan
// was made. Empty when they cannot be read (any more).
std::vector<OperatorInfo> ReadOperators(Pid pid, const ProbePlan& plan);

// The schemas of `operators`, which that process has registered. Takes some ten milliseconds: not
// on the way to the first probe.
SchemaReading ReadSchemas(Pid pid, const ProbePlan& plan,
                          const std::vector<OperatorInfo>& operators);

// The same as texts, read by a worker without rights.
struct SchemaTexts {
  std::vector<OperatorInfo> found;  // with their schemas
  uint32_t unreadable = 0;          // as in SchemaReading
  std::string refusal;              // likewise
};
SchemaTexts ReadSchemaTexts(Pid pid, const ProbePlan& plan,
                            const std::vector<OperatorInfo>& operators);

// Whether the process has mapped a file that is not in `known` and may have rows of its own: a plan
// that is made anew has more then. All of its files are in `known` afterwards.
bool HasNewContributor(Pid pid, std::set<FileId>* known);

// Whether the process still registers operators, as far as the plan tells: the Dispatcher cannot be
// read, or lacks many that there are functions of. Names are guessed then.
bool IsRegistering(const ProbePlan& plan);

// A number that tells the last entry of the Dispatcher's list, 0 = it cannot be read: it changes
// when an operator is registered, or the last one deregistered.
uint64_t LastOperator(Pid pid, const ProbePlan& plan);

}  // namespace proftrace
