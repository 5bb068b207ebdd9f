// The reasons why a job's steps take as long as they do, as sentences with evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/why/step_parts.h"

namespace proftrace {

// The kinds of reasons. New ones are only appended. Their names are in the JSON of `report --why`.
enum class FindingKind : uint8_t {
  kDataLoader = 0,
  kCollectives,
  kSynchronizing,
  kRunQueue,
  kFaults,
  kLock,
  kOtherThread,
  kIo,
  kSleep,
  kPoll,
  kChild,
  kSystem,
  kCollection,
  kOneOperator,
  kSmallOperators,
  kOperators,
  kPython,
  kUnevenSteps,
  kRecording,
  kKernels,
  kDispatch,
  kLaunched,
  kBetweenSteps,
  kRecompilation,
  kAllocator,
  kThrottling,
  kGil,
  kStopped,
};

// Returns the name of the kind: "dataloader", "collectives", "synchronizing" and so on.
std::string_view FindingKindName(FindingKind kind);

enum class Certainty : uint8_t {
  kMeasured = 0,  // the time and its cause are both facts of the recording
  kLikely = 1,    // the time is a fact; its cause is inferred
};

// Returns "measured" or "likely".
std::string_view CertaintyName(Certainty certainty);

struct Finding {
  FindingKind kind = FindingKind::kOperators;
  // The part of the steps that it is about; nullopt: it is about several parts, or none.
  std::optional<StepPart> part;
  // The finding's part of Verdict::total_ns. The findings of a verdict do not overlap, except for
  // uneven steps and the cost of probes and jumps, which are parts of the others.
  int64_t ns = 0;
  Certainty certainty = Certainty::kMeasured;
  std::string what;                   // one clause: "the main thread waits for …"
  std::vector<std::string> evidence;  // sentences
  std::string next;                   // the option that would tell more; empty = nothing would

  // Returns whether other findings tell this one's time as well.
  bool is_part_of_others() const {
    return kind == FindingKind::kUnevenSteps || (kind == FindingKind::kRecording && !part);
  }
  // Returns whether it is about the job as it is without a recording, in time of its own.
  bool is_cause() const { return !is_part_of_others() && kind != FindingKind::kRecording; }
};

struct Verdict {
  bool are_steps = false;  // false: no steps were found; the window stands for one
  uint64_t steps = 0;
  int64_t median_step_ns = 0;
  int64_t total_ns = 0;              // of all steps together, or of the device's time
  std::string about;                 // one sentence: what the job does, and how long
  std::vector<Finding> findings;     // the largest first, kMostFindings at most
  std::vector<std::string> remarks;  // sentences on how far the verdict can be trusted
  std::optional<size_t> growth;      // the remark that steps become longer, an index into `remarks`

  double ShareOf(const Finding& finding) const {
    return total_ns <= 0 ? 0 : static_cast<double>(finding.ns) / static_cast<double>(total_ns);
  }
  // Returns a finding's milliseconds for each step, or in the whole window where there are no
  // steps.
  double MsAStep(const Finding& finding) const {
    return static_cast<double>(finding.ns) * 1e-6 / static_cast<double>(steps == 0 ? 1 : steps);
  }
};

inline constexpr size_t kMostFindings = 5;
// Returns whether a cause is large enough to be worth a sentence: a twentieth of the time or more.
constexpr bool IsWorthTelling(int64_t ns, int64_t of_ns) { return ns > 0 && ns >= of_ns / 20; }

}  // namespace proftrace
