#include "userspace/cli/record_arguments.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "exporters/args/recording_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/base/text.h"
#include "userspace/capture/gpu/agent_library.h"
#include "userspace/cli/cache_directory.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/version.h"

namespace proftrace {
namespace {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

bool HasKey(const TextPairs& pairs, const std::string& key) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const auto& other) { return other.first == key; });
}

// Parses KEY=VALUE texts. The last value of a key counts, as in torch.
absl::Status ParsePairs(const std::vector<std::string>& texts, TextPairs* pairs) {
  for (const std::string& text : texts) {
    auto pair = ParseKeyValue(text);
    if (!pair.ok()) return pair.status();
    const auto same = std::find_if(pairs->begin(), pairs->end(),
                                   [&](const auto& other) { return other.first == pair->first; });
    if (same == pairs->end()) {
      pairs->push_back(*std::move(pair));
    } else {
      same->second = std::move(pair->second);
    }
  }
  return absl::OkStatus();
}

absl::Status Exclude(const std::string& one, const std::string& other) {
  return Fail(ExitCode::kUsage, one + " and " + other + " exclude each other: give one of them");
}

absl::Status CheckTargets(const RecordArguments& arguments, bool has_command) {
  const RecordOptions& options = arguments.options;
  const int targets =
      (options.pids.empty() ? 0 : 1) + (options.all ? 1 : 0) + (has_command ? 1 : 0);
  if (targets != 1) {
    return Fail(ExitCode::kUsage,
                "give one thing to record: -p PID of a running process, -a for every PyTorch "
                "process, or -- COMMAND ARGS");
  }
  if (options.all && !options.bpf.follow_children) return Exclude("-a", "--no-follow-children");
  return absl::OkStatus();
}

// Fails for options that are about operators where operators are not recorded.
absl::Status CheckOperators(const RecordArguments& arguments) {
  if (arguments.options.info.system.operators) return absl::OkStatus();
  for (const CLI::Option* option : arguments.of_operators) {
    if (option->count() == 0) continue;
    return Fail(ExitCode::kUsage, option->get_name() + " needs operators: add cpu to --activities");
  }
  return absl::OkStatus();
}

// Returns which calls of CUDA --activities and --gpu ask for.
absl::StatusOr<CudaCalls> ChooseCudaCalls(const RecordArguments& arguments) {
  const GpuChoice gpu = arguments.gpu;
  const bool is_forced = gpu == GpuChoice::kAgent || gpu == GpuChoice::kLaunch;
  const bool asks_for_cuda = arguments.activities.has_value() && arguments.activities->cuda;
  const bool has_cpu = arguments.options.info.system.operators;
  if (gpu == GpuChoice::kAgent && arguments.no_inject) return Exclude("--gpu agent", "--no-inject");
  if (!has_cpu && (asks_for_cuda || is_forced)) {
    return Fail(ExitCode::kUsage,
                "activity of GPUs is recorded with that of operators: give --activities cpu,cuda");
  }
  if (asks_for_cuda && gpu == GpuChoice::kOff) return Exclude("cuda in --activities", "--gpu off");
  if (is_forced && arguments.activities.has_value() && !asks_for_cuda) {
    return Fail(ExitCode::kUsage, "--gpu agent and --gpu launch need cuda in --activities");
  }
  if (asks_for_cuda || gpu == GpuChoice::kLaunch) return CudaCalls::kAlways;
  return arguments.activities.has_value() || gpu == GpuChoice::kOff ? CudaCalls::kNever
                                                                    : CudaCalls::kWhereUsed;
}

// Returns the options of the GPU agent; nullopt where CUPTI may not be used.
std::optional<AgentOptions> ChooseAgent(const RecordArguments& arguments) {
  const bool is_asked = arguments.gpu == GpuChoice::kAgent;
  if (arguments.options.plan.cuda_calls == CudaCalls::kNever || arguments.no_inject ||
      (!is_asked && arguments.gpu != GpuChoice::kAuto)) {
    return std::nullopt;
  }
  return AgentOptions{FindAgentFile(), is_asked};
}

absl::Status CompleteSteps(RecordArguments* arguments) {
  RecordOptions& options = arguments->options;
  if (arguments->schedule.has_value()) {
    options.steps = arguments->schedule->TotalSteps();
    options.counts_steps = true;
  }
  absl::StatusOr<std::optional<FlightOptions>> flight =
      MakeFlightOptions(arguments->flight, options.plan.profile_memory);
  if (!flight.ok()) return flight.status();
  options.flight = *std::move(flight);
  return absl::OkStatus();
}

