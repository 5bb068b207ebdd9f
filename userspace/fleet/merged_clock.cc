#include "userspace/fleet/merged_clock.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/median.h"
#include "userspace/base/shown_text.h"
#include "userspace/collectives/collective_names.h"
#include "userspace/fleet/unbound_collectives.h"

namespace proftrace {
namespace {

constexpr std::pair<ClockMode, std::string_view> kClockModes[] = {
    {ClockMode::kAuto, "auto"},         {ClockMode::kCollectives, "collectives"},
    {ClockMode::kRealtime, "realtime"}, {ClockMode::kNone, "none"},
    {ClockMode::kGiven, "given"},
};

constexpr int64_t kLeastResolutionNs = 1000;  // FleetOptions::resolution_ns
// The bound where nothing is proved. It is small enough that no sum of a few such times overflows.
constexpr int64_t kNothingProvedNs = int64_t{1} << 60;
constexpr size_t kMostOps = std::numeric_limits<uint16_t>::max();

absl::Status Disagree(const absl::Status& status) {
  return Fail(ExitCode::kInputsDisagree, std::string(status.message()));
}

}  // namespace

std::string_view NameOf(ClockMode mode) {
  for (const auto& [known, name] : kClockModes) {
    if (known == mode) return name;
  }
  return "";
}

std::string PlusMinus(int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1000) return absl::StrFormat("±%d ns", ns);
  if (ns < 1'000'000) return absl::StrFormat("±%.3g us", value / 1e3);
  if (ns < 1'000'000'000) return absl::StrFormat("±%.3g ms", value / 1e6);
  return absl::StrFormat("±%.3g s", value / 1e9);
}

std::string ClockStatement::Line() const {
  std::string text = absl::StrFormat("Clocks: %d %s", hosts, hosts == 1 ? "host" : "hosts");
  if (mode == ClockMode::kNone) return text + ", each from its own beginning on; not aligned";
  if (hosts == 1) return text + ", one clock: exact";
  if (mode == ClockMode::kRealtime || mode == ClockMode::kGiven) {
    if (mode == ClockMode::kRealtime) {
      absl::StrAppend(&text, " by their own wall clocks: nothing proved, error not known");
    } else {
      absl::StrAppend(&text, " by the offsets in ", ShownText(reference), ": nothing proved, ",
                      bound_ns ? PlusMinus(*bound_ns) + " as it says" : "error not known");
      if (!not_aligned.empty()) {
        absl::StrAppend(&text, absl::StrFormat("; %d not in it", not_aligned.size()));
      }
    }
    if (contradicted > 0) {
      absl::StrAppend(&text, absl::StrFormat("; %d of %d collectives contradict them, by up to %s",
                                             contradicted, collectives,
                                             PlusMinus(worst_contradiction_ns).substr(2)));
    }
    return text;
  }
  absl::StrAppend(&text, absl::StrFormat(" by %d collectives: ", collectives));
  if (bound_ns && likely_error_ns && worst_bound_ns) {
    absl::StrAppend(&text, PlusMinus(*bound_ns), " proved (worst ", PlusMinus(*worst_bound_ns),
                    "), ", PlusMinus(*likely_error_ns), " likely; reference ", reference);
  } else {
    absl::StrAppend(&text, "nothing proved; reference ", reference);
  }
  if (!not_aligned.empty()) {
    absl::StrAppend(&text, absl::StrFormat("; %d not aligned", not_aligned.size()));
  }
  return text;
}

class MergedClockMaker {
 public:
  MergedClockMaker(const std::vector<const SourceFacts*>& inputs, const JoinedInputs& joined,
                   const MergedClockOptions& options)
      : inputs_(inputs), joined_(joined), options_(options), out_(inputs, joined) {}

  absl::StatusOr<MergedClock> Make() && {
    out_.mode_ = options_.mode;
    for (const JoinedBoot& joined : joined_.boots) out_.fleet_.boots.push_back(joined.boot);
    MakeOps();
    const std::vector<uint32_t> processes = ProcessesWithCalls();
    out_.attempts_are_apart_ = HasRestartedRank(processes);
    for (const uint32_t process : processes) AddRank(process, out_.attempts_are_apart_);
    DropLoneNumbers();
    DropLoneInputs();
    if (absl::Status status = Solve(); !status.ok()) return status;
    PlaceTimelines();
    FindAligned();
    MakeStatement();
    if (options_.mode == ClockMode::kCollectives && !out_.statement_.not_aligned.empty()) {
      return Fail(ExitCode::kInputsDisagree,
                  absl::StrFormat("no collective binds the clock of %s to the others'; "
                                  "--clock auto leaves it on its own timeline",
                                  out_.statement_.not_aligned.front()));
    }
    return std::move(out_);
  }

