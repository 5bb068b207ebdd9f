#include "userspace/capture/session/flight_recorder.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "bpf/abi/read_record.h"
#include "userspace/base/clock.h"
#include "userspace/base/median.h"
#include "userspace/steps/step_rule.h"
#include "userspace/wire/told_once.h"

namespace proftrace {
namespace {

// The longest settle_ns that Start() takes.
constexpr int64_t kLongestSettleNs = 2'000'000'000;

std::string Milliseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f ms", static_cast<double>(ns) * 1e-6);
  return text;
}

// Returns a signal's name: "SIGKILL" for 9.
std::string SignalName(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

// Whether the signal is one by which processes are told to end.
bool IsAsked(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGPIPE;
}

}  // namespace

bool FlightOptions::WatchesSteps() const {
  return std::any_of(triggers.begin(), triggers.end(), [](const FlightTrigger& trigger) {
    return trigger.kind == FlightTrigger::Kind::kStepRatio ||
           trigger.kind == FlightTrigger::Kind::kStepLength;
  });
}

FlightLimits FlightRecorder::LimitsOf(const FlightOptions& options) {
  return {options.window_ns + kLongestSettleNs, options.most_bytes};
}

void FlightRecorder::Start(int64_t start_ns, const std::vector<Pid>& targets, int64_t settle_ns) {
  start_ns_ = steps_until_ns_ = start_ns;
  settle_ns_ = std::min(settle_ns, kLongestSettleNs);
  for (const Pid pid : targets) targets_.insert(Raw(pid));
}

bool FlightRecorder::Has(FlightTrigger::Kind kind) const {
  return std::any_of(options_.triggers.begin(), options_.triggers.end(),
                     [kind](const FlightTrigger& trigger) { return trigger.kind == kind; });
}

void FlightRecorder::Ask(const std::string& reason, int64_t now_ns) {
  if (due_.has_value()) {  // one dump serves both requests
    if (due_->reason != reason) due_->reason += "; " + reason;
    due_->end_ns = std::max(due_->end_ns, now_ns);
    return;
  }
  due_ = Due{reason, now_ns, now_ns + settle_ns_};
}

void FlightRecorder::Fire(const std::string& trigger, const std::string& what, int64_t now_ns) {
  if (!due_.has_value()) {
    const bool is_soon =
        last_fired_ns_.has_value() && now_ns - *last_fired_ns_ < options_.window_ns;
    if (is_soon || fired_ >= options_.most_dumps) {
      ++passed_over_;
      return;
    }
    ++fired_;
    last_fired_ns_ = now_ns;
  } else if (due_->reason.find(trigger + ": ") != std::string::npos) {
    return;  // the dump that is due names this trigger already
  }
  Ask(trigger + ": " + what, now_ns);
}

void FlightRecorder::Look(int64_t now_ns) {
  if (options_.signals == nullptr) return;
  const uint32_t signals = options_.signals->load(std::memory_order_relaxed);
  if (signals == signals_seen_) return;
  signals_seen_ = signals;
  Ask(options_.asked_reason, options_.asks_for_past ? now_ns - settle_ns_ : now_ns);
}

void FlightRecorder::LookAtWall(int64_t now_ns, int64_t unix_ns) {
  if (options_.summary_period_ns <= 0 || start_ns_ == 0) return;
  const int64_t period = unix_ns / options_.summary_period_ns;
  const std::optional<int64_t> before = std::exchange(period_, period);
  // No other summary is due within the same period, where the clock was set back, or where the last
  // summary was not taken yet.
  if (!before.has_value() || period <= *before || summary_.has_value()) return;
  const int64_t end_ns = now_ns - (unix_ns - period * options_.summary_period_ns);
  if (end_ns > start_ns_) summary_ = Due{"summary", end_ns, end_ns + settle_ns_};
}

void FlightRecorder::OnExit(std::span<const std::byte> record) {
  const auto exit = ReadRecord<abi::pt_exit_record>(record);
  if (exit.group_dead == 0 || start_ns_ == 0 || !Has(FlightTrigger::Kind::kExit)) return;
  const int signal = static_cast<int>(exit.exit_code & 0x7f);
  const bool is_target = targets_.contains(exit.head.pid);
  // Processes that are not targets count only when they fail, because a job's helpers come and go.
  const bool has_failed = signal != 0 ? !IsAsked(signal) : exit.exit_code != 0;
  if (!is_target && !(has_failed && is_recorded_(Pid{exit.head.pid}))) return;
  std::string what = "PID " + std::to_string(exit.head.pid);
  if (signal != 0) {
    what += " was ended by " + SignalName(signal);
  } else {
    what += " ended with exit code " + std::to_string(exit.exit_code >> 8 & 0xff);
  }
  Fire("exit", what, static_cast<int64_t>(exit.head.time_ns));
}

void FlightRecorder::OnOutOfMemory(std::span<const std::byte> record) {
  const auto memory = ReadRecord<abi::pt_memory_record>(record);
  const auto time_ns = static_cast<int64_t>(memory.head.time_ns);
  if (start_ns_ == 0 || time_ns < start_ns_) return;
  if (!Has(FlightTrigger::Kind::kOutOfMemory)) return;
  Fire("oom",
       "PID " + std::to_string(memory.head.pid) + " was refused " + std::to_string(memory.bytes) +
           " bytes",
       time_ns);
}

void FlightRecorder::OnSteps(const RecordedSteps& steps, int64_t now_ns) {
  if (steps.confidence < kGuessBelow || steps.intervals.empty()) return;
  if (steps_of_ != std::pair(steps.pid, steps.tid)) {
    // These are steps of another thread than before, so the steps that this thread has had so far
    // are not checked.
    const bool is_first = steps_of_.first == Pid{};
    steps_of_ = {steps.pid, steps.tid};
    if (!is_first) steps_until_ns_ = steps.intervals.back().first + 1;
  }
  std::vector<int64_t> before;
  for (size_t i = 0; i < steps.intervals.size(); ++i) {
    const auto& [start_ns, end_ns] = steps.intervals[i];
    if (start_ns >= steps_until_ns_) {
      OnStep(steps.first_number + static_cast<int64_t>(i), end_ns - start_ns, before, now_ns);
    }
    before.push_back(end_ns - start_ns);
  }
  steps_until_ns_ = std::max(steps_until_ns_, steps.intervals.back().first + 1);
}

void FlightRecorder::OnStep(int64_t number, int64_t length_ns, const std::vector<int64_t>& before,
                            int64_t now_ns) {
  for (const FlightTrigger& trigger : options_.triggers) {
    const std::string what = "step " + std::to_string(number) + " took " + Milliseconds(length_ns);
    if (trigger.kind == FlightTrigger::Kind::kStepLength && length_ns > trigger.length_ns) {
      Fire(trigger.text, what, now_ns);
      return;
    }
    if (trigger.kind != FlightTrigger::Kind::kStepRatio || before.size() < kFewestSteps) continue;
    const size_t count = std::min(before.size(), kMostSteps);
    const int64_t median_ns =
        Median<int64_t>({before.end() - static_cast<ptrdiff_t>(count), before.end()});
    if (static_cast<double>(length_ns) > trigger.ratio * static_cast<double>(median_ns)) {
      Fire(trigger.text, what + ", the median of those before it is " + Milliseconds(median_ns),
           now_ns);
      return;
    }
  }
}

void FlightRecorder::NoteLosses(int64_t now_ns, const Ledger& losses) {
  losses_.push_back({now_ns, losses});
  // The last entry from before any window stays, because later entries are compared with it.
  while (losses_.size() > 1 &&
         losses_[1].time_ns < now_ns - options_.window_ns - 2 * kLongestSettleNs) {
    losses_.pop_front();
  }
}

Ledger FlightRecorder::LossesSince(int64_t time_ns) const {
  Ledger since;
  if (losses_.empty()) return since;
  const Ledger* before = &losses_.front().ledger;
  for (const Losses& losses : losses_) {
    if (losses.time_ns <= time_ns) before = &losses.ledger;
  }
  std::vector<uint64_t> earlier;
  ForEachCounter(*before,
                 [&earlier](std::string_view, uint64_t value) { earlier.push_back(value); });
  since = losses_.back().ledger;
  size_t i = 0;
  ForEachCounter(since, [&](std::string_view, uint64_t& value) { value -= earlier[i++]; });
  return since;
}

FlightDump FlightRecorder::Take(int64_t now_ns, bool is_end, const FlightKeeper& keeper,
                                const Window& recording, const Cost& cost,
                                MetadataWriter* last_words) {
  Due due{"", now_ns, now_ns};
  if (due_.has_value()) due = *std::exchange(due_, std::nullopt);
  if (is_end) {
    due.reason += due.reason.empty() ? "end" : "; end";
    due.end_ns = now_ns;
  }
  return Cut(due, std::max(start_ns_, due.end_ns - options_.window_ns), keeper, recording, cost,
             last_words);
}

FlightDump FlightRecorder::TakeSummary(const FlightKeeper& keeper, const Window& recording,
                                       const Cost& cost, MetadataWriter* last_words) {
  const Due due = *std::exchange(summary_, std::nullopt);
  // A minute of the wall clock may be shorter than a minute of CLOCK_MONOTONIC; summaries must not
  // overlap all the same.
  const int64_t from_ns =
      std::max({start_ns_, due.end_ns - std::min(options_.window_ns, options_.summary_period_ns),
                std::exchange(summarised_until_ns_, due.end_ns)});
  return Cut(due, from_ns, keeper, recording, cost, last_words);
}

FlightDump FlightRecorder::Cut(const Due& due, int64_t wanted_ns, const FlightKeeper& keeper,
                               const Window& recording, const Cost& cost,
                               MetadataWriter* last_words) const {
  FlightDump dump;
  dump.reason = due.reason;
  dump.snapshot = keeper.Take();
  dump.window = recording;
  dump.window.start_ns = std::min(due.end_ns, std::max(wanted_ns, dump.snapshot.complete_from_ns));
  dump.window.duration_ns = due.end_ns - dump.window.start_ns;
  if (dump.window.start_ns > wanted_ns) {
    char reason[160];
    std::snprintf(reason, sizeof(reason),
                  "%.1f s of %.1f s were kept: --flight-recorder-memory (%zu MiB) had no room for "
                  "more",
                  ToSeconds(dump.window.duration_ns), ToSeconds(due.end_ns - wanted_ns),
                  options_.most_bytes >> 20);
    last_words->AddUnsupported({"the whole window of the flight recorder", reason});
  }
  last_words->AddFlightNote({dump.reason, ToSeconds(options_.window_ns)});
  last_words->AddCut(dump.window.start_ns);
  last_words->AddEnd(dump.window, cost, LossesSince(dump.window.start_ns));
  dump.last_words = last_words->TakeJson();
  return dump;
}

}  // namespace proftrace
