// Finds what `fleet watch` tells: how the answers of one look differ from those of the look before.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "userspace/fleet_questions/report.h"

namespace proftrace {

// Returns the names of the questions that each look asks.
std::vector<std::string_view> WatchQuestions();

struct WatchEvent {
  // One of "coverage", "slow", "cause", "recovered", "silent", "back", "job silent".
  std::string_view kind;
  std::string job;
  int64_t attempt = 0;
  std::optional<int64_t> rank;
  std::string host;
  nlohmann::ordered_json facts;  // an object with the further facts of this kind of event
  std::string sentence;          // for people; names in it are safe to show

  nlohmann::ordered_json ToJson() const;
};

class FleetWatch {
 public:
  // `silent_after_ns`: a rank that is this far behind the other ranks of its job counts as silent,
  // and so does a job without new data for this long.
  explicit FleetWatch(int64_t silent_after_ns) : silent_after_ns_(silent_after_ns) {}

  // Returns what has changed since the previous answers, in the order of ranks; the first call
  // returns the present state. `now_ns`: Unix time.
  std::vector<WatchEvent> Look(const ReportAnswers& answers, int64_t now_ns);

 private:
  using Job = std::pair<std::string, int64_t>;
  using Rank = std::tuple<std::string, int64_t, int64_t>;

  void LookAtCoverage(const Answer& coverage);
  void LookAtVerdict(const Answer& verdict, const Answer& last_seen);
  void LookAtLastSeen(const Answer& last_seen, int64_t now_ns);

  const int64_t silent_after_ns_;
  std::map<Job, std::string> coverage_;
  std::map<Rank, std::string> cause_of_slow_;
  std::set<Rank> silent_;
  std::set<Job> silent_jobs_;
  std::vector<WatchEvent> events_;
};

}  // namespace proftrace
