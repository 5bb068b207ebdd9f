// The moments that bind the clocks of a fleet: each has events that came before it, and events that
// came after it, on several boots. Collectives are matched by their numbers here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet_clock/fleet_input.h"

namespace proftrace {

// One rank's call, or another event, at a moment.
struct MomentRow {
  uint32_t boot = 0;
  uint32_t rank = 0;  // index into FleetInput::ranks, where is_of_rank
  uint32_t call = 0;  // index into the rank's calls
  bool is_of_rank = false;
  // The moment is not before this time; may be kNotEntered (clock_bounds.h)
  int64_t entered_ns = 0;
  int64_t left_ns = 0;          // the moment is not after this time; may be kNotLeft
  int64_t call_entered_ns = 0;  // when the call itself began, where is_of_rank
  int64_t call_left_ns = 0;
  // Whether the other ranks of a bound collective are compared without this one (AppendMatched())
  bool is_left_out = false;
};

struct FleetMoment {
  enum class Source : uint8_t { kCollective, kMessage, kStream };
  enum class Match : uint8_t { kNumber, kOrder };

  Source source = Source::kCollective;
  Match match = Match::kNumber;
  CollectiveKind kind = CollectiveKind::kAllToAll;
  // false: the ranks do not agree on the operation, so that the moment is only listed
  bool is_bound = true;
  bool ends_together = false;  // all ranks leave at about the same time
  uint32_t group = 0;          // index into FleetInput::groups, the first equal one
  int32_t attempt = 0;
  int64_t sequence = 0;  // kOrder: the number in the order of the longest rank's calls
  uint32_t end_row = 0;  // the index behind the moment's last row
};

struct FleetMoments {
  std::vector<FleetMoment> moments;
  std::vector<MomentRow> rows;

  uint64_t mismatches = 0;  // collectives whose ranks do not agree on operation, kind or size
  uint64_t duplicates = 0;  // calls of one rank with the same number, which are not used
  uint64_t incomplete = 0;  // collectives in which not all members of the group were seen
  std::vector<std::string> refused_groups;  // sentences about groups whose calls are not used

  std::span<const MomentRow> Rows(size_t moment) const {
    const size_t begin = moment == 0 ? 0 : moments[moment - 1].end_row;
    return std::span(rows).subspan(begin, moments[moment].end_row - begin);
  }
  // Adds a moment that has all rows behind the last moment's.
  void EndMoment(FleetMoment moment) {
    moment.end_row = static_cast<uint32_t>(rows.size());
    moments.push_back(moment);
  }
};

// Returns for each group the first group that has the same name and the same members.
std::vector<uint32_t> EqualGroups(const FleetInput& input);

// Returns the row of a call, with the constraints that the call's kind puts on the moment.
MomentRow RowOfCall(const FleetInput& input, uint32_t rank, uint32_t call);

// Appends the collective or message whose calls are `rows` (RowOfCall()), and counts it where its
// ranks disagree or members are missing. The caller leaves the kind of `moment` unset. Ranks of
// kNoDependence are left out where two others are left, which then agree among themselves.
//
// What two ranks bind does not depend on a third one, because the rule is the flow of data from one
// rank to another: a result of all_reduce, all_gather or reduce_scatter on A holds what B gave, so
// that A does not leave before B has entered, whatever a third rank gives. The same is true of the
// root of broadcast, scatter, reduce and gather. In all_to_all, A waits for B where its output
// split of B is above 0 (torch.distributed.all_to_all_single), and CollectiveRows makes each rank
// with an empty split one of kNoDependence. A rank without elements itself need not wait and need
// not be waited for: NCCL discards calls without elements (src/enqueue.cc, "Empty collectives can
// be discarded").
void AppendMatched(const FleetInput& input, std::span<const MomentRow> rows, FleetMoment moment,
                   FleetMoments& out);

// Matches all collectives and messages with a number. The key is attempt, group with its members,
// source and destination of messages, and number; where numbers begin again on a rank, because the
// group was made anew, a new round begins. Ranks on which they began again less or more often than
// on most are not used; but a clock that was set back only turns the order round, which is seen.
// The result has the same order for any order of the input's ranks.
void MatchByNumber(const FleetInput& input, FleetMoments& out);

// Takes the rows of a boot out of all moments.
void DropBoot(uint32_t boot, FleetMoments& moments);

// Matches streams: a byte is not received before it was sent.
void MatchStreams(const FleetInput& input, FleetMoments& out);

// Checks the input. Fails with InvalidArgument and a sentence that names the wrong part.
absl::Status CheckFleetInput(const FleetInput& input);

}  // namespace proftrace
