#include "userspace/fleet_clock/fleet_moments.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/saturating.h"
#include "userspace/fleet_clock/clock_bounds.h"

namespace proftrace {
namespace {

bool IsMessage(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kRecv;
}

// A series of calls whose numbers count up.
struct NumberedChannel {
  int32_t attempt = 0;
  uint32_t group = 0;
  int32_t source = -1;  // -1: collectives
  int32_t destination = -1;
  int32_t round = 0;  // how often the numbers have begun again before

  auto Tie() const { return std::tie(attempt, group, source, destination, round); }
  bool operator==(const NumberedChannel& other) const { return Tie() == other.Tie(); }
  template <typename H>
  friend H AbslHashValue(H state, const NumberedChannel& channel) {
    return H::combine(std::move(state), channel.attempt, channel.group, channel.source,
                      channel.destination, channel.round);
  }
};

struct NumberedCall {
  uint32_t channel = 0;
  uint32_t rank = 0;
  int64_t sequence = 0;
  uint32_t call = 0;
};

class NumberMatcher {
 public:
  NumberMatcher(const FleetInput& input, FleetMoments& out)
      : input_(input), out_(out), equal_groups_(EqualGroups(input)) {}

  void Run() {
    for (uint32_t rank = 0; rank < input_.ranks.size(); ++rank) AddRank(rank);
    SettleUnevenRounds();
    SortChannels();
    std::sort(calls_.begin(), calls_.end(), [](const NumberedCall& a, const NumberedCall& b) {
      return std::tie(a.channel, a.sequence, a.rank, a.call) <
             std::tie(b.channel, b.sequence, b.rank, b.call);
    });
    for (size_t begin = 0, end = 0; begin < calls_.size(); begin = end) {
      while (end < calls_.size() && calls_[end].channel == calls_[begin].channel &&
             calls_[end].sequence == calls_[begin].sequence) {
        ++end;
      }
      Emit(std::span(calls_).subspan(begin, end - begin));
    }
  }

 private:
  struct LastNumber {
    int64_t first = 0;  // the first number of all
    int64_t sequence = 0;
    int32_t round = 0;
    uint32_t channel = 0;
  };

  // How often a channel's numbers began again on a rank.
  struct RankRounds {
    uint32_t rank = 0;
    int32_t last_round = 0;
    // Whether the second round ends where the first one began: the rank's clock was set back, so
    // that what came later has the earlier times.
    bool is_turned = false;
  };

  void AddRank(uint32_t rank) {
    absl::flat_hash_map<NumberedChannel, LastNumber> last_numbers;
    const std::vector<CollectiveCall>& calls = input_.ranks[rank].calls;
    for (uint32_t call = 0; call < calls.size(); ++call) {
      if (!calls[call].sequence) continue;
      NumberedChannel channel = {input_.ranks[rank].attempt, equal_groups_[calls[call].group]};
      if (IsMessage(calls[call].kind)) {
        channel.source = calls[call].source;
        channel.destination = calls[call].destination;
      }
      const int64_t sequence = *calls[call].sequence;
      const auto [last, is_new] = last_numbers.try_emplace(channel);
      if (is_new || sequence < last->second.sequence) {
        if (is_new) last->second.first = sequence;
        if (!is_new) ++last->second.round;
        channel.round = last->second.round;
        const auto next = static_cast<uint32_t>(channels_.size());
        last->second.channel = channel_ids_.try_emplace(channel, next).first->second;
        if (last->second.channel == next) channels_.push_back(channel);
      }
      last->second.sequence = sequence;
      calls_.push_back({last->second.channel, rank, sequence, call});
    }
    for (const auto& [channel, last] : last_numbers) {
      const bool is_turned = last.round == 1 && last.sequence + 1 == last.first;
      rounds_[channel.Tie()].push_back({rank, last.round, is_turned});
    }
  }