 private:
  void MakeOps() {
    std::set<std::string> ops;
    for (const SourceFacts* facts : inputs_) {
      for (const SourceCall& call : facts->calls) {
        ops.insert(call.op);
        ops.insert(WithoutType(call.op));
      }
    }
    for (const std::string& op : ops) {
      if (ops_.size() < kMostOps) ops_.push_back(op);
    }
    ops_.emplace_back();  // the last entry stands for all operations beyond the limit
    for (const std::string& op : ops_) without_type_.push_back(NumberOf(WithoutType(op)));
  }

  // Returns "allreduce/" for "allreduce/Float".
  static std::string WithoutType(const std::string& op) {
    const size_t slash = op.find('/');
    return slash == std::string::npos ? op : op.substr(0, slash + 1);
  }

  bool HasRootByName(uint16_t op) const {
    const auto family = CollectiveFamilyOf(ops_[op]);
    return family && HasRoot(*family);
  }

  uint16_t NumberOf(const std::string& op) const {
    const auto end = ops_.end() - 1;
    const auto it = std::lower_bound(ops_.begin(), end, op);
    return static_cast<uint16_t>((it != end && *it == op ? it : end) - ops_.begin());
  }

  // Returns the input that has the most numbered collectives of the process; nullopt where none has
  // any collective.
  std::optional<uint32_t> InputWithCalls(const JoinedProcess& process) const {
    std::optional<uint32_t> best;
    std::pair<size_t, size_t> most;
    for (const uint32_t input : process.inputs) {
      const std::vector<SourceCall>& calls = inputs_[input]->calls;
      const size_t numbered = static_cast<size_t>(std::count_if(
          calls.begin(), calls.end(), [](const SourceCall& of) { return of.call.sequence; }));
      const std::pair<size_t, size_t> has(numbered, calls.size());
      if (calls.empty() || (best && has <= most)) continue;
      best = input;
      most = has;
    }
    return best;
  }

  // Returns one process for each rank and attempt: that with the most calls, because a loader's
  // worker has the rank of its parent as well.
  std::vector<uint32_t> ProcessesWithCalls() const {
    std::map<std::pair<int32_t, int32_t>, std::pair<size_t, uint32_t>> of_rank;
    for (uint32_t index = 0; index < joined_.processes.size(); ++index) {
      const JoinedProcess& process = joined_.processes[index];
      const auto input = InputWithCalls(process);
      if (!process.rank || !input) continue;
      const size_t calls = inputs_[*input]->calls.size();
      auto& best = of_rank[{*process.rank, process.attempt}];
      if (calls > best.first) best = {calls, index};
    }
    std::vector<uint32_t> processes;
    for (const auto& [rank, best] : of_rank) processes.push_back(best.second);
    return processes;
  }

  // Returns whether a rank is there twice: before and after a restart.
  bool HasRestartedRank(const std::vector<uint32_t>& processes) const {
    std::set<int32_t> seen;
    return std::any_of(processes.begin(), processes.end(), [&](uint32_t index) {
      return !seen.insert(*joined_.processes[index].rank).second;
    });
  }

  // Drops the numbers of a group's calls where not all of its ranks have them, because one profiler
  // records numbers and another one does not. Such calls are matched by their order.
  void DropLoneNumbers() {
    std::map<std::pair<uint32_t, uint32_t>, bool> has_numbers;  // by group and rank
    const auto is_message = [](const CollectiveCall& call) {
      return call.kind == CollectiveKind::kSend || call.kind == CollectiveKind::kRecv;
    };
    for (uint32_t rank = 0; rank < out_.fleet_.ranks.size(); ++rank) {
      for (const CollectiveCall& call : out_.fleet_.ranks[rank].calls) {
        if (is_message(call)) continue;
        bool& has = has_numbers[{call.group, rank}];
        has = has || call.sequence.has_value();
      }
    }
    std::set<uint32_t> without;
    for (const auto& [place, has] : has_numbers) {
      if (!has) without.insert(place.first);
    }
    for (FleetRank& rank : out_.fleet_.ranks) {
      for (CollectiveCall& call : rank.calls) {
        if (without.contains(call.group) && !is_message(call)) call.sequence.reset();
      }
    }
  }

