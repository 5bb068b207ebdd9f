#include "userspace/cli/flight_options.h"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/cli/option_help.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"

namespace proftrace {
namespace {

constexpr uint64_t kLeastBytes = 16u << 20;
constexpr double kLongestWindowS = 24 * 3600;
constexpr double kLargestRatio = 1e6;
constexpr std::string_view kStep = "step>";

std::atomic<uint32_t> g_signals{0};

void OnDumpSignal(int) { g_signals.fetch_add(1, std::memory_order_relaxed); }

absl::Status NoTrigger(const std::string& text) {
  return Fail(ExitCode::kUsage,
              "'" + text +
                  "' is no trigger: it is step>2x (longer than so many times the median of "
                  "the steps before), step>500ms, exit or oom");
}

}  // namespace

CLI::Option* AddFlightOptions(CLI::App* record, FlightArguments* arguments) {
  CLI::Option* window =
      AddParsed(record, "--flight-recorder", "TIME", &arguments->window_s, ParseWindow,
                "keeps only the last seconds in memory, for example 30s, and writes them into "
                "DIR/dump_0, DIR/dump_1 and so on: at SIGUSR1, at a --trigger, and at the end")
          ->group(kGroupWhen);
  AddParsed(record, "--flight-recorder-memory", "SIZE", &arguments->most_bytes, ParseFlightMemory,
            "the most memory for what is kept, which is compressed. Where it is too little for the "
            "job, fewer seconds are kept, and the result says so. 30 s of 600000 records a second "
            "take about 90M. The rest of proftrace takes about 150M, with --sample about 400M")
      ->default_str("256M")
      ->needs(window)
      ->group(kGroupWhen);
  const auto read = [arguments](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      absl::StatusOr<FlightTrigger> trigger = ParseTrigger(text);
      if (!trigger.ok()) {
        throw CLI::ValidationError("--trigger", std::string(trigger.status().message()));
      }
      arguments->triggers.push_back(*std::move(trigger));
    }
    return true;
  };
  record
      ->add_option(
          "--trigger", read,
          "also writes a dump when this happens. step>2x: a step took longer than twice the median "
          "of the steps before; step>500ms: a step took longer than 500 ms; exit: a target ended, "
          "or a child failed; oom: an allocation of CPU or device memory failed (needs "
          "--profile-memory). Two dumps are at least one window apart")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->type_name("WHEN")
      ->needs(window)
      ->group(kGroupWhen);
  record
      ->add_option("--most-dumps", arguments->most_dumps,
                   "the most dumps that triggers make; SIGUSR1 and the end make theirs in any case")
      ->type_name("N")
      ->check(CLI::Range(1u, 1'000'000u))
      ->capture_default_str()
      ->needs(window)
      ->group(kGroupWhen);
  CLI::Option* fleet =
      record
          ->add_option(
              "--fleet", arguments->fleet,
              "also writes a summary of the window once a minute into this directory, which all "
              "hosts of a fleet share; 'proftrace fleet watch DIR' shows the summaries")
          ->type_name("DIR")
          ->needs(window)
          ->group(kGroupWhen);
  AddParsed(record, "--fleet-every", "TIME", &arguments->fleet_every_s, ParseFleetPeriod,
            "how often a summary is written. Summaries begin at full multiples of this time by the "
            "wall clock, so that those of all hosts are of the same seconds. Each is of the "
            "seconds since the one before")
      ->default_str("60s")
      ->needs(fleet)
      ->group(kGroupWhen);
  return window;
}

absl::StatusOr<double> ParseFleetPeriod(const std::string& text) {
  absl::StatusOr<double> seconds = ParseDuration(text);
  if (!seconds.ok()) return seconds.status();
  if (*seconds < 1 || *seconds > kLongestWindowS || *seconds != std::floor(*seconds)) {
    return Fail(ExitCode::kUsage, "'" + text + "' is no number of whole seconds, a day at most");
  }
  return seconds;
}

absl::StatusOr<double> ParseWindow(const std::string& text) {
  absl::StatusOr<double> seconds = ParseDuration(text);
  if (seconds.ok() && *seconds > kLongestWindowS) {
    return Fail(ExitCode::kUsage, "'" + text + "' is longer than a day; record it as it is");
  }
  return seconds;
}

absl::StatusOr<uint64_t> ParseFlightMemory(const std::string& text) {
  absl::StatusOr<uint64_t> bytes = ParseSize(text);
  if (bytes.ok() && *bytes < kLeastBytes) return Fail(ExitCode::kUsage, "must be 16M at least");
  return bytes;
}

absl::StatusOr<FlightTrigger> ParseTrigger(const std::string& text) {
  FlightTrigger trigger;
  trigger.text = text;
  if (text == "exit") {
    trigger.kind = FlightTrigger::Kind::kExit;
    return trigger;
  }
  if (text == "oom") {
    trigger.kind = FlightTrigger::Kind::kOutOfMemory;
    return trigger;
  }
  if (!text.starts_with(kStep)) return NoTrigger(text);
  const std::string limit = text.substr(kStep.size());
  if (limit.ends_with('x')) {
    trigger.kind = FlightTrigger::Kind::kStepRatio;
    const char* end = limit.data() + limit.size() - 1;
    const auto [rest, error] = std::from_chars(limit.data(), end, trigger.ratio);
    if (error != std::errc() || rest != end || !(trigger.ratio > 1) ||
        trigger.ratio > kLargestRatio) {
      return NoTrigger(text);
    }
    return trigger;
  }
  trigger.kind = FlightTrigger::Kind::kStepLength;
  const absl::StatusOr<double> seconds = ParseDuration(limit);
  // A number without a unit is refused, because it may be meant as a ratio.
  if (!seconds.ok() || (!limit.ends_with('s') && !limit.ends_with('m'))) return NoTrigger(text);
  trigger.length_ns = static_cast<int64_t>(std::llround(*seconds * 1e9));
  return trigger;
}

absl::StatusOr<std::optional<FlightOptions>> MakeFlightOptions(const FlightArguments& arguments,
                                                               bool records_memory) {
  if (!arguments.window_s.has_value()) return std::nullopt;
  for (const FlightTrigger& trigger : arguments.triggers) {
    if (trigger.kind == FlightTrigger::Kind::kOutOfMemory && !records_memory) {
      return Fail(ExitCode::kUsage,
                  "--trigger oom needs --profile-memory, whose probes see allocations fail");
    }
  }
  FlightOptions options;
  options.window_ns = static_cast<int64_t>(std::llround(*arguments.window_s * 1e9));
  options.most_bytes = arguments.most_bytes;
  options.most_dumps = arguments.most_dumps;
  if (!arguments.fleet.empty()) {
    options.summary_period_ns = static_cast<int64_t>(std::llround(arguments.fleet_every_s * 1e9));
  }
  options.triggers = arguments.triggers;
  options.signals = &g_signals;
  struct sigaction action {};
  action.sa_handler = OnDumpSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  return options;
}

}  // namespace proftrace