  // Settles the channels whose numbers began again more often on some ranks than on others. There
  // it is not clear which rounds belong together, so that only those ranks are used that agree with
  // most.
  void SettleUnevenRounds() {
    is_refused_.assign(channels_.size(), false);
    for (uint32_t i = 0; i < channels_.size(); ++i) {
      NumberedChannel first = channels_[i];
      first.round = 0;
      std::vector<RankRounds>& rounds = rounds_[first.Tie()];
      if (channels_[i].round == 0) SettleChannel(i, rounds);
      if (rounds.empty()) is_refused_[i] = true;
    }
    std::sort(out_.refused_groups.begin(), out_.refused_groups.end());
    if (turned_.empty() && odd_.empty()) return;
    std::erase_if(calls_, [&](NumberedCall& call) {
      NumberedChannel first = channels_[call.channel];
      first.round = 0;
      const uint32_t first_id = channel_ids_.find(first)->second;
      if (turned_.contains({first_id, call.rank})) call.channel = first_id;
      return odd_.contains({first_id, call.rank});
    });
  }

  // `channel`: one of round 0. Clears `rounds` where most ranks do not agree.
  void SettleChannel(uint32_t channel, std::vector<RankRounds>& rounds) {
    const bool has_whole = std::any_of(rounds.begin(), rounds.end(),
                                       [](const RankRounds& of) { return of.last_round == 0; });
    std::map<int32_t, size_t> counts;
    for (RankRounds& of : rounds) {
      if (has_whole && of.is_turned) {
        turned_.insert({channel, of.rank});
        of.last_round = 0;
      }
      ++counts[of.last_round];
    }
    if (counts.size() < 2) return;
    const std::string& name = input_.groups[channels_[channel].group].name;
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most->second * 2 <= rounds.size()) {
      rounds.clear();
      out_.refused_groups.push_back(absl::StrFormat(
          "The numbers of group \"%s\" began again, but not equally often on all ranks; its "
          "collectives are not used.",
          name));
      return;
    }
    for (const RankRounds& of : rounds) {
      if (of.last_round == most->first) continue;
      odd_.insert({channel, of.rank});
      const FleetRank& rank = input_.ranks[of.rank];
      out_.refused_groups.push_back(absl::StrFormat(
          "The numbers of group \"%s\" began again %d times on rank %d (%s), and %d times on most "
          "others: was its clock set back? Its collectives there are not used.",
          name, of.last_round, rank.rank, input_.boots[rank.boot].host, most->first));
    }
  }

  // Sorts the channels by the groups' names and members, not by their places in the input.
  void SortChannels() {
    const auto key = [&](const NumberedChannel& channel) {
      const FleetGroup& group = input_.groups[channel.group];
      return std::tie(channel.attempt, group.name, group.ranks, channel.source, channel.destination,
                      channel.round);
    };
    std::vector<uint32_t> order(channels_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return key(channels_[a]) < key(channels_[b]); });
    std::vector<uint32_t> places(order.size());
    std::vector<NumberedChannel> sorted(order.size());
    std::vector<bool> is_refused(order.size());
    for (uint32_t place = 0; place < order.size(); ++place) {
      places[order[place]] = place;
      sorted[place] = channels_[order[place]];
      is_refused[place] = is_refused_[order[place]];
    }
    channels_ = std::move(sorted);
    is_refused_ = std::move(is_refused);
    for (NumberedCall& call : calls_) call.channel = places[call.channel];
  }

  void Emit(std::span<const NumberedCall> calls) {
    if (is_refused_[calls.front().channel]) return;
    rows_.clear();
    for (size_t begin = 0, end = 0; begin < calls.size(); begin = end) {
      while (end < calls.size() && calls[end].rank == calls[begin].rank) ++end;
      if (end - begin == 1) {
        rows_.push_back(RowOfCall(input_, calls[begin].rank, calls[begin].call));
      } else {
        out_.duplicates += end - begin;
      }
    }
    const NumberedChannel& channel = channels_[calls.front().channel];
    FleetMoment moment;
    moment.group = channel.group;
    moment.attempt = channel.attempt;
    moment.sequence = calls.front().sequence;
    AppendMatched(input_, rows_, moment, out_);
  }