absl::Status CompleteTier(RecordArguments* arguments) {
  RecordOptions& options = arguments->options;
  if (options.tier == Tier::kPatch && arguments->no_inject) {
    return Exclude("--tier patch", "--no-inject");
  }
  if (options.without_bpf && arguments->no_inject) return Exclude("--no-bpf", "--no-inject");
  if (options.without_bpf && options.tier == Tier::kBpf) {
    return Fail(ExitCode::kUsage, "--no-bpf is for --tier patch: tier bpf records by eBPF alone");
  }
  // Where one tier is ruled out, the other one is used.
  if (options.without_bpf) options.tier = Tier::kPatch;
  if (arguments->no_inject) options.tier = Tier::kBpf;
  options.info.tier = options.tier == Tier::kPatch ? "patch" : "bpf";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Activities> ParseActivities(const std::string& text) {
  Activities activities;
  for (const std::string_view word : SplitText(text, ",", /*skip_empty=*/false)) {
    if (std::find(std::begin(kActivityWords), std::end(kActivityWords), word) ==
        std::end(kActivityWords)) {
      return Fail(ExitCode::kUsage, NoneOf(word, kActivityWords));
    }
    activities.cuda = activities.cuda || word == "cuda";
  }
  activities.system = SystemActivities::FromText(text);
  return activities;
}

absl::StatusOr<std::vector<const Format*>> ChooseFormats(const RecordArguments& arguments) {
  absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.formats);
  if (!formats.ok()) return formats.status();
  const RecordOptions& options = arguments.options;
  for (const Format* format : *formats) {
    const bool lacks_memory = format->needs == FormatNeeds::kMemory && !options.plan.profile_memory;
    const bool lacks_samples =
        format->needs == FormatNeeds::kSamples && !options.sample_period_ns.has_value();
    if (!lacks_memory && !lacks_samples) continue;
    return Fail(ExitCode::kUsage, "--format " + std::string(format->name) + " needs " +
                                      (lacks_memory ? "--profile-memory" : "--sample"));
  }
  return formats;
}

absl::Status ParseMetadata(const RecordArguments& arguments, RecordingInfo* info) {
  absl::Status status = ParsePairs(arguments.metadata, &info->metadata);
  status.Update(ParsePairs(arguments.metadata_json, &info->metadata_json));
  if (!status.ok()) return status;
  for (const auto& [key, text] : info->metadata_json) {
    if (HasKey(info->metadata, key)) {
      return Fail(ExitCode::kUsage,
                  "--metadata and --metadata-json both give '" + key + "': give it once");
    }
    if (!ParseJson(text).has_value()) {
      return Fail(ExitCode::kUsage, "--metadata-json " + key + ": '" + text + "' is not JSON");
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyTestSwitches(std::string_view words, RecordOptions* options) {
  constexpr std::string_view kLossThreads = "loss-threads=";
  for (const std::string_view word : SplitText(words, ",", /*skip_empty=*/true)) {
    std::optional<uint32_t> threads;
    if (word.starts_with(kLossThreads)) {
      threads = ParseNumber<uint32_t>(word.substr(kLossThreads.size()));
    }
    if (threads.has_value()) {
      options->bpf.loss_threads = *threads;
    } else if (word == "empty-program") {
      options->bpf.empty_program = true;
    } else if (word == "trace-events") {
      options->bpf.first_api = UprobeApi::kTrace;
    } else if (word == "perf-links") {
      options->bpf.first_api = UprobeApi::kPerf;
    } else if (word == "links-for-all") {
      options->bpf.force_links_for_all = true;
    } else if (word == "keep-counting") {
      options->keeps_counting = true;
    } else if (word == "no-known-plans") {
      options->plan.uses_known_plans = false;
    } else {
      return Fail(ExitCode::kUsage, std::string(kTestSwitches) + ": there is no switch '" +
                                        std::string(word) + "'; unset it, it is for tests");
    }
  }
  return absl::OkStatus();
}

absl::Status CompleteOptions(RecordArguments* arguments, bool has_command) {
  RecordOptions& options = arguments->options;
  if (arguments->activities.has_value()) options.info.system = arguments->activities->system;
  // Floating-point operations are computed from shapes.
  options.plan.record_shapes = options.plan.record_shapes || options.info.with_flops;
  options.bpf.with_stack = options.bpf.with_stack || options.bpf.with_modules;
  options.bpf.record_shapes = options.plan.record_shapes;
  options.bpf.has_budget = options.max_overhead_percent.has_value();
  options.plan.cache_directory = CacheDirectory();
  options.info.proftrace_version = kVersion;
  absl::Status status = CheckTargets(*arguments, has_command);
  if (status.ok()) status = CheckOperators(*arguments);
  if (status.ok()) status = CompleteTier(arguments);
  if (status.ok()) status = CompleteSteps(arguments);
  if (status.ok()) status = ParseMetadata(*arguments, &options.info);
  if (!status.ok()) return status;
  if (arguments->json && arguments->output == "-") {
    return Fail(ExitCode::kUsage,
                "--json and -o - cannot both have the standard output; give -o FILE.tar");
  }
  if (options.samples_wakers && !options.info.system.sched) {
    return Fail(ExitCode::kUsage, "--waker-stacks needs sched in --activities");
  }
  const absl::StatusOr<CudaCalls> cuda_calls = ChooseCudaCalls(*arguments);
  if (!cuda_calls.ok()) return cuda_calls.status();
  options.plan.cuda_calls = *cuda_calls;
  options.agent = ChooseAgent(*arguments);
  const char* switches = std::getenv(kTestSwitches);
  return switches == nullptr ? absl::OkStatus() : ApplyTestSwitches(switches, &options);
}

}  // namespace proftrace
