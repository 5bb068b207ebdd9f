// The command line of `record`: its options, and what they decide together.
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
#include "userspace/capture/recorder.h"
#include "userspace/cli/flight_options.h"
#include "userspace/cli/step_schedule.h"

namespace proftrace {

// --gpu.
enum class GpuChoice : uint8_t { kAuto, kAgent, kLaunch, kOff };

inline constexpr std::string_view kActivityWords[] = {"cpu", "cuda",  "syscalls",
                                                      "io",  "sched", "faults"};

// --activities.
struct Activities {
  SystemActivities system;
  bool cuda = false;
};

struct RecordArguments {
  // Most options are read right into it. CompleteOptions() makes the rest.
  RecordOptions options;
  std::optional<StepSchedule> schedule;
  FlightArguments flight;
  std::string output;
  std::string archive;  // that the results go to, as it is said to users; empty: none
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
  // All options that are of no use without operators.
  std::vector<const CLI::Option*> of_operators;
};

// The words of tests and benchmarks, which no command line has: a list like
// "links-for-all,loss-threads=4". empty-program: probes that record nothing, the kernel's floor;
// trace-events, perf-links: the older ways to attach; links-for-all: as on Linux 6.6 to 6.9;
// keep-counting: a budget leaves no operator out; no-known-plans: every library is analysed;
// loss-threads: threads whose losses are told
// apart.
inline constexpr char kTestSwitches[] = "PROFTRACE_TEST_SWITCHES";

void AddRecordOptions(CLI::App* record, RecordArguments* arguments);
// Adds those of them that say what is recorded and how.
void AddTracingOptions(CLI::App* command, RecordArguments* arguments);

// Makes of all that was read what is recorded, after the last option. `has_command`: whether one
// follows "--". Fails with kUsage where options do not go together; also with kHostUnfit.
absl::Status CompleteOptions(RecordArguments* arguments, bool has_command);

// "cpu,cuda,sched": fails with kUsage for any other word.
absl::StatusOr<Activities> ParseActivities(const std::string& text);
// --format. Fails with kUsage where one needs what is not recorded.
absl::StatusOr<std::vector<const Format*>> ChooseFormats(const RecordArguments& arguments);
// --metadata and --metadata-json.
absl::Status ParseMetadata(const RecordArguments& arguments, RecordingInfo* info);
// Reads kTestSwitches's words into the options.
absl::Status ApplyTestSwitches(std::string_view words, RecordOptions* options);

}  // namespace proftrace