  const FleetInput& input_;
  FleetMoments& out_;
  std::vector<uint32_t> equal_groups_;
  std::vector<NumberedChannel> channels_;
  absl::flat_hash_map<NumberedChannel, uint32_t> channel_ids_;
  // Keyed by a channel's round 0: its rounds on each rank. Empty: the channel is not used.
  std::map<std::tuple<int32_t, uint32_t, int32_t, int32_t, int32_t>, std::vector<RankRounds>>
      rounds_;
  // By channel of round 0 and rank: whose rounds are one, and whose calls are not used
  std::set<std::pair<uint32_t, uint32_t>> turned_;
  std::set<std::pair<uint32_t, uint32_t>> odd_;
  std::vector<bool> is_refused_;
  std::vector<NumberedCall> calls_;
  std::vector<MomentRow> rows_;
};

// Whether the calls of one moment can be the same collective, or the two ends of one message.
bool AgreeOnWhatItIs(const FleetInput& input, std::span<const MomentRow> rows) {
  const auto call_of = [&](const MomentRow& row) -> const CollectiveCall& {
    return input.ranks[row.rank].calls[row.call];
  };
  const CollectiveCall& first = call_of(rows.front());
  int sends = 0;
  for (const MomentRow& row : rows) {
    const CollectiveCall& call = call_of(row);
    if (call.op != first.op || call.bytes != first.bytes) return false;
    if (IsMessage(first.kind)) {
      if (!IsMessage(call.kind)) return false;
      sends += call.kind == CollectiveKind::kSend ? 1 : 0;
    } else if (call.kind != first.kind || call.root != first.root) {
      return false;
    }
  }
  return !IsMessage(first.kind) ||
         (rows.size() <= 2 && sends <= 1 && rows.size() - static_cast<size_t>(sends) <= 1);
}

// Returns whether ranks of kNoDependence can be left out, so that at least two are left, and these
// agree. Marks the ranks that are left out.
bool LeaveOutWithoutDependence(const FleetInput& input, std::span<MomentRow> rows) {
  const auto call_of = [&](const MomentRow& row) -> const CollectiveCall& {
    return input.ranks[row.rank].calls[row.call];
  };
  const auto is_without = [&](const MomentRow& row) {
    return call_of(row).kind == CollectiveKind::kNoDependence;
  };
  std::vector<MomentRow> rest;
  for (const MomentRow& row : rows) {
    // Ranks that call other operations may not have met at all.
    if (call_of(row).op != call_of(rows.front()).op) return false;
    if (!is_without(row)) rest.push_back(row);
  }
  if (rest.size() < 2 || rest.size() == rows.size() || !AgreeOnWhatItIs(input, rest)) return false;
  for (MomentRow& row : rows) row.is_left_out = is_without(row);
  return true;
}

// The limits of times: far longer than a boot lasts, and small enough that no sum of a few times
// overflows.
constexpr int64_t kFarthestNs = int64_t{1} << 61;
constexpr int64_t kLongestBootNs = int64_t{1} << 56;   // 2.3 years
constexpr int64_t kLargestErrorNs = int64_t{1} << 50;  // 13 days

// The first and the last time of a boot.
struct TimeSpan {
  int64_t first_ns = INT64_MAX;
  int64_t last_ns = INT64_MIN;

  void Add(int64_t ns) {
    first_ns = std::min(first_ns, ns);
    last_ns = std::max(last_ns, ns);
  }
  bool is_possible() const {
    if (first_ns > last_ns) return true;
    return first_ns >= -kFarthestNs && last_ns <= kFarthestNs &&
           last_ns - first_ns <= kLongestBootNs;
  }
};

