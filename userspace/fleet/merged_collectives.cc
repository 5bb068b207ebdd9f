#include "userspace/fleet/merged_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "exporters/sinks/json_writer.h"

namespace proftrace {
namespace {

// The least lateness that is shown. Ranks that come closer together are not called late.
constexpr int64_t kLeastLatenessNs = 10'000;
// The time from an arrow's start to its end. It is not 0, because readers take ends of equal time
// in the order of the file, in which the late rank may come second.
constexpr int64_t kArrowNs = 1;

std::string Us(int64_t ns) {
  std::array<char, kMaxNumberBytes> digits;
  return std::string(digits.data(), PutMicroseconds(digits.data(), ns));
}

std::string Percent(int64_t part_ns, const LateWindow& window) {
  const auto length_ns = static_cast<double>(window.until_ns - window.from_ns);
  return absl::StrFormat("%.0f %%", static_cast<double>(part_ns) * 100 / length_ns);
}

// Writes `"key": "name (97 %)"`, or nothing where no row was seen. `more` stands behind the
// percentage. A row's name is escaped already.
void WriteLateRow(std::string_view key, const LateRow& row, const LateWindow& window,
                  const std::string& more, JsonText* args) {
  if (row.name.empty()) return;
  args->Key(key).Word(absl::StrCat(row.name, " (", Percent(row.covered_ns, window), more, ")"));
}

// Writes what the late rank did.
void WriteLateArgs(const LateWindow& window, JsonText* args) {
  const auto write = [&](std::string_view key, LateKind kind) {
    WriteLateRow(key, window.by_kind[static_cast<size_t>(kind)], window, "", args);
  };
  const int64_t length_ns = window.until_ns - window.from_ns;
  if (!window.innermost.name.empty()) {
    args->Key("late rank was in").Word(window.innermost.name);
    args->Key("of its lateness")
        .Word(absl::StrCat(Percent(window.innermost.covered_ns, window), " of ", Us(length_ns),
                           " us"));
  }
  write("late rank's operator", LateKind::kOperator);
  write("late rank's Python function", LateKind::kPython);
  write("late rank's system call", LateKind::kSystemCall);
  if (!window.off_cpu_ns.empty()) {
    std::string reasons;
    for (const auto& [reason, ns] : window.off_cpu_ns) {
      absl::StrAppend(&reasons, reasons.empty() ? "" : ", ", reason, " ", Percent(ns, window));
    }
    args->Key("late rank was off the CPU").Word(reasons);
  }
  const LateRow& elsewhere = window.elsewhere;
  WriteLateRow("late rank's other threads", elsewhere, window,
               absl::StrCat(", TID ", elsewhere.tid, " of PID ", elsewhere.pid), args);
}

// Returns in a few words what the late rank did.
std::string NameOfCause(const LateWindow& window) {
  const std::string_view reason = window.LongestReason();
  if (!reason.empty()) {
    const int64_t off_ns = window.off_cpu_ns.find(reason)->second;
    if (off_ns > (window.until_ns - window.from_ns) / 2) {
      return "off the CPU: " + std::string(reason);
    }
  }
  return window.innermost.name.empty() ? "not known" : window.innermost.name;
}

}  // namespace

MergedCollectives::MergedCollectives(const MergedClock& clock, const JoinedInputs& joined)
    : clock_(clock), by_process_(joined.processes.size()) {
  const FleetMoments& moments = clock.moments();
  for (size_t moment = 0; moment < moments.moments.size(); ++moment) {
    if (moments.moments[moment].source == FleetMoment::Source::kStream) continue;
    auto times = clock.TimesOf(moment);
    if (!times) continue;
    Collective collective;
    collective.moment = moment;
    collective.times = *std::move(times);
    collective.first_arrow = arrows_ + 1;
    arrows_ += collective.times.ranks.size();
    FindWaits(collective);
    AddLateWindow(collective);
    const auto number = static_cast<uint32_t>(collectives_.size());
    for (uint32_t rank = 0; rank < collective.times.ranks.size(); ++rank) {
      const uint32_t process = clock.ProcessOf(collective.times.ranks[rank].rank);
      by_process_[process].push_back({number, rank});
    }
    collectives_.push_back(std::move(collective));
  }
  for (std::vector<Place>& places : by_process_) {
    std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
      const auto key = [&](const Place& place) {
        const CollectiveTimes::Rank& of = collectives_[place.collective].times.ranks[place.rank];
        return std::tuple(of.entered_ns, -of.left_ns, place.collective);
      };
      return key(a) < key(b);
    });
  }
  late_.Sort();
}

