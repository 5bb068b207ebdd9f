#include "userspace/fleet/joined_inputs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// How far apart the windows of two inputs of one process may be. Profilers of one process rarely
// begin and end together, so that the windows need only touch.
constexpr int64_t kNearNs = 1'000'000'000;

constexpr int32_t kNoRank = INT32_MAX;  // sorts behind all ranks

bool HasPid(const SourceFacts& facts, int64_t pid) {
  return facts.pid == pid || std::find(facts.namespace_pids.begin(), facts.namespace_pids.end(),
                                       pid) != facts.namespace_pids.end();
}

bool SharePid(const SourceFacts& a, const SourceFacts& b) {
  if (a.pid && HasPid(b, *a.pid)) return true;
  return b.pid && HasPid(a, *b.pid);
}

template <typename T>
bool Contradict(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

bool Contradict(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

class InputJoiner {
 public:
  InputJoiner(const std::vector<const SourceFacts*>& inputs,
              const std::optional<RankPattern>& rank_of)
      : inputs_(inputs), set_of_(inputs.size()) {
    std::iota(set_of_.begin(), set_of_.end(), 0u);
    for (const SourceFacts* facts : inputs) {
      std::optional<int32_t> rank = facts->rank;
      // The rank that the file itself tells comes first, because a path may be wrong.
      if (!rank && rank_of) rank = rank_of->RankOf(facts->path);
      ranks_.push_back(rank);
    }
    order_.resize(inputs.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(),
              [&](uint32_t a, uint32_t b) { return KeyOf(a) < KeyOf(b); });
  }

  absl::StatusOr<JoinedInputs> Join() && {
    if (absl::Status status = CheckJob(); !status.ok()) return status;
    FindWallClocks();
    if (absl::Status status = JoinProcesses(); !status.ok()) return status;
    MakeProcesses();
    if (absl::Status status = CheckRanks(); !status.ok()) return status;
    MakeBoots();
    Finish();
    return std::move(out_);
  }

 private:
  // Inputs are sorted by their facts, and not by their place on the command line.
  using InputKey =
      std::tuple<SourceKind, int32_t, int32_t, std::string, int64_t, int64_t, std::string>;
  InputKey KeyOf(uint32_t input) const {
    const SourceFacts& facts = *inputs_[input];
    return InputKey(facts.kind, ranks_[input].value_or(kNoRank), facts.attempt, facts.host,
                    facts.first_ns.value_or(0), facts.pid.value_or(0), facts.path);
  }

  absl::Status CheckJob() const {
    const SourceFacts* of_job = nullptr;
    std::map<int32_t, const SourceFacts*> of_size;
    std::set<std::tuple<std::string, std::optional<int64_t>>> seen;
    for (const uint32_t input : order_) {
      const SourceFacts& facts = *inputs_[input];
      if (!seen.emplace(facts.path, facts.pid).second) {
        return Fail(ExitCode::kInputsDisagree, facts.path + " is given twice; give it once");
      }
      if (!facts.job.empty()) {
        if (of_job != nullptr && of_job->job != facts.job) {
          return Fail(
              ExitCode::kInputsDisagree,
              absl::StrFormat("%s is of the job \"%s\", and %s of the job \"%s\"; merge the "
                              "files of one job at a time",
                              of_job->path, of_job->job, facts.path, facts.job));
        }
        of_job = &facts;
      }
      if (!facts.world_size) continue;
      const SourceFacts* first = of_size.try_emplace(facts.attempt, &facts).first->second;
      if (*first->world_size != *facts.world_size) {
        return Fail(
            ExitCode::kInputsDisagree,
            absl::StrFormat("%s is of a job of %d ranks, and %s of one of %d; merge the "
                            "files of one job at a time",
                            first->path, *first->world_size, facts.path, *facts.world_size));
      }
    }
    return absl::OkStatus();
  }

  // Finds the wall clock of each boot that captures are from, from all their snapshots.
  void FindWallClocks() {
    for (const uint32_t input : order_) {
      const SourceFacts& facts = *inputs_[input];
      if (facts.clock != SourceClock::kMonotonic) continue;
      FleetBoot& boot = boots_[BootKey(facts)].boot;
      boot.boot_id = BootKey(facts);
      if (boot.host.empty()) boot.host = facts.host;
      boot.snapshots.insert(boot.snapshots.end(), facts.snapshots.begin(), facts.snapshots.end());
    }
    for (auto& [key, joined] : boots_) {
      std::vector<ClockSnapshot>& snapshots = joined.boot.snapshots;
      std::stable_sort(
          snapshots.begin(), snapshots.end(), [](const ClockSnapshot& a, const ClockSnapshot& b) {
            return std::tie(a.monotonic_ns, a.gap_ns) < std::tie(b.monotonic_ns, b.gap_ns);
          });
      snapshots.erase(std::unique(snapshots.begin(), snapshots.end(),
                                  [](const ClockSnapshot& a, const ClockSnapshot& b) {
                                    return a.monotonic_ns == b.monotonic_ns;
                                  }),
                      snapshots.end());
      joined.wall = WallClock(snapshots);
      if (joined.boot.host.empty()) joined.boot.host = key;
    }
  }

  // Returns the key of an input's boot. Old captures have no boot id: those of one host count as
  // one boot.
  static std::string BootKey(const SourceFacts& facts) {
    if (facts.boot_id) return *facts.boot_id;
    return facts.host.empty() ? "boot of " + facts.path : "boot of " + facts.host;
  }

  // Returns the window of an input in wall time; nullopt where it has no events, or a clock of its
  // own.
  std::optional<std::pair<int64_t, int64_t>> WallWindow(const SourceFacts& facts) const {
    if (!facts.first_ns || !facts.last_ns || facts.clock == SourceClock::kOwn) return std::nullopt;
    if (facts.clock == SourceClock::kRealtime) return std::pair(*facts.first_ns, *facts.last_ns);
    const WallClock& wall = boots_.at(BootKey(facts)).wall;
    return std::pair(wall.ToWall(*facts.first_ns), wall.ToWall(*facts.last_ns));
  }

  bool AreNear(const SourceFacts& a, const SourceFacts& b) const {
    const auto first = WallWindow(a);
    const auto second = WallWindow(b);
    if (!first || !second) return true;
    return first->first <= second->second + kNearNs && second->first <= first->second + kNearNs;
  }

  bool AreOfOneProcess(uint32_t a, uint32_t b) const {
    const SourceFacts& first = *inputs_[a];
    const SourceFacts& second = *inputs_[b];
    // Even if the process is the same, the clocks cannot be joined.
    if (first.clock == SourceClock::kOwn || second.clock == SourceClock::kOwn) return false;
    if (Contradict(ranks_[a], ranks_[b]) || Contradict(first.host, second.host) ||
        Contradict(first.boot_id, second.boot_id)) {
      return false;
    }
    if (first.pid && second.pid) {
      if (!SharePid(first, second)) return false;
    } else if (!ranks_[a] || !ranks_[b]) {
      return false;
    }
    return AreNear(first, second);
  }

  absl::Status JoinProcesses() {
    // Captures already have one input for each process. Files are joined to those, then to each
    // other.
    for (size_t i = 0; i < order_.size(); ++i) {
      const uint32_t input = order_[i];
      if (inputs_[input]->kind == SourceKind::kCapture) continue;
      std::vector<uint32_t> fitting;
      for (size_t j = 0; j < order_.size(); ++j) {
        const uint32_t other = order_[j];
        const bool is_capture = inputs_[other]->kind == SourceKind::kCapture;
        if ((is_capture || j < i) && inputs_[other]->kind != inputs_[input]->kind &&
            AreOfOneProcess(input, other)) {
          fitting.push_back(other);
        }
      }
      std::set<uint32_t> sets;
      for (const uint32_t other : fitting) sets.insert(Find(other));
      if (sets.size() > 1) PreferSameRank(input, &sets);
      if (sets.size() > 1) {
        return Fail(ExitCode::kUsage,
                    absl::StrFormat("%s fits several processes of that PID and time, of %s and of "
                                    "%s; say which rank it is with --rank-of",
                                    inputs_[input]->path, inputs_[*sets.begin()]->path,
                                    inputs_[*std::next(sets.begin())]->path));
      }
      if (sets.size() == 1) set_of_[input] = *sets.begin();
    }
    return absl::OkStatus();
  }

  void PreferSameRank(uint32_t input, std::set<uint32_t>* sets) const {
    if (!ranks_[input]) return;
    std::set<uint32_t> same;
    for (const uint32_t set : *sets) {
      if (ranks_[set] == ranks_[input]) same.insert(set);
    }
    if (!same.empty()) *sets = std::move(same);
  }

  uint32_t Find(uint32_t input) const {
    while (set_of_[input] != input) input = set_of_[input];
    return input;
  }

  void MakeProcesses() {
    std::map<uint32_t, JoinedProcess> by_set;
    for (const uint32_t input : order_) {
      const SourceFacts& facts = *inputs_[input];
      JoinedProcess& process = by_set[Find(input)];
      if (process.inputs.empty()) process.attempt = facts.attempt;
      process.inputs.push_back(input);
      if (!process.rank) process.rank = ranks_[input];
      if (!process.pid) process.pid = facts.pid;
      if (process.host.empty()) process.host = facts.host;
    }
    for (auto& [set, process] : by_set) out_.processes.push_back(std::move(process));
    std::sort(out_.processes.begin(), out_.processes.end(),
              [&](const JoinedProcess& a, const JoinedProcess& b) {
                const auto key = [&](const JoinedProcess& of) {
                  return std::tuple(of.rank.value_or(kNoRank), of.attempt,
                                    KeyOf(of.inputs.front()));
                };
                return key(a) < key(b);
              });
    out_.process_of_input.resize(inputs_.size());
    for (uint32_t process = 0; process < out_.processes.size(); ++process) {
      for (const uint32_t input : out_.processes[process].inputs) {
        out_.process_of_input[input] = process;
      }
    }
  }

  absl::Status CheckRanks() const {
    // A helper process (a loader's worker, a launcher) in a capture needs no rank, but a file of
    // another profiler does.
    std::map<std::tuple<int32_t, int32_t, SourceKind>, std::vector<uint32_t>> of_rank;
    for (const JoinedProcess& process : out_.processes) {
      for (const uint32_t input : process.inputs) {
        const SourceFacts& facts = *inputs_[input];
        if (process.rank) {
          of_rank[{*process.rank, process.attempt, facts.kind}].push_back(input);
        } else if (facts.kind != SourceKind::kCapture && out_.processes.size() > 1) {
          return Fail(
              ExitCode::kUsage,
              facts.path +
                  " does not tell its rank, and no capture of its process is given; name "
                  "it with --rank-of 'rank_(?P<rank>[0-9]+)', which is looked for in paths");
        }
      }
    }
    for (const auto& [key, inputs] : of_rank) {
      for (size_t a = 0; a < inputs.size(); ++a) {
        for (size_t b = a + 1; b < inputs.size(); ++b) {
          if (absl::Status status = CheckAreApart(inputs[a], inputs[b], std::get<0>(key));
              !status.ok()) {
            return status;
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Fails unless two inputs of one rank and kind are of different times. Two processes of one
  // capture are always accepted.
  absl::Status CheckAreApart(uint32_t a, uint32_t b, int32_t rank) const {
    const SourceFacts& first = *inputs_[a];
    const SourceFacts& second = *inputs_[b];
    if (first.path == second.path) return absl::OkStatus();
    const auto one = WallWindow(first);
    const auto other = WallWindow(second);
    if (one && other && (one->first > other->second || other->first > one->second)) {
      return absl::OkStatus();
    }
    return Fail(
        ExitCode::kInputsDisagree,
        absl::StrFormat("%s and %s are both of rank %d, and of the same time; leave one out",
                        first.path, second.path, rank));
  }

  void MakeBoots() {
    std::map<std::string, std::vector<std::string>> keys_of_host;
    for (const auto& [key, joined] : boots_) keys_of_host[joined.boot.host].push_back(key);
    std::vector<std::string> keys;
    for (JoinedProcess& process : out_.processes) {
      const SourceFacts& facts = *inputs_[process.inputs.front()];
      std::string key;
      const auto same_host = keys_of_host.find(process.host);
      if (facts.clock == SourceClock::kMonotonic) {
        key = BootKey(facts);
      } else if (facts.clock == SourceClock::kOwn) {
        key = "file " + facts.path;
        JoinedBoot& joined = boots_[key];
        joined.is_own = true;
        joined.boot.boot_id = key;
        joined.boot.host = facts.path;
      } else if (facts.boot_id && boots_.contains(*facts.boot_id)) {
        key = *facts.boot_id;
      } else if (!process.host.empty() && same_host != keys_of_host.end() &&
                 same_host->second.size() == 1) {
        key = same_host->second.front();
      } else {
        key = process.host.empty() ? "file " + facts.path : "host " + process.host;
        JoinedBoot& joined = boots_[key];
        joined.is_wall = true;
        joined.boot.boot_id = key;
        joined.boot.host = process.host.empty() ? facts.path : process.host;
      }
      keys.push_back(key);
    }
    std::map<std::string, uint32_t> numbers;
    for (auto& [key, joined] : boots_) {
      numbers[key] = static_cast<uint32_t>(out_.boots.size());
      if (joined.wall.has_jump()) {
        out_.remarks.push_back(
            absl::StrFormat("The wall clock of %s was set, or the host slept, while it was "
                            "recorded: times of other "
                            "profilers on it are not sure.",
                            joined.boot.host));
      }
      out_.boots.push_back(std::move(joined));
    }
    for (size_t i = 0; i < keys.size(); ++i) out_.processes[i].boot = numbers[keys[i]];
  }

  void Finish() {
    std::set<int32_t> seen;
    for (const JoinedProcess& process : out_.processes) {
      if (process.rank) seen.insert(*process.rank);
    }
    for (const uint32_t input : order_) {
      const std::optional<int32_t> size = inputs_[input]->world_size;
      if (size && *size > out_.world_size.value_or(0)) out_.world_size = size;
      for (const std::string& remark : inputs_[input]->remarks) {
        out_.remarks.push_back(inputs_[input]->path + ": " + remark);
      }
    }
    if (seen.empty()) return;
    for (int32_t rank = 0; rank < out_.world_size.value_or(0); ++rank) {
      if (!seen.contains(rank)) out_.missing_ranks.push_back(rank);
    }
  }

  const std::vector<const SourceFacts*>& inputs_;
  std::vector<std::optional<int32_t>> ranks_;
  std::vector<uint32_t> order_;  // the inputs, sorted by KeyOf()
  // For each input: the capture that it belongs to, or the input itself.
  std::vector<uint32_t> set_of_;
  std::map<std::string, JoinedBoot> boots_;
  JoinedInputs out_;
};

}  // namespace

absl::StatusOr<JoinedInputs> JoinInputs(const std::vector<const SourceFacts*>& inputs,
                                        const std::optional<RankPattern>& rank_of) {
  return InputJoiner(inputs, rank_of).Join();
}

std::string RankList(const std::vector<int32_t>& ranks) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[begin]);
    if (end - begin > 1) absl::StrAppend(&text, "-", ranks[end - 1]);
  }
  return text;
}

}  // namespace proftrace
