// Computes one clock for many hosts, and how wrong it can be.
//
//   auto clock = SolveFleetClock(input, {});            // or a sentence about why there is none
//   auto time = clock->Map(boot, monotonic_ns);         // time->common_ns, its bounds, its error
//   for (size_t i = 0; i < clock->moments().size(); ++i) clock->TimesOf(i);
//
// The unknowns are the clocks of boots, not of ranks. Each time comes with two figures of its
// error:
// * the bounds low_ns and high_ns, which are proved by what depends on what, given that stamps are
//   right to FleetOptions::resolution_ns, rates are even to wander_ppb (or anything below
//   max_rate_ppb where they are seen not to be), and collectives are matched rightly. How far a
//   clock may be from even is taken from the ends of collectives (clock_evenness.h), which see
//   nothing before the first one, after the last one, or smaller than their own scatter on hosts
//   whose clocks snapshots watch;
// * likely_error_ns, which 19 of 20 times are within, if no host always leaves collectives late.
// Boots that nothing binds to the others from both sides have a timeline of their own. Where NTP's
// bounds can place that timeline, its place is given beside it (FleetTimeline::by_ntp); it is no
// proof.
//
// All times are whole nanoseconds. The common clock is that of the reference boot: it shows the
// boot's REALTIME at its first snapshot, and goes on from there as the boot's local clock does.
// Without a snapshot it is the local clock. The result does not depend on the order of the input's
// ranks, and is the same each time.
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
  int64_t low_ns = 0;  // the proved bounds: not before low_ns, not after high_ns
  int64_t high_ns = 0;
  int64_t likely_error_ns = 0;
  uint32_t timeline = 0;  // times of different timelines cannot be compared

  // Returns the most that common_ns can be wrong by.
  int64_t bound_ns() const { return std::max(high_ns - common_ns, common_ns - low_ns); }
};

struct FleetTimeline {
  uint32_t reference_boot = 0;
  uint32_t reference_piece = 0;
  int64_t zero_ns = 0;  // the common time at the reference piece's from_ns
  size_t pieces = 0;
  size_t used_moments = 0;
  // What must be added to times of this timeline to get those of the first one, by NTP's statements
  // on both. nullopt: NTP states nothing, or this is the first timeline.
  std::optional<OffsetRange> by_ntp;
};

// Something about a clock that the user should know. `text` says it in a sentence.
struct ClockFinding {
  enum class Kind : uint8_t {
    kSuspend,       // the host was suspended; amount_ns: for how long
    kRealtimeStep,  // REALTIME was set; amount_ns: by how much
    kClockStep,     // the local clock jumped, by what collectives tell; amount_ns: by how much
    kStretched,     // it goes evenly, at a rate that no clock has; amount_ns: what it gains
    kRateVaries,    // the clock was slewed, or its rate is uneven otherwise
    kHostRestart,   // the host was restarted: there is another boot of it
    kRankRestart,   // the rank was restarted: it has another attempt
    kNtpWrong,      // NTP's error on this boot is more than it states; amount_ns: by how much
    kNotAligned,    // the boot, or a piece of it, has a timeline of its own
  };
  Kind kind = Kind::kSuspend;
  uint32_t boot = 0;
  int64_t after_ns = 0;  // the finding happened between this local time and before_ns
  int64_t before_ns = 0;
  int64_t amount_ns = 0;
  std::string text;
};

// The times at which the ranks of a collective came and went, on the common clock. A rank's
// duration is wait + transfer + tail, exactly. Ranks that are left out (MomentRow::is_left_out) are
// in `ranks`, perhaps on another timeline, and have no part in the other figures.
struct CollectiveTimes {
  struct Rank {
    uint32_t rank = 0;  // index into FleetInput::ranks
    int64_t entered_ns = 0;
    int64_t left_ns = 0;
    int64_t wait_ns = 0;  // from its entering until the last one had entered
    int64_t tail_ns = 0;  // from the first one's leaving until its own
  };
  std::vector<Rank> ranks;
  size_t compared = 0;        // the ranks that are not left out
  uint32_t entered_last = 0;  // index into `ranks`
  // The time from the last entering to the first leaving. It is below 0 only by errors of time
  // stamps.
  int64_t transfer_ns = 0;
  int64_t skew_ns = 0;   // from the first entering to the last
  int64_t lead_ns = 0;   // from the second to last entering to the last
  int64_t bound_ns = 0;  // proved: no difference between two ranks is wrong by more
  int64_t likely_error_ns = 0;
  // Whether that rank entered last wherever the clocks lie within their bounds
  bool is_last_proved = false;
};

// Maps a boot's local time to a common clock; nullopt: the time has no place there.
using ClockMap = std::function<std::optional<CommonTime>(uint32_t boot, int64_t local_ns)>;

// Returns the times of a collective or a message on the common clock of `map`. nullopt: the moment
// has no ranks, its ranks are not on one timeline, or a clock broke during it.
std::optional<CollectiveTimes> TimesOfMoment(const FleetMoments& moments, size_t moment,
                                             const ClockMap& map);

class FleetClock {
 public:
  // Returns the common time of a boot's local time; nullopt: the time lies in a break of the clock.
  std::optional<CommonTime> Map(uint32_t boot, int64_t local_ns) const;

  // Returns the pieces of each boot's clock, by boot and time. TimelineOf() returns the timeline
  // that a piece is on.
  const PieceTable& pieces() const { return table_; }
  uint32_t TimelineOf(uint32_t piece) const { return timeline_of_piece_[piece]; }
  // Returns the timelines; the first one is that with the most events.
  const std::vector<FleetTimeline>& timelines() const { return timelines_; }
  // Returns the findings in order of boot and time.
  const std::vector<ClockFinding>& findings() const { return findings_; }
  // Returns the moments that bind the clocks, and counts of calls that could not be matched.
  const FleetMoments& moments() const { return moments_; }

  // Returns the times of a collective. nullopt: the moment is no collective, its ranks are not on
  // one timeline, or a clock broke during it.
  std::optional<CollectiveTimes> TimesOf(size_t moment) const;

  // The rate of a boot's clock against the reference's, in parts per billion.
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

// Computes the clock. Fails with InvalidArgument where the input makes no sense, and with
// FailedPrecondition where its dependences contradict each other; the sentence names the hosts, the
// collectives and the amount.
absl::StatusOr<FleetClock> SolveFleetClock(const FleetInput& input, const FleetOptions& options);

}  // namespace proftrace
