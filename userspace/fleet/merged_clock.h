// The one clock of a merged timeline, and what is said of it.
//
// Whole nanoseconds since 1970 as the reference host has them. A time is told with the most that it
// can be wrong by (proved), and with what it likely is wrong by; never with one of the two alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet/joined_inputs.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {

enum class ClockMode : uint8_t {
  kAuto,         // by collectives; what they do not bind keeps its wall clock, marked
  kCollectives,  // by collectives, or not at all
  kRealtime,     // each host's wall clock as it is
  kNone,         // each host from its own beginning on
};

std::string_view NameOf(ClockMode mode);

struct MergedClockOptions {
  ClockMode mode = ClockMode::kAuto;
  std::string reference;  // host or boot id; empty: the one with the most collectives
};

// The sentences and figures about the clock that every output has.
struct ClockStatement {
  ClockMode mode = ClockMode::kAuto;
  size_t hosts = 0;
  std::string reference;
  uint64_t collectives = 0;  // that bind clocks
  uint64_t matched_by_order = 0;
  // The median and the worst of the hosts that are aligned. nullopt: nothing is proved.
  std::optional<int64_t> bound_ns;
  std::optional<int64_t> worst_bound_ns;
  std::optional<int64_t> likely_error_ns;
  std::vector<std::string> not_aligned;  // hosts
  // By wall clocks: collectives that somebody left before the last had entered, and by how much.
  uint64_t contradicted = 0;
  int64_t worst_contradiction_ns = 0;
  std::vector<std::string> findings;  // sentences
  struct Host {
    std::string host;
    std::string boot_id;
    bool is_aligned = true;
    int64_t offset_ns = 0;  // common less wall time, at its first event
    int64_t drift_ppb = 0;
    std::optional<int64_t> bound_ns;
    std::optional<int64_t> likely_error_ns;
  };
  std::vector<Host> of_hosts;

  // "Clocks: 4 hosts by 966 collectives: ±349 us proved (worst ±876 us), ±1 us likely; reference
  // h0".
  std::string Line() const;
};

// "±1.2 ms".
std::string PlusMinus(int64_t ns);

class MergedClock {
 public:
  // `inputs` and `joined` must outlive the result. ExitCode::kInputsDisagree: what the ranks did
  // together cannot be put on one clock; the sentence names the hosts and the collectives.
  static absl::StatusOr<MergedClock> Make(const std::vector<const SourceFacts*>& inputs,
                                          const JoinedInputs& joined,
                                          const MergedClockOptions& options);

  // Returns the common time of an input's own one; nullopt: its clock broke just then.
  std::optional<CommonTime> Map(uint32_t input, int64_t ns) const;
  // Whether the times of an input can be compared with the others'.
  bool IsAligned(uint32_t input) const;

  // What the ranks did together, by FleetInput::ranks.
  const FleetInput& fleet() const { return fleet_; }
  const FleetMoments& moments() const { return clock_ ? clock_->moments() : moments_; }
  std::optional<CollectiveTimes> TimesOf(size_t moment) const;
  // Returns the process of a rank of fleet().
  uint32_t ProcessOf(uint32_t fleet_rank) const { return process_of_rank_[fleet_rank]; }
  // Returns the input that the calls of a rank of fleet() are of: SourceFacts::calls of it has them
  // at the same places.
  uint32_t InputOf(uint32_t fleet_rank) const { return input_of_rank_[fleet_rank]; }
  // Whether collectives of a rank before and after a restart are told apart.
  bool attempts_are_apart() const { return attempts_are_apart_; }
  // Returns the common time of a boot's local one; nullopt: its clock broke just then.
  std::optional<CommonTime> MapLocal(uint32_t boot, int64_t local_ns) const;
  // Returns what was solved; null: times are by wall clocks.
  const FleetClock* solved() const { return clock_ ? &*clock_ : nullptr; }
  // Whether a time says how wrong it can be.
  static bool IsProved(const CommonTime& time);
  // Returns the operation of a call of fleet(): "allreduce/Float".
  const std::string& OpOf(const CollectiveCall& call) const { return ops_[call.op]; }

  const ClockStatement& statement() const { return statement_; }

 private:
  friend class MergedClockMaker;
  MergedClock(const std::vector<const SourceFacts*>& inputs, const JoinedInputs& joined)
      : inputs_(&inputs), joined_(&joined) {}
  CommonTime MapByHost(uint32_t boot, int64_t local_ns) const;

  const std::vector<const SourceFacts*>* inputs_;
  const JoinedInputs* joined_;
  ClockMode mode_ = ClockMode::kAuto;
  FleetInput fleet_;
  FleetOptions fleet_options_;
  std::vector<uint32_t> process_of_rank_;
  std::vector<uint32_t> input_of_rank_;
  bool attempts_are_apart_ = false;
  std::vector<std::string> ops_;
  std::optional<FleetClock> clock_;  // none: by wall clocks
  FleetMoments moments_;             // where there is none
  std::vector<int64_t> shifts_ns_;   // of timelines, where nothing says where they belong
  std::vector<int64_t> begins_ns_;   // of boots, their local clocks; kNone
  std::vector<bool> is_aligned_;     // by input
  ClockStatement statement_;
};

}  // namespace proftrace