const CollectiveCall& MergedCollectives::CallOf(const Collective& of, uint32_t rank) const {
  const MomentRow& row = clock_.moments().Rows(of.moment)[rank];
  return clock_.fleet().ranks[row.rank].calls[row.call];
}

const SourceCall& MergedCollectives::SourceCallOf(const Collective& of, uint32_t rank) const {
  return clock_.SourceCallOf(clock_.moments().Rows(of.moment)[rank]);
}

bool MergedCollectives::IsLeftOut(const Collective& of, uint32_t rank) const {
  return clock_.moments().Rows(of.moment)[rank].is_left_out;
}

bool MergedCollectives::IsBound(const Collective& of) const {
  return clock_.moments().moments[of.moment].is_bound;
}

int32_t MergedCollectives::RankNumber(const Collective& of, uint32_t rank) const {
  return clock_.fleet().ranks[of.times.ranks[rank].rank].rank;
}

void MergedCollectives::FindWaits(Collective& of) const {
  const std::vector<CollectiveTimes::Rank>& ranks = of.times.ranks;
  if (!IsBound(of) || of.times.compared < 2) return;
  const auto last_but = [&](uint32_t rank) -> std::optional<uint32_t> {
    std::optional<uint32_t> last;
    for (uint32_t other = 0; other < ranks.size(); ++other) {
      if (other == rank || IsLeftOut(of, other)) continue;
      if (!last || ranks[other].entered_ns > ranks[*last].entered_ns) last = other;
    }
    return last;
  };
  std::map<int32_t, uint32_t> by_number;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    if (!IsLeftOut(of, rank)) by_number[RankNumber(of, rank)] = rank;
  }
  of.waits.resize(ranks.size());
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    const CollectiveCall& call = CallOf(of, rank);
    const auto root = by_number.find(call.root);
    std::optional<uint32_t> on;
    switch (call.kind) {
      case CollectiveKind::kAllToAll:
        on = of.times.entered_last;
        break;
      case CollectiveKind::kBroadcast:
        if (root != by_number.end()) on = root->second;
        break;
      case CollectiveKind::kReduce:
        if (root != by_number.end() && root->second == rank) on = last_but(rank);
        break;
      case CollectiveKind::kRecv:
        on = last_but(rank);
        break;
      case CollectiveKind::kSend:
      case CollectiveKind::kNoDependence:
        break;
    }
    if (!on || *on == rank) continue;
    const int64_t wait_ns = ranks[*on].entered_ns - ranks[rank].entered_ns;
    of.waits[rank] = Wait{*on, std::max<int64_t>(0, wait_ns)};
    of.awaited.push_back(*on);
  }
  std::sort(of.awaited.begin(), of.awaited.end());
  of.awaited.erase(std::unique(of.awaited.begin(), of.awaited.end()), of.awaited.end());
}

void MergedCollectives::AddLateWindow(Collective& of) {
  std::vector<int64_t> entered_ns;
  std::optional<uint32_t> late;
  for (uint32_t rank = 0; rank < of.times.ranks.size(); ++rank) {
    if (IsLeftOut(of, rank)) continue;
    entered_ns.push_back(of.times.ranks[rank].entered_ns);
    if (const auto wait = WaitOf(of, rank); wait && wait->ns > 0) late = wait->on;
  }
  if (!late) return;
  // The window begins when the median rank had entered.
  const auto middle = entered_ns.begin() + static_cast<ptrdiff_t>((entered_ns.size() - 1) / 2);
  std::nth_element(entered_ns.begin(), middle, entered_ns.end());
  const int64_t until_ns = of.times.ranks[*late].entered_ns;
  if (until_ns - *middle <= std::max(kLeastLatenessNs, of.times.likely_error_ns)) return;
  of.late_window = late_.Add(clock_.ProcessOf(of.times.ranks[*late].rank), *middle, until_ns);
}