bool IsPossible(const ClockSnapshot& snapshot) {
  const auto is_time = [](int64_t ns) { return ns >= -kFarthestNs && ns <= kFarthestNs; };
  const auto is_error = [](int64_t ns) { return ns >= 0 && ns <= kLargestErrorNs; };
  return is_time(snapshot.monotonic_raw_ns.value_or(0)) &&
         is_time(snapshot.boottime_ns.value_or(0)) && is_time(snapshot.realtime_ns.value_or(0)) &&
         is_error(snapshot.gap_ns) && (!snapshot.ntp || is_error(snapshot.ntp->max_error_ns));
}

absl::Status CheckTimes(const FleetInput& input) {
  std::vector<TimeSpan> spans(input.boots.size());
  for (const FleetRank& rank : input.ranks) {
    for (const CollectiveCall& call : rank.calls) {
      spans[rank.boot].Add(call.entered_ns);
      spans[rank.boot].Add(call.left_ns);
    }
  }
  for (const FleetStream& stream : input.streams) {
    for (const StreamCall& call : stream.calls) {
      spans[call.boot].Add(call.begin_ns);
      spans[call.boot].Add(call.end_ns);
    }
  }
  for (uint32_t boot = 0; boot < input.boots.size(); ++boot) {
    bool is_possible = true;
    for (const ClockSnapshot& snapshot : input.boots[boot].snapshots) {
      spans[boot].Add(snapshot.monotonic_ns);
      is_possible = is_possible && IsPossible(snapshot);
    }
    if (is_possible && spans[boot].is_possible()) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "the times of host %s cannot be those of one boot; its recording is damaged",
        input.boots[boot].host));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<uint32_t> EqualGroups(const FleetInput& input) {
  std::map<std::pair<std::string, std::vector<int32_t>>, uint32_t> firsts;
  std::vector<uint32_t> equal(input.groups.size());
  for (uint32_t group = 0; group < input.groups.size(); ++group) {
    std::vector<int32_t> ranks = input.groups[group].ranks;
    std::sort(ranks.begin(), ranks.end());
    equal[group] =
        firsts.try_emplace({input.groups[group].name, std::move(ranks)}, group).first->second;
  }
  return equal;
}

MomentRow RowOfCall(const FleetInput& input, uint32_t rank, uint32_t call) {
  const CollectiveCall& of = input.ranks[rank].calls[call];
  const int32_t number = input.ranks[rank].rank;
  MomentRow row = {input.ranks[rank].boot, rank,       call,          true,
                   of.entered_ns,          of.left_ns, of.entered_ns, of.left_ns};
  switch (of.kind) {
    case CollectiveKind::kAllToAll:
      break;
    case CollectiveKind::kBroadcast:
      if (number != of.root) row.entered_ns = kNotEntered;
      if (number == of.root) row.left_ns = kNotLeft;
      break;
    case CollectiveKind::kReduce:
      if (number == of.root) row.entered_ns = kNotEntered;
      if (number != of.root) row.left_ns = kNotLeft;
      break;
    case CollectiveKind::kSend:
      row.left_ns = kNotLeft;
      break;
    case CollectiveKind::kRecv:
      row.entered_ns = kNotEntered;
      break;
    case CollectiveKind::kNoDependence:
      row.entered_ns = kNotEntered;
      row.left_ns = kNotLeft;
      break;
  }
  return row;
}

void AppendMatched(const FleetInput& input, std::span<const MomentRow> rows, FleetMoment moment,
                   FleetMoments& out) {
  if (rows.empty()) return;
  const size_t begin = out.rows.size();
  out.rows.insert(out.rows.end(), rows.begin(), rows.end());
  const std::span<MomentRow> added = std::span(out.rows).subspan(begin);
  moment.is_bound = AgreeOnWhatItIs(input, rows) || LeaveOutWithoutDependence(input, added);
  const MomentRow& first = *std::find_if(added.begin(), added.end() - 1,
                                         [](const MomentRow& row) { return !row.is_left_out; });
  moment.kind = input.ranks[first.rank].calls[first.call].kind;
  const bool is_message = IsMessage(moment.kind);
  moment.source = is_message ? FleetMoment::Source::kMessage : FleetMoment::Source::kCollective;
  moment.ends_together = moment.is_bound && (moment.kind == CollectiveKind::kAllToAll ||
                                             moment.kind == CollectiveKind::kBroadcast);
  if (!moment.is_bound) ++out.mismatches;
  const size_t expected = is_message ? 2 : input.groups[moment.group].ranks.size();
  if (rows.size() < expected) ++out.incomplete;
  out.EndMoment(moment);
}