  // Drops types, sizes and roots of a group's calls of one operation where not all of its ranks
  // tell them, because one profiler records the inputs of operators and another one does not.
  // Without a root nobody knows who waits for whom.
  void DropLoneInputs() {
    struct Told {
      bool type = false;
      bool bytes = false;
      bool root = false;
    };
    std::map<std::tuple<uint32_t, uint16_t, uint32_t>, Told> told;  // by group, operation and rank
    for (uint32_t rank = 0; rank < out_.fleet_.ranks.size(); ++rank) {
      for (const CollectiveCall& call : out_.fleet_.ranks[rank].calls) {
        Told& of = told[{call.group, without_type_[call.op], rank}];
        of.type = of.type || without_type_[call.op] != call.op;
        of.bytes = of.bytes || call.bytes > 0;
        of.root = of.root || call.root >= 0 || !HasRootByName(call.op);
      }
    }
    std::map<std::pair<uint32_t, uint16_t>, Told> told_by_all;
    for (const auto& [place, of] : told) {
      const auto [group, op, rank] = place;
      const auto [all, is_new] = told_by_all.try_emplace({group, op}, of);
      all->second.type = all->second.type && of.type;
      all->second.bytes = all->second.bytes && of.bytes;
      all->second.root = all->second.root && of.root;
    }
    for (FleetRank& rank : out_.fleet_.ranks) {
      for (CollectiveCall& call : rank.calls) {
        const Told& of = told_by_all.at({call.group, without_type_[call.op]});
        if (!of.type) call.op = without_type_[call.op];
        if (!of.bytes) call.bytes = 0;
        if (of.root) continue;
        call.kind = CollectiveKind::kNoDependence;
        call.root = -1;
      }
    }
  }

  // Adds a rank's calls. `attempts_are_apart`: whether there are collectives of several attempts.
  // If not, the counts of restarts are ignored: each agent of torchelastic counts the failures of
  // its own workers (elastic/agent/server/api.py, _invoke_run), so that hosts of one attempt have
  // different counts.
  void AddRank(uint32_t index, bool attempts_are_apart) {
    const JoinedProcess& process = joined_.processes[index];
    const uint32_t input = *InputWithCalls(process);
    const SourceFacts& facts = *inputs_[input];
    FleetRank rank;
    rank.rank = *process.rank;
    rank.attempt = attempts_are_apart ? process.attempt : 0;
    rank.boot = process.boot;
    std::vector<uint32_t> groups;
    for (const FleetGroup& group : facts.groups) groups.push_back(GroupOf(group));
    int64_t resolution_ns = facts.resolution_ns;
    for (const SourceCall& source : facts.calls) {
      if (source.call.group >= groups.size()) continue;  // the input is damaged
      CollectiveCall call = source.call;
      call.group = groups[call.group];
      call.op = NumberOf(source.op);
      call.entered_ns = joined_.ToLocal(input, facts, call.entered_ns);
      call.left_ns = joined_.ToLocal(input, facts, call.left_ns);
      rank.calls.push_back(call);
    }
    if (facts.clock == SourceClock::kRealtime) {
      for (const ClockSnapshot& snapshot : joined_.BootOf(input).boot.snapshots) {
        resolution_ns = std::max(resolution_ns, facts.resolution_ns + snapshot.gap_ns);
      }
    }
    out_.fleet_options_.resolution_ns =
        std::max({kLeastResolutionNs, out_.fleet_options_.resolution_ns, resolution_ns});
    out_.fleet_.ranks.push_back(std::move(rank));
    out_.process_of_rank_.push_back(index);
    out_.input_of_rank_.push_back(input);
  }

  uint32_t GroupOf(const FleetGroup& group) {
    std::vector<int32_t> ranks = group.ranks;
    std::sort(ranks.begin(), ranks.end());
    const auto next = static_cast<uint32_t>(out_.fleet_.groups.size());
    const auto [it, is_new] = groups_.try_emplace({group.name, std::move(ranks)}, next);
    if (is_new) out_.fleet_.groups.push_back(group);
    return it->second;
  }

