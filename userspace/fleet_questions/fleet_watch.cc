#include "userspace/fleet_questions/fleet_watch.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

#include "userspace/base/shown_text.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

std::string TextAt(const Answer& answer, size_t row, std::string_view column) {
  const json& cell = answer.At(row, column);
  return cell.is_string() ? cell.get<std::string>() : "";
}

int64_t WholeAt(const Answer& answer, size_t row, std::string_view column) {
  return static_cast<int64_t>(NumberOr0(answer.At(row, column)));
}

WatchEvent EventOf(std::string_view kind, const Answer& answer, size_t row) {
  WatchEvent event;
  event.kind = kind;
  event.job = TextAt(answer, row, "job");
  event.attempt = WholeAt(answer, row, "attempt");
  if (answer.At(row, "rank").is_number()) event.rank = WholeAt(answer, row, "rank");
  event.host = TextAt(answer, row, "host");
  event.facts = nlohmann::ordered_json::object();
  return event;
}

std::string RankName(const WatchEvent& event) {
  std::string name = absl::StrFormat("Rank %d", event.rank.value_or(0));
  if (!event.host.empty()) name += " (" + ShownText(event.host) + ")";
  return name;
}

void CopyFacts(const Answer& answer, size_t row, std::initializer_list<const char*> columns,
               WatchEvent* event) {
  for (const char* column : columns) event->facts[column] = answer.At(row, column);
}

}  // namespace

std::vector<std::string_view> WatchQuestions() {
  return {"coverage", "balance", "verdict", "last_seen"};
}

nlohmann::ordered_json WatchEvent::ToJson() const {
  nlohmann::ordered_json document = {{"event", kind}, {"job", job}, {"attempt", attempt}};
  if (rank) document["rank"] = *rank;
  if (!host.empty()) document["host"] = host;
  document.update(facts);
  document["sentence"] = sentence;
  return document;
}

std::vector<WatchEvent> FleetWatch::Look(const ReportAnswers& answers, int64_t now_ns) {
  events_.clear();
  LookAtCoverage(answers.Of("coverage"));
  LookAtLastSeen(answers.Of("last_seen"), now_ns);
  LookAtVerdict(answers.Of("verdict"), answers.Of("last_seen"));
  return std::exchange(events_, {});
}

void FleetWatch::LookAtCoverage(const Answer& coverage) {
  for (size_t row = 0; row < coverage.rows.size(); ++row) {
    WatchEvent event = EventOf("coverage", coverage, row);
    const int64_t lost = WholeAt(coverage, row, "lost");
    const bool knows_world = coverage.At(row, "world_size").is_number();
    const int64_t seen = WholeAt(coverage, row, "ranks_seen");
    const std::string ranks =
        seen == 0
            ? "recordings that say no rank were seen"
            : absl::StrFormat("%d of %s ranks were seen", seen,
                              knows_world ? std::to_string(WholeAt(coverage, row, "world_size"))
                                          : "a number that is not known of");
    event.sentence = absl::StrFormat(
        "%s: %s, %d events were lost.",
        event.job.empty() || event.job == "-" ? "The job" : "Job " + ShownText(event.job), ranks,
        lost);
    CopyFacts(coverage, row, {"ranks_seen", "world_size", "hosts", "lost"}, &event);
    std::string& before = coverage_[{event.job, event.attempt}];
    if (before == event.sentence) continue;
    before = event.sentence;
    events_.push_back(std::move(event));
  }
}

void FleetWatch::LookAtLastSeen(const Answer& last_seen, int64_t now_ns) {
  std::map<Job, size_t> newest;
  for (size_t row = 0; row < last_seen.rows.size(); ++row) {
    WatchEvent event = EventOf("silent", last_seen, row);
    const Rank rank = {event.job, event.attempt, event.rank.value_or(0)};
    CopyFacts(last_seen, row, {"last_ns", "behind_ns"}, &event);
    const int64_t behind_ns = WholeAt(last_seen, row, "behind_ns");
    if (behind_ns == 0) newest.try_emplace({event.job, event.attempt}, row);
    const bool is_silent = behind_ns > silent_after_ns_;
    if (is_silent == silent_.contains(rank)) continue;
    if (is_silent) {
      silent_.insert(rank);
      event.sentence = RankName(event) + " is silent: the others of its job were seen for " +
                       TimeOf(last_seen.At(row, "behind_ns")) + " after it.";
    } else {
      silent_.erase(rank);
      event.kind = "back";
      event.sentence = RankName(event) + " is seen again.";
    }
    events_.push_back(std::move(event));
  }
  for (const auto& [job, row] : newest) {
    const int64_t since_ns = now_ns - WholeAt(last_seen, row, "last_ns");
    const bool is_silent = since_ns > silent_after_ns_;
    if (is_silent == silent_jobs_.contains(job)) continue;
    WatchEvent event = EventOf(is_silent ? "job silent" : "job back", last_seen, row);
    event.rank.reset();
    event.host.clear();
    CopyFacts(last_seen, row, {"last_ns"}, &event);
    const std::string name =
        event.job.empty() || event.job == "-" ? "the job" : "job " + ShownText(event.job);
    if (is_silent) {
      silent_jobs_.insert(job);
      event.sentence = "Nothing has come of " + name + " for " + TimeOf(json(since_ns)) + ".";
    } else {
      silent_jobs_.erase(job);
      event.sentence = "There is news of " + name + " again.";
    }
    events_.push_back(std::move(event));
  }
}

void FleetWatch::LookAtVerdict(const Answer& verdict, const Answer& last_seen) {
  std::map<Rank, std::string> now;
  for (size_t row = 0; row < verdict.rows.size(); ++row) {
    // Skips a rank that was slow for a while and is no longer.
    if (verdict.At(row, "to_step") != verdict.At(row, "last_step")) continue;
    WatchEvent event = EventOf("slow", verdict, row);
    const Rank rank = {event.job, event.attempt, event.rank.value_or(0)};
    const std::string cause = TextAt(verdict, row, "cause");
    now[rank] = cause;
    const auto before = cause_of_slow_.find(rank);
    if (before != cause_of_slow_.end() && before->second == cause) continue;
    CopyFacts(verdict, row, {"cause", "coverage", "excess_ns", "lost_share", "from_step", "sure"},
              &event);
    const std::vector<std::string> sentences = SlowRankSentences(verdict, row);
    event.sentence = sentences[0] + " " + sentences[1];
    if (before != cause_of_slow_.end()) {
      event.kind = "cause";
      event.facts["cause_before"] = before->second;
      event.sentence = RankName(event) + " is slow for another reason than before. " + sentences[1];
    }
    events_.push_back(std::move(event));
  }
  for (const auto& [rank, cause] : cause_of_slow_) {
    if (now.contains(rank)) continue;
    for (size_t row = 0; row < last_seen.rows.size(); ++row) {
      WatchEvent event = EventOf("recovered", last_seen, row);
      if (Rank(event.job, event.attempt, event.rank.value_or(0)) != rank) continue;
      event.facts["cause_before"] = cause;
      event.sentence = RankName(event) + " is not slow any more.";
      events_.push_back(std::move(event));
    }
  }
  cause_of_slow_ = std::move(now);
}

}  // namespace proftrace
