// The rule by which the steps of a job are told apart, learned from a stretch of one thread's
// items.
//
// The kinds of evidence, the best first: ProfilerStep#N of the job's own profiler; optimizer steps
// (annotations, or the operators that write parameters after a backward pass); batches of a
// DataLoader; the period of the sequence of names. A round of the loop may hold several optimizer
// steps: then a round is a period of the segments between these, or the time between two phases
// that sample (rollouts).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "userspace/steps/step_item.h"
#include "userspace/steps/step_rounds.h"

namespace proftrace {

// A rule with a confidence below this is called a guess.
inline constexpr double kGuessBelow = 0.5;

struct StepRule {
  enum class Kind : uint8_t { kNone, kProfilerStep, kOptimizer, kUpdate, kLoader, kPeriodic };

  Kind kind = Kind::kNone;
  uint32_t period = 1;           // markers in a round
  bool begins_sampling = false;  // rounds begin where a segment samples; `period` is the usual one
  std::vector<Signature> slots;  // the usual segment before each marker of a round
  // kPeriodic: the symbols of a round, of which a marker is the first
  std::vector<uint32_t> sequence;

  // The number of items after the last marker of a round that still belong to the round. With
  // kLoader and kPeriodic, whose markers begin a round: the number of items from the marker on that
  // belong to the round before.
  uint32_t tail_items = 0;
  bool has_guessed_end = false;   // `tail_items` was guessed by the length of pauses alone
  bool has_guessed_lead = false;  // it was guessed which marker's segment begins a round
  std::string doubt;              // what else a round may be; empty: there is no doubt
  uint32_t lead_items = 0;        // usual number from the round's start to its first marker
  bool has_uneven_leads = false;  // that number differs from round to round: rollouts, sequences
  std::vector<uint32_t> opening;  // the first symbols of a round, four at most
  uint32_t round_items = 0;       // usual number from a round's start to the next one's
  int64_t round_ns = 0;           // usual duration
  int64_t pause_ns = 0;           // longer than any pause within a round or between two rounds
  double confidence = 0;          // 0 to 1
  std::string how;                // the evidence, as a phrase for users

  // Returns whether the first item came so long after `start_ns`, the begin of the recording, that
  // no round was under way then. Inserting probes also stops a job for a while, but not for so
  // long.
  bool begins_with_round(int64_t first_ns, int64_t start_ns) const {
    constexpr int64_t kAttachPauseNs = 40'000'000;
    return pause_ns > 0 && first_ns - start_ns > std::max(pause_ns, kAttachPauseNs);
  }
  bool ends_with_marker() const { return kind == Kind::kOptimizer || kind == Kind::kUpdate; }
};

// Learns the rule. Its kind is kNone where there is no evidence. `start_ns`: when the recording
// began. Needs the whole of `items` at once; at most a few hundred thousand of them keep it well
// under a second.
StepRule LearnStepRule(std::span<const StepItem> items, int64_t start_ns);

// Returns the markers of `rule` among other items of the same thread.
std::vector<size_t> MarkersOf(const StepRule& rule, std::span<const StepItem> items);

// Returns the place of each marker in its round: 0 = the first. All are 0 where the period is 1.
// `begins_with_step`: a round begins with the first item.
std::vector<uint32_t> PlacesInRound(const StepRule& rule, std::span<const StepItem> items,
                                    std::span<const size_t> markers, bool begins_with_step);

}  // namespace proftrace