  absl::Status Solve() {
    if (absl::Status status = FindReference(); !status.ok()) return status;
    if (options_.mode == ClockMode::kGiven) {
      if (absl::Status status = FindGiven(); !status.ok()) return status;
    }
    if (options_.mode != ClockMode::kAuto && options_.mode != ClockMode::kCollectives) {
      if (absl::Status status = CheckFleetInput(out_.fleet_); !status.ok()) return Disagree(status);
      // Solving may fail, because the wall clocks may be too wrong to tell which calls without
      // numbers belong together. Then only numbered calls are matched.
      const auto clock = SolveFleetClock(out_.fleet_, out_.fleet_options_);
      if (clock.ok()) {
        out_.moments_ = clock->moments();
      } else {
        MatchByNumber(out_.fleet_, out_.moments_);
      }
      FindBegins();
      return absl::OkStatus();
    }
    absl::StatusOr<FleetClock> clock = SolveFleetClock(out_.fleet_, out_.fleet_options_);
    if (!clock.ok()) {
      if (ExitCodeOf(clock.status()) != ExitCode::kBug) return clock.status();
      return Fail(ExitCode::kInputsDisagree,
                  absl::StrCat(std::string(clock.status().message()),
                               " --clock realtime takes the hosts' own clocks."));
    }
    out_.clock_ = *std::move(clock);
    return absl::OkStatus();
  }

  absl::Status FindReference() {
    if (options_.reference.empty()) return absl::OkStatus();
    std::string hosts;
    for (const FleetBoot& boot : out_.fleet_.boots) {
      if (boot.host == options_.reference || boot.boot_id == options_.reference) {
        out_.fleet_options_.reference_boot_id = boot.boot_id;
        return absl::OkStatus();
      }
      absl::StrAppend(&hosts, hosts.empty() ? "" : ", ", boot.host);
    }
    return Fail(ExitCode::kUsage, "--reference " + options_.reference +
                                      " is none of the inputs' hosts; they are: " + hosts);
  }

  absl::Status FindGiven() {
    bool has_any = false;
    std::string hosts;
    for (const FleetBoot& boot : out_.fleet_.boots) {
      const GivenClock* given = FindGivenClock(options_.given, boot.host, boot.boot_id);
      out_.given_.push_back(given == nullptr ? std::nullopt : std::optional(*given));
      has_any = has_any || given != nullptr;
      absl::StrAppend(&hosts, hosts.empty() ? "" : ", ", boot.host);
    }
    if (has_any) return absl::OkStatus();
    return Fail(ExitCode::kInputsDisagree,
                options_.given_path + " has none of the inputs' hosts; they are: " + hosts);
  }

  void FindBegins() {
    out_.begins_ns_.assign(joined_.boots.size(), INT64_MAX);
    for (uint32_t input = 0; input < inputs_.size(); ++input) {
      const SourceFacts& facts = *inputs_[input];
      if (!facts.first_ns) continue;
      int64_t& begin_ns = out_.begins_ns_[joined_.processes[joined_.process_of_input[input]].boot];
      begin_ns = std::min(begin_ns, joined_.ToLocal(input, facts, *facts.first_ns));
    }
  }

  // Lets two timelines begin together where one of them has no wall clock, because nothing says how
  // they lie to each other.
  void PlaceTimelines() {
    std::map<uint32_t, int64_t> firsts_ns;
    std::map<uint32_t, bool> has_wall;
    for (uint32_t input = 0; input < inputs_.size(); ++input) {
      if (!inputs_[input]->first_ns) continue;
      const auto time = out_.Map(input, *inputs_[input]->first_ns);
      if (!time) continue;
      const auto [first, is_new] = firsts_ns.try_emplace(time->timeline, time->common_ns);
      first->second = std::min(first->second, time->common_ns);
      const uint32_t boot = out_.clock_ ? out_.clock_->timelines()[time->timeline].reference_boot
                                        : joined_.processes[joined_.process_of_input[input]].boot;
      if (is_new) has_wall[time->timeline] = joined_.boots[boot].has_wall();
    }
    if (!firsts_ns.contains(0)) return;
    for (const auto& [timeline, first_ns] : firsts_ns) {
      out_.shifts_ns_.resize(timeline + 1);
      const bool is_known = has_wall[timeline] && has_wall[0];
      if (timeline > 0 && !is_known) out_.shifts_ns_[timeline] = firsts_ns[0] - first_ns;
    }
  }

  void FindAligned() {
    for (uint32_t input = 0; input < inputs_.size(); ++input) {
      const auto time = out_.Map(input, inputs_[input]->first_ns.value_or(0));
      out_.is_aligned_.push_back(time && time->timeline == 0 && options_.mode != ClockMode::kNone);
    }
  }