std::string MergedCollectives::NameOfRow(const Collective& of, uint32_t rank) const {
  const CollectiveCall& call = CallOf(of, rank);
  if (call.kind == CollectiveKind::kSend) return absl::StrCat("send to rank ", call.destination);
  if (call.kind == CollectiveKind::kRecv) return absl::StrCat("recv from rank ", call.source);
  const std::string& op = SourceCallOf(of, rank).op;
  const std::string name = op.substr(0, op.find('/'));
  return name.empty() ? "collective" : name;
}

std::string MergedCollectives::ArgsOf(const Collective& of, uint32_t rank) const {
  const FleetMoment& moment = clock_.moments().moments[of.moment];
  const FleetGroup& group = clock_.fleet().groups[moment.group];
  const SourceCall& source = SourceCallOf(of, rank);
  JsonText args{StringText()};
  args.BeginObject();
  args.Key("group").String(group.name);
  args.Key("number").Integer(moment.sequence);
  args.Key("bytes").Integer(source.call.bytes);
  args.Key("op").String(source.op);
  args.Key("ranks").Integer(of.times.ranks.size());
  if (!group.ranks.empty()) args.Key("group ranks").Integer(group.ranks.size());
  if (moment.match == FleetMoment::Match::kOrder) args.Key("match").Word("order");
  if (!moment.is_bound) args.Key("ranks disagree").Bool(true);
  if (IsLeftOut(of, rank)) {
    args.Key("left out").Bool(true);
  } else if (of.times.compared >= 2) {
    WriteTimes(of, rank, &args);
  }
  args.EndObject();
  return args.Done().Take();
}

void MergedCollectives::WriteTimes(const Collective& of, uint32_t rank, JsonText* args) const {
  const FleetGroup& group = clock_.fleet().groups[clock_.moments().moments[of.moment].group];
  // A rank that was not recorded, or is left out, may have entered later, and ranks that disagree
  // may not have met.
  const bool is_proved =
      of.times.is_last_proved && IsBound(of) && group.ranks.size() <= of.times.compared;
  args->Key("entered last").Integer(RankNumber(of, of.times.entered_last));
  args->Key("entered last is proved").Bool(is_proved);
  args->Key("skew (us)").Microseconds(of.times.skew_ns);
  args->Key("transfer (us)").Microseconds(of.times.transfer_ns);
  if (const auto wait = WaitOf(of, rank)) {
    args->Key("wait (us)").Microseconds(wait->ns);
    args->Key("waited for rank").Integer(RankNumber(of, wait->on));
  }
  if (clock_.statement().bound_ns || clock_.statement().hosts == 1) {
    args->Key("clock bound (us)").Microseconds(of.times.bound_ns);
    args->Key("clock likely error (us)").Microseconds(of.times.likely_error_ns);
  }
  if (of.late_window) WriteLateArgs(late_.window(*of.late_window), args);
}

bool MergedCollectives::HasArrow(const Collective& of, uint32_t rank) const {
  const auto wait = WaitOf(of, rank);
  if (!wait || wait->ns == 0) return false;
  return of.times.ranks[rank].left_ns > of.times.ranks[wait->on].entered_ns + kArrowNs;
}