void MatchByNumber(const FleetInput& input, FleetMoments& out) { NumberMatcher(input, out).Run(); }

void DropBoot(uint32_t boot, FleetMoments& moments) {
  FleetMoments kept;
  for (size_t moment = 0; moment < moments.moments.size(); ++moment) {
    const size_t begin = kept.rows.size();
    for (const MomentRow& row : moments.Rows(moment)) {
      if (row.boot != boot) kept.rows.push_back(row);
    }
    if (kept.rows.size() > begin) kept.EndMoment(moments.moments[moment]);
  }
  moments.moments = std::move(kept.moments);
  moments.rows = std::move(kept.rows);
}

void MatchStreams(const FleetInput& input, FleetMoments& out) {
  FleetMoment moment;
  moment.source = FleetMoment::Source::kStream;
  for (const FleetStream& stream : input.streams) {
    std::vector<const StreamCall*> sends;
    for (const StreamCall& call : stream.calls) {
      if (call.is_send) sends.push_back(&call);
    }
    size_t send = 0;
    int64_t sent = sends.empty() ? 0 : sends[0]->bytes;
    int64_t received = 0;
    for (const StreamCall& call : stream.calls) {
      if (call.is_send || call.bytes <= 0) continue;
      received = SaturatingSum(received, call.bytes);
      while (send < sends.size() && sent < received) {
        if (++send < sends.size())
          sent = SaturatingSum(sent, std::max<int64_t>(0, sends[send]->bytes));
      }
      if (send >= sends.size()) break;
      out.rows.push_back({sends[send]->boot, 0, 0, false, sends[send]->begin_ns, kNotLeft});
      out.rows.push_back({call.boot, 0, 0, false, kNotEntered, call.end_ns});
      out.EndMoment(moment);
    }
  }
}

absl::Status CheckFleetInput(const FleetInput& input) {
  std::map<std::string, uint32_t> boots;
  for (uint32_t boot = 0; boot < input.boots.size(); ++boot) {
    if (!boots.try_emplace(input.boots[boot].boot_id, boot).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("boot ", input.boots[boot].boot_id, " is twice in the input; give it once"));
    }
  }
  std::map<std::pair<int32_t, int32_t>, uint32_t> seen;
  for (uint32_t index = 0; index < input.ranks.size(); ++index) {
    const FleetRank& rank = input.ranks[index];
    if (rank.boot >= input.boots.size()) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank.rank, " has no boot"));
    }
    if (!seen.try_emplace({rank.attempt, rank.rank}, index).second) {
      const FleetRank& first = input.ranks[seen[{rank.attempt, rank.rank}]];
      return absl::InvalidArgumentError(absl::StrFormat(
          "rank %d of attempt %d is twice in the input, from host %s and from host %s; leave one "
          "of the two out",
          rank.rank, rank.attempt, input.boots[first.boot].host, input.boots[rank.boot].host));
    }
    for (const CollectiveCall& call : rank.calls) {
      if (call.group >= input.groups.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("a collective of rank ", rank.rank, " has no group"));
      }
      if (call.left_ns < call.entered_ns) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "a collective of rank %d ends %d ns before it begins; its recording is damaged",
            rank.rank, SaturatingDifference(call.entered_ns, call.left_ns)));
      }
    }
  }
  for (const FleetStream& stream : input.streams) {
    for (const StreamCall& call : stream.calls) {
      if (call.boot >= input.boots.size()) {
        return absl::InvalidArgumentError("a call on a connection has no boot");
      }
    }
  }
  return CheckTimes(input);
}

}  // namespace proftrace