  void MakeStatement() {
    ClockStatement& statement = out_.statement_;
    statement.mode = options_.mode;
    statement.hosts = joined_.boots.size();
    for (const FleetMoment& moment : out_.moments().moments) {
      if (!moment.is_bound) continue;
      ++statement.collectives;
      if (moment.match == FleetMoment::Match::kOrder) ++statement.matched_by_order;
    }
    const uint32_t reference = out_.clock_ ? out_.clock_->timelines().front().reference_boot : 0;
    statement.reference = options_.mode == ClockMode::kGiven ? options_.given_path
                                                             : out_.fleet_.boots[reference].host;
    std::vector<int64_t> bounds_ns;
    std::vector<int64_t> likely_ns;
    for (uint32_t boot = 0; boot < joined_.boots.size(); ++boot) {
      ClockStatement::Host host = DescribeHost(boot);
      SayWhyNoBound(host);
      if (!host.is_aligned) {
        statement.not_aligned.push_back(host.host);
      } else if (options_.mode == ClockMode::kGiven) {
        if (host.bound_ns) bounds_ns.push_back(*host.bound_ns);
      } else if (boot != reference && host.bound_ns && host.likely_error_ns) {
        bounds_ns.push_back(*host.bound_ns);
        likely_ns.push_back(*host.likely_error_ns);
      }
      statement.of_hosts.push_back(std::move(host));
    }
    if (!bounds_ns.empty()) {
      statement.worst_bound_ns = *std::max_element(bounds_ns.begin(), bounds_ns.end());
      statement.bound_ns = Median(bounds_ns);
      if (!likely_ns.empty()) statement.likely_error_ns = Median(likely_ns);
    }
    if (out_.clock_) {
      for (const ClockFinding& finding : out_.clock_->findings()) {
        statement.findings.push_back(finding.text);
      }
    } else {
      CountContradictions();
    }
    for (const std::string& text : out_.moments().refused_groups) {
      statement.findings.push_back(text);
    }
    for (std::string& text : SayWhatDoesNotBind(out_.fleet_, out_.moments())) {
      statement.findings.push_back(std::move(text));
    }
  }

  // Describes a host's clock, with the worst errors at the ends of its inputs and at the
  // collectives that bind it.
  ClockStatement::Host DescribeHost(uint32_t boot) {
    ClockStatement::Host host;
    host.host = joined_.boots[boot].boot.host;
    host.boot_id = joined_.boots[boot].boot.boot_id;
    host.is_aligned = options_.mode != ClockMode::kNone || joined_.boots.size() == 1;
    if (options_.mode == ClockMode::kGiven && out_.given_[boot]) {
      host.offset_ns = out_.given_[boot]->offset_ns;
      host.at_unix_ns = out_.given_[boot]->at_unix_ns;
      host.drift_ppb = out_.given_[boot]->drift_ppb;
      host.bound_ns = out_.given_[boot]->bound_ns;
    }
    bool has_offset = false;
    for (uint32_t input = 0; input < inputs_.size(); ++input) {
      const SourceFacts& facts = *inputs_[input];
      if (joined_.processes[joined_.process_of_input[input]].boot != boot) continue;
      if (!facts.first_ns || !facts.last_ns) continue;
      for (const int64_t ns : {*facts.first_ns, *facts.last_ns}) {
        const auto time = out_.Map(input, ns);
        if (!time) continue;
        if (time->timeline != 0) host.is_aligned = false;
        if (!out_.clock_) continue;
        host.bound_ns = std::max(host.bound_ns.value_or(0), time->bound_ns());
        host.likely_error_ns = std::max(host.likely_error_ns.value_or(0), time->likely_error_ns);
        if (has_offset) continue;
        has_offset = true;
        const int64_t wall_ns =
            facts.clock == SourceClock::kRealtime ? ns : joined_.boots[boot].wall.ToWall(ns);
        host.offset_ns = time->common_ns - wall_ns;
        host.at_unix_ns = wall_ns;
      }
    }
    if (!out_.clock_) return host;
    const PieceTable& table = out_.clock_->pieces();
    host.drift_ppb = out_.clock_->DriftOf(table.first_pieces[boot]).ppb;
    return host;
  }

