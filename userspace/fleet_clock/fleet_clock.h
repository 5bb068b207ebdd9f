// One clock for many hosts, and how wrong it can be.
//
//   auto clock = SolveFleetClock(input, {});            // or a sentence about why there is none
//   auto time = clock->Map(boot, monotonic_ns);         // time->common_ns, its bounds, its error
//   for (size_t i = 0; i < clock->moments().size(); ++i) clock->TimesOf(i);
//
// Unknown are boots, not ranks. Two figures are told of each time, never one:
// * the bounds low_ns and high_ns, which are proved by what depends on what, given that stamps are
//   right to FleetOptions::resolution_ns, rates are even to wander_ppb (or anything below
//   max_rate_ppb where they are seen not to be), and collectives are matched rightly;
// * likely_error_ns, which 19 of 20 times are within, if no host always leaves collectives late.
// Boots that nothing binds to the others from both sides have a timeline of their own. Where only
// NTP's own bound can place that, it is beside it, and no proof (FleetTimeline::by_ntp).
//
// All times are whole nanoseconds. The common clock is the reference boot's, its REALTIME at its
// first snapshot and from there on by its local clock; without a snapshot, its local clock.
// The result does not depend on the order of the input's ranks, and is the same each time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet_clock/clock_pieces.h"
#include "userspace/fleet_clock/fleet_input.h"
#include "userspace/fleet_clock/fleet_moments.h"
#include "userspace/fleet_clock/ntp_statements.h"

namespace proftrace {

struct CommonTime {
  int64_t common_ns = 0;
  int64_t low_ns = 0;  // proved, and so is high_ns
  int64_t high_ns = 0;
  int64_t likely_error_ns = 0;
  uint32_t timeline = 0;  // times of different timelines cannot be compared

  // Returns the most that common_ns can be wrong by.
  int64_t bound_ns() const { return std::max(high_ns - common_ns, common_ns - low_ns); }
};

struct FleetTimeline {
  uint32_t reference_boot = 0;
  uint32_t reference_piece = 0;
  int64_t zero_ns = 0;  // common time of the reference piece's from_ns
  size_t pieces = 0;
  size_t used_moments = 0;
  // What must be added to get times of the first timeline, as NTP states on both. nullopt: it
  // states nothing, or this is the first one.
  std::optional<OffsetRange> by_ntp;
};

// Something about a clock that its owner wants to know. `text` says it in a sentence.
struct ClockFinding {
  enum class Kind : uint8_t {
    kSuspend,       // the host slept; amount_ns: for how long
    kRealtimeStep,  // REALTIME was set; amount_ns: by how much
    kClockStep,     // the local clock jumped, by what collectives tell; amount_ns: by how much
    kRateVaries,    // the clock was slewed, or its rate is uneven otherwise
    kHostRestart,   // another boot of the same host
    kRankRestart,   // the same rank with another attempt
    kNtpWrong,      // NTP's error on this boot is more than it states; amount_ns: by how much
    kNotAligned,    // the boot, or a piece of it, has a timeline of its own
  };
  Kind kind = Kind::kSuspend;
  uint32_t boot = 0;
  int64_t after_ns = 0;  // local times that it happened between
  int64_t before_ns = 0;
  int64_t amount_ns = 0;
  std::string text;
};

// The times at which the ranks of a collective came and went, on the common clock. A rank's
// duration is wait + transfer + tail, exactly.
struct CollectiveTimes {
  struct Rank {
    uint32_t rank = 0;  // index into FleetInput::ranks
    int64_t entered_ns = 0;
    int64_t left_ns = 0;
    int64_t wait_ns = 0;  // from its entering until the last one had entered
    int64_t tail_ns = 0;  // from the first one's leaving until its own
  };
  std::vector<Rank> ranks;
  uint32_t entered_last = 0;  // index into `ranks`
  // The time from the last entering to the first leaving. Below 0 only by errors of stamps.
  int64_t transfer_ns = 0;
  int64_t skew_ns = 0;   // from the first entering to the last
  int64_t lead_ns = 0;   // from the second to last entering to the last
  int64_t bound_ns = 0;  // proved: no difference between two ranks is wrong by more
  int64_t likely_error_ns = 0;
  bool is_last_proved = false;  // that rank entered last wherever the clocks are in their bounds
};

// Puts a boot's local time on a common clock; nullopt: it has no place there.
using ClockMap = std::function<std::optional<CommonTime>(uint32_t boot, int64_t local_ns)>;

// Returns the times of a collective or a message by `map`. nullopt: it has no ranks, its ranks are
// not on one timeline, or a clock broke in it.
std::optional<CollectiveTimes> TimesOfMoment(const FleetMoments& moments, size_t moment,
                                             const ClockMap& map);

class FleetClock {
 public:
  // Returns the common time of a boot's local one. nullopt: the clock broke just then.
  std::optional<CommonTime> Map(uint32_t boot, int64_t local_ns) const;

  // Returns the pieces of each boot's clock, by boot and time; which timeline each is on.
  const PieceTable& pieces() const { return table_; }
  uint32_t TimelineOf(uint32_t piece) const { return timeline_of_piece_[piece]; }
  // Returns the timelines; the first one is that with the most events.
  const std::vector<FleetTimeline>& timelines() const { return timelines_; }
  // Returns the findings in order of boot and time.
  const std::vector<ClockFinding>& findings() const { return findings_; }
  // Returns all that binds clocks, and what could not be matched.
  const FleetMoments& moments() const { return moments_; }

  // Returns the times of a collective. nullopt: it is no collective, its ranks are not on one
  // timeline, or a clock broke in it.
  std::optional<CollectiveTimes> TimesOf(size_t moment) const;

  // How a boot's clock goes against the reference's, in its piece `piece`.
  struct Drift {
    int64_t ppb = 0;
    int64_t low_ppb = 0;  // proved
    int64_t high_ppb = 0;
  };
  Drift DriftOf(uint32_t piece) const;

 private:
  friend class FleetSolver;

  PieceTable table_;
  std::vector<uint32_t> timeline_of_piece_;
  std::vector<FleetTimeline> timelines_;
  std::vector<ClockFinding> findings_;
  FleetMoments moments_;
};

// Computes the clock. InvalidArgument: the input makes no sense. FailedPrecondition: what depends
// on what contradicts itself; the sentence names the hosts and the collectives, and by how much.
absl::StatusOr<FleetClock> SolveFleetClock(const FleetInput& input, const FleetOptions& options);

}  // namespace proftrace
