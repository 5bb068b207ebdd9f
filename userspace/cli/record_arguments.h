// The command line of `record`: its options, and the decisions that follow from them.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/formats.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/cli/flight_options.h"
#include "userspace/cli/step_schedule.h"

namespace proftrace {

// The value of --gpu.
enum class GpuChoice : uint8_t { kAuto, kAgent, kLaunch, kOff };

inline constexpr std::string_view kActivityWords[] = {"cpu", "cuda",  "syscalls",
                                                      "io",  "sched", "faults"};

// The value of --activities.
struct Activities {
  SystemActivities system;
  bool cuda = false;
};

struct RecordArguments {
  // Most options are read directly into this struct. CompleteOptions() sets the rest.
  RecordOptions options;
  std::optional<StepSchedule> schedule;
  FlightArguments flight;
  std::string output;
  // The archive that results go to, as messages name it; empty where there is none.
  std::string archive;
  static constexpr char kDefaultFormats[] = "table,csv,chrome,folded,flamegraph,report";
  std::string formats = kDefaultFormats;
  std::optional<Activities> activities;
  GpuChoice gpu = GpuChoice::kAuto;
  std::vector<std::string> metadata;
  std::vector<std::string> metadata_json;
  bool cuda_sync_events = false;
  bool no_inject = false;
  bool as_root = false;
  bool strict = false;
  bool force = false;
  bool quiet = false;
  bool no_progress = false;
  bool json = false;
  int verbose = 0;
  // The options that are of no use unless operators are recorded.
  std::vector<const CLI::Option*> of_operators;
};

// The environment variable with switches for tests and benchmarks, which have no options: a list
// like "links-for-all,loss-threads=4". empty-program: probes record nothing, to measure the
// kernel's own cost; trace-events, perf-links: probes are attached in the older ways;
// links-for-all: probes are attached as on Linux 6.6 to 6.9; keep-counting: a budget leaves no
// operator out; no-known-plans: every library is analysed; loss-threads: the number of threads
// whose losses are told apart.
inline constexpr char kTestSwitches[] = "PROFTRACE_TEST_SWITCHES";

void AddRecordOptions(CLI::App* record, RecordArguments* arguments);
// Adds the options that say what is recorded and how.
void AddTracingOptions(CLI::App* command, RecordArguments* arguments);

// Sets `options` from all that was read, after the last option. `has_command`: whether a command
// follows "--". Fails with kUsage where options do not go together, and with kHostUnfit.
absl::Status CompleteOptions(RecordArguments* arguments, bool has_command);

// Parses a list like "cpu,cuda,sched". Fails with kUsage for an unknown word.
absl::StatusOr<Activities> ParseActivities(const std::string& text);
// Returns the formats of --format. Fails with kUsage where a format needs data that is not
// recorded.
absl::StatusOr<std::vector<const Format*>> ChooseFormats(const RecordArguments& arguments);
// Parses --metadata and --metadata-json into `info`.
absl::Status ParseMetadata(const RecordArguments& arguments, RecordingInfo* info);
// Puts the words of kTestSwitches into the options.
absl::Status ApplyTestSwitches(std::string_view words, RecordOptions* options);

}  // namespace proftrace
