// What makes a job's steps take the time that they take, as sentences with evidence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

// Only appended to: names of these are in the JSON of `report --why`.
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
};

// "dataloader", "collectives", "synchronizing", …
std::string_view FindingKindName(FindingKind kind);

enum class Certainty : uint8_t {
  kMeasured = 0,  // the time and its cause are both facts of the recording
  kLikely = 1,    // the time is a fact; what caused it is inferred
};

// "measured", "likely".
std::string_view CertaintyName(Certainty certainty);

struct Finding {
  FindingKind kind = FindingKind::kOperators;
  // A part of the time that the verdict speaks of. Findings of one verdict do not overlap, but for
  // uneven steps and the recording's own cost, which are parts of the others.
  int64_t ns = 0;
  Certainty certainty = Certainty::kMeasured;
  std::string what;                   // one clause: "the main thread waits for …"
  std::vector<std::string> evidence;  // sentences
  std::string next;                   // what to record to know more; empty = nothing would help
};

struct Verdict {
  bool are_steps = false;  // false: no steps were found; the window stands for one
  uint64_t steps = 0;
  int64_t median_step_ns = 0;
  int64_t total_ns = 0;              // of all steps together, or of the device's time
  std::string about;                 // one sentence: what the job does, and how long
  std::vector<Finding> findings;     // the largest first, kMostFindings at most
  std::vector<std::string> remarks;  // sentences: what bounds the trust in this

  double ShareOf(const Finding& finding) const {
    return total_ns <= 0 ? 0 : static_cast<double>(finding.ns) / static_cast<double>(total_ns);
  }
  // Returns a finding's milliseconds in a step; of the window, where there are no steps.
  double MsAStep(const Finding& finding) const {
    return static_cast<double>(finding.ns) * 1e-6 / static_cast<double>(steps == 0 ? 1 : steps);
  }
};

inline constexpr size_t kMostFindings = 5;
// Whether a cause is so large a part of the time that it is worth a sentence: a twentieth.
constexpr bool IsWorthTelling(int64_t ns, int64_t of_ns) { return ns > 0 && ns >= of_ns / 20; }

}  // namespace proftrace
