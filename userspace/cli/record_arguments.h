// Reads the command line of `record`, and decides by it what is recorded at all.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "userspace/capture/recorder.h"
#include "userspace/cli/flight_options.h"

namespace proftrace {

struct RecordArguments {
  std::vector<uint32_t> pids;
  std::optional<std::string> duration;
  std::optional<std::string> start_at;
  std::optional<uint64_t> steps;
  std::optional<std::string> schedule;
  FlightArguments flight;
  std::string output;
  static constexpr char kDefaultFormats[] = "table,csv,chrome,folded,flamegraph";
  std::string formats = kDefaultFormats;
  std::string buffer_size = "32M";
  std::optional<std::string> max_overhead;
  std::optional<std::string> sample;
  bool waker_stacks = false;
  std::optional<std::string> activities;
  std::string tier = "bpf";
  std::string gpu = "auto";
  std::string trace_name;
  std::vector<std::string> metadata;
  std::vector<std::string> metadata_json;
  bool no_follow_children = false;
  bool all_processes = false;
  bool profile_memory = false;
  bool record_shapes = false;
  bool with_flops = false;
  bool with_stack = false;
  bool cuda_sync_events = false;
  bool with_modules = false;
  bool python_gc = false;
  bool all_options = false;
  bool no_inject = false;
  bool as_root = false;
  bool no_bpf = false;
  bool strict = false;
  bool force = false;
  bool quiet = false;
  bool no_progress = false;
  int verbose = 0;
  std::string probe_program = "record";
  bool trace_events = false;
  bool perf_links = false;
  bool links_for_all = false;
  bool keep_counting = false;
  uint32_t loss_threads = 0;
};

// --activities, as far as it is not for GPUs: sets `info.system`. These fail with kUsage.
absl::Status ParseActivities(const RecordArguments& arguments, RecordOptions* options);
// --max-overhead; after --activities.
absl::Status ParseBudget(const RecordArguments& arguments, RecordOptions* options);
// --metadata and --metadata-json.
absl::Status ParseMetadata(const RecordArguments& arguments, RecordingInfo* info);
// Returns which calls of CUDA --activities and --gpu ask for.
absl::StatusOr<CudaCalls> ChooseCudaCalls(const RecordArguments& arguments);
// Returns the agent, where CUPTI may be used. Also kHostUnfit.
absl::StatusOr<std::optional<AgentOptions>> ChooseAgent(const RecordArguments& arguments,
                                                        CudaCalls cuda_calls);

}  // namespace proftrace