  // Takes the bound from a host whose times cannot be compared with the reference's: it would only
  // hold on the host's own timeline, where it is 0. Says why a host has no bound.
  void SayWhyNoBound(ClockStatement::Host& host) const {
    if (!host.is_aligned) host.bound_ns = host.likely_error_ns = std::nullopt;
    if (host.bound_ns) return;
    switch (options_.mode) {
      case ClockMode::kAuto:
      case ClockMode::kCollectives:
        host.no_bound_because = host.is_aligned
                                    ? "no time of the host lies on the common clock"
                                    : "no collective binds its clock to the others' throughout";
        return;
      case ClockMode::kRealtime:
        host.no_bound_because = "wall clocks prove nothing";
        return;
      case ClockMode::kNone:
        host.no_bound_because = "clocks are not aligned";
        return;
      case ClockMode::kGiven:
        host.no_bound_because = host.is_aligned ? "the given file tells no bound of it"
                                                : "the given file does not have it";
        return;
    }
  }

  void CountContradictions() {
    ClockStatement& statement = out_.statement_;
    for (size_t moment = 0; moment < out_.moments_.moments.size(); ++moment) {
      if (out_.moments_.moments[moment].kind != CollectiveKind::kAllToAll) continue;
      const auto times = out_.TimesOf(moment);
      if (!times || times->transfer_ns >= 0) continue;
      ++statement.contradicted;
      statement.worst_contradiction_ns =
          std::max(statement.worst_contradiction_ns, -times->transfer_ns);
    }
  }

  const std::vector<const SourceFacts*>& inputs_;
  const JoinedInputs& joined_;
  const MergedClockOptions& options_;
  std::map<std::pair<std::string, std::vector<int32_t>>, uint32_t> groups_;
  std::vector<std::string> ops_;        // "allreduce/Float"; sorted, but for the last one
  std::vector<uint16_t> without_type_;  // by number of an operation: that of "allreduce/"
  MergedClock out_;
};

absl::StatusOr<MergedClock> MergedClock::Make(const std::vector<const SourceFacts*>& inputs,
                                              const JoinedInputs& joined,
                                              const MergedClockOptions& options) {
  return MergedClockMaker(inputs, joined, options).Make();
}

std::optional<CommonTime> MergedClock::Map(uint32_t input, int64_t ns) const {
  return MapLocal(joined_->processes[joined_->process_of_input[input]].boot,
                  joined_->ToLocal(input, *(*inputs_)[input], ns));
}

std::optional<CommonTime> MergedClock::MapLocal(uint32_t boot, int64_t local_ns) const {
  std::optional<CommonTime> time = clock_ ? clock_->Map(boot, local_ns) : MapByHost(boot, local_ns);
  if (!time || time->timeline >= shifts_ns_.size()) return time;
  for (int64_t* ns : {&time->common_ns, &time->low_ns, &time->high_ns}) {
    *ns += shifts_ns_[time->timeline];
  }
  return time;
}

CommonTime MergedClock::MapByHost(uint32_t boot, int64_t local_ns) const {
  CommonTime time;
  if (mode_ == ClockMode::kRealtime || mode_ == ClockMode::kGiven) {
    time.common_ns = joined_->boots[boot].wall.ToWall(local_ns);
    const bool is_given = mode_ == ClockMode::kGiven;
    const bool has_given = is_given && given_[boot];
    if (has_given) time.common_ns = given_[boot]->ToCommon(time.common_ns);
    if (!joined_->boots[boot].has_wall() || (is_given && !has_given)) time.timeline = boot + 1;
  } else {
    const int64_t first_ns = joined_->boots.front().wall.ToWall(begins_ns_.front());
    time.common_ns = first_ns + (local_ns - begins_ns_[boot]);
    time.timeline = boot;
  }
  time.low_ns = time.common_ns - kNothingProvedNs;
  time.high_ns = time.common_ns + kNothingProvedNs;
  return time;
}

bool MergedClock::IsProved(const CommonTime& time) {
  return time.bound_ns() < kNothingProvedNs / 2;
}

bool MergedClock::IsAligned(uint32_t input) const { return is_aligned_[input]; }

std::optional<CollectiveTimes> MergedClock::TimesOf(size_t moment) const {
  auto times = TimesOfMoment(moments(), moment, [this](uint32_t boot, int64_t local_ns) {
    return MapLocal(boot, local_ns);
  });
  if (times && !clock_) times->is_last_proved = false;
  return times;
}

}  // namespace proftrace
