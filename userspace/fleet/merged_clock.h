// The common clock of a merged timeline, and the statements about its precision.
//
// Common time is in whole nanoseconds since 1970 by the reference host's clock. Each time is given
// with two errors: the proved bound on its error, and the likely error. Never is one of the two
// given alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet/given_clocks.h"
#include "userspace/fleet/joined_inputs.h"
#include "userspace/fleet_clock/fleet_clock.h"

namespace proftrace {

enum class ClockMode : uint8_t {
  kAuto,         // by collectives; a host that they do not bind keeps its wall clock, and is marked
  kCollectives,  // by collectives; fails where they do not bind every host's clock
  kRealtime,     // each host's wall clock as it is
  kNone,         // each host's times count from its own beginning
  kGiven,        // each host's wall clock, shifted by the offset in a file
};

std::string_view NameOf(ClockMode mode);

struct MergedClockOptions {
  ClockMode mode = ClockMode::kAuto;
  std::string reference;   // host or boot id; empty: the host with the most collectives
  std::string given_path;  // for kGiven: the file's path, for messages
  std::vector<GivenClock> given;
};

// The figures and sentences about the clock that every output shows.
struct ClockStatement {
  ClockMode mode = ClockMode::kAuto;
  size_t hosts = 0;
  std::string reference;     // the reference host; for kGiven the file
  uint64_t collectives = 0;  // collectives that bind clocks
  uint64_t matched_by_order = 0;
  // The median and the worst bound of the aligned hosts; nullopt where nothing is proved. For
  // kGiven these are the file's figures, which are no proof.
  std::optional<int64_t> bound_ns;
  std::optional<int64_t> worst_bound_ns;
  std::optional<int64_t> likely_error_ns;
  std::vector<std::string> not_aligned;  // hosts
  // Where wall clocks are used: the number of collectives that a rank seems to leave before the
  // last rank has entered, and the largest such time. Each shows that the wall clocks are wrong.
  uint64_t contradicted = 0;
  int64_t worst_contradiction_ns = 0;
  std::vector<std::string> findings;  // sentences
  struct Host {
    std::string host;
    std::string boot_id;
    bool is_aligned = true;
    int64_t offset_ns = 0;   // common time minus wall time, at the host's first event
    int64_t at_unix_ns = 0;  // the time of that event by the host's wall clock
    // Ns per second by which the offset grows; negative for a clock that is too fast.
    int64_t drift_ppb = 0;
    // The largest error at the first and the last event, 0 for the reference; nullopt: there is
    // none, for the reason `no_bound_because`.
    std::optional<int64_t> bound_ns;
    std::optional<int64_t> likely_error_ns;
    std::string no_bound_because;
  };
  std::vector<Host> of_hosts;

  // Returns "Clocks: 4 hosts by 966 collectives: ±349 us proved (worst ±876 us), ±1 us likely;
  // reference h0".
  std::string Line() const;
};

// Returns "±1.2 ms".
std::string PlusMinus(int64_t ns);

class MergedClock {
 public:
  // Makes the clock. `inputs` and `joined` must outlive the result. Fails with
  // ExitCode::kInputsDisagree where the collectives of the ranks cannot be put on one clock; the
  // message names the hosts and the collectives.
  static absl::StatusOr<MergedClock> Make(const std::vector<const SourceFacts*>& inputs,
                                          const JoinedInputs& joined,
                                          const MergedClockOptions& options);

  // Returns the common time for a time of an input; nullopt where the input's clock broke just
  // then.
  std::optional<CommonTime> Map(uint32_t input, int64_t ns) const;
  // Returns whether the times of an input can be compared with those of the others.
  bool IsAligned(uint32_t input) const;

  // Returns the calls of all ranks; ranks are indices into FleetInput::ranks.
  const FleetInput& fleet() const { return fleet_; }
  const FleetMoments& moments() const { return clock_ ? clock_->moments() : moments_; }
  std::optional<CollectiveTimes> TimesOf(size_t moment) const;
  // Returns the process of a rank of fleet().
  uint32_t ProcessOf(uint32_t fleet_rank) const { return process_of_rank_[fleet_rank]; }
  // Returns the input that the calls of a rank of fleet() come from: they have the same places in
  // its SourceFacts::calls.
  uint32_t InputOf(uint32_t fleet_rank) const { return input_of_rank_[fleet_rank]; }
  // Returns whether collectives of a rank before and after a restart are told apart.
  bool attempts_are_apart() const { return attempts_are_apart_; }
  // Returns the common time for a local time of a boot; nullopt where the boot's clock broke just
  // then.
  std::optional<CommonTime> MapLocal(uint32_t boot, int64_t local_ns) const;
  // Returns the clock that was computed from collectives; null where wall clocks are used.
  const FleetClock* solved() const { return clock_ ? &*clock_ : nullptr; }
  // Returns whether the time's error has a proved bound.
  static bool IsProved(const CommonTime& time);
  // Returns the call of a row of moments() as its input tells it: fleet()'s calls lack what only
  // some ranks tell.
  const SourceCall& SourceCallOf(const MomentRow& row) const {
    return (*inputs_)[input_of_rank_[row.rank]]->calls[row.call];
  }

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
  std::optional<FleetClock> clock_;  // nullopt: wall clocks are used
  FleetMoments moments_;             // matched collectives where clock_ is nullopt
  // Added to each timeline's times where nothing says how timelines lie to each other.
  std::vector<int64_t> shifts_ns_;
  std::vector<int64_t> begins_ns_;  // for kNone: the first time of each boot, by its local clock
  std::vector<std::optional<GivenClock>> given_;  // for kGiven: by boot
  std::vector<bool> is_aligned_;                  // by input
  ClockStatement statement_;
};

}  // namespace proftrace