void MergedCollectives::ForEachRow(uint32_t process,
                                   const std::function<void(const CollectiveRow&)>& row,
                                   const std::function<void(const CollectiveArrow&)>& arrow) const {
  std::vector<int64_t> lane_ends_ns;
  for (const Place& place : by_process_[process]) {
    const Collective& of = collectives_[place.collective];
    const CollectiveTimes::Rank& times = of.times.ranks[place.rank];
    CollectiveRow outer;
    while (outer.lane < lane_ends_ns.size() && lane_ends_ns[outer.lane] > times.entered_ns) {
      ++outer.lane;
    }
    if (outer.lane == lane_ends_ns.size()) lane_ends_ns.push_back(0);
    lane_ends_ns[outer.lane] = times.left_ns;
    outer.begin_ns = times.entered_ns;
    outer.end_ns = times.left_ns;
    outer.name = NameOfRow(of, place.rank);
    outer.args = ArgsOf(of, place.rank);
    row(outer);
    const auto wait = WaitOf(of, place.rank);
    const int64_t begun_ns = std::min(times.left_ns, times.entered_ns + (wait ? wait->ns : 0));
    if (begun_ns > times.entered_ns) {
      const int64_t on = RankNumber(of, wait->on);
      row({outer.lane, times.entered_ns, begun_ns, absl::StrCat("wait for rank ", on),
           JsonObjectOf("rank", on)});
    }
    const bool is_together = CallOf(of, place.rank).kind == CollectiveKind::kAllToAll;
    const int64_t first_left_ns = is_together ? times.left_ns - times.tail_ns : times.left_ns;
    const bool has_transfer =
        first_left_ns > begun_ns && of.times.compared > 1 && !IsLeftOut(of, place.rank);
    if (has_transfer) row({outer.lane, begun_ns, first_left_ns, "transfer", "{}"});
    if (HasArrow(of, place.rank)) {
      arrow({outer.lane, begun_ns + kArrowNs, of.first_arrow + place.rank, false});
    }
    if (!std::binary_search(of.awaited.begin(), of.awaited.end(), place.rank)) continue;
    for (uint32_t other = 0; other < of.times.ranks.size(); ++other) {
      if (other == place.rank || !HasArrow(of, other)) continue;
      if (WaitOf(of, other)->on != place.rank) continue;
      arrow({outer.lane, times.entered_ns, of.first_arrow + other, true});
    }
  }
}

void MergedCollectives::ForEachCause(uint32_t process,
                                     const std::function<void(const CollectiveRow&)>& row) const {
  std::vector<std::pair<int64_t, uint32_t>> causes;  // by begin
  for (const Place& place : by_process_[process]) {
    const std::optional<uint32_t>& number = collectives_[place.collective].late_window;
    if (!number || late_.window(*number).process != process) continue;
    causes.emplace_back(late_.window(*number).from_ns, place.collective);
  }
  std::sort(causes.begin(), causes.end());
  std::vector<int64_t> lane_ends_ns;
  for (const auto& [from_ns, collective] : causes) {
    const LateWindow& window = late_.window(*collectives_[collective].late_window);
    CollectiveRow cause;
    while (cause.lane < lane_ends_ns.size() && lane_ends_ns[cause.lane] > window.from_ns) {
      ++cause.lane;
    }
    if (cause.lane == lane_ends_ns.size()) lane_ends_ns.push_back(0);
    lane_ends_ns[cause.lane] = window.until_ns;
    cause.begin_ns = window.from_ns;
    cause.end_ns = window.until_ns;
    cause.name = NameOfCause(window);
    const FleetMoment& moment = clock_.moments().moments[collectives_[collective].moment];
    JsonText args{StringText()};
    args.BeginObject();
    args.Key("group").String(clock_.fleet().groups[moment.group].name);
    args.Key("number").Integer(moment.sequence);
    WriteLateArgs(window, &args);
    args.EndObject();
    cause.args = args.Done().Take();
    row(cause);
  }
}

std::vector<MergedCollectives::RankSums> MergedCollectives::SumsByRank() const {
  std::map<std::pair<int32_t, int32_t>, RankSums> sums;
  for (const Collective& of : collectives_) {
    for (uint32_t rank = 0; rank < of.times.ranks.size(); ++rank) {
      const FleetRank& fleet = clock_.fleet().ranks[of.times.ranks[rank].rank];
      RankSums& sum = sums[{fleet.rank, fleet.attempt}];
      sum.rank = fleet.rank;
      sum.attempt = fleet.attempt;
      ++sum.collectives;
      const bool is_last = of.times.compared > 1 && rank == of.times.entered_last;
      if (is_last && IsBound(of)) ++sum.entered_last;
      if (const auto wait = WaitOf(of, rank)) sum.wait_ns += wait->ns;
    }
  }
  std::vector<RankSums> out;
  for (const auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

}  // namespace proftrace
