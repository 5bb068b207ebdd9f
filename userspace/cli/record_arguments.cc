#include "userspace/cli/record_arguments.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "exporters/args/recording_json.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/cli/parse.h"

namespace proftrace {
namespace {

constexpr std::string_view kActivities[] = {"cpu", "cuda", "syscalls", "io", "sched", "faults"};

bool HasActivity(std::string_view list, std::string_view name) {
  const std::vector<std::string_view> parts = SplitText(list, ",", /*skip_empty=*/true);
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

using TextPairs = std::vector<std::pair<std::string, std::string>>;

bool HasKey(const TextPairs& pairs, const std::string& key) {
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const auto& other) { return other.first == key; });
}

// The last one of a key counts, as in torch.
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

}  // namespace

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

absl::StatusOr<CudaCalls> ChooseCudaCalls(const RecordArguments& arguments) {
  const std::optional<std::string>& activities = arguments.activities;
  if (arguments.gpu != "auto" && arguments.gpu != "agent" && arguments.gpu != "launch" &&
      arguments.gpu != "off") {
    return Fail(ExitCode::kUsage,
                "--gpu " + arguments.gpu + ": it is 'auto', 'agent', 'launch' or 'off'");
  }
  if (arguments.gpu == "agent" && arguments.no_inject) {
    return Fail(ExitCode::kUsage, "--gpu agent and --no-inject exclude each other");
  }
  const bool asks_for_cuda = activities && HasActivity(*activities, "cuda");
  const bool has_cpu = !activities || HasActivity(*activities, "cpu");
  if (!has_cpu && (asks_for_cuda || arguments.gpu == "agent" || arguments.gpu == "launch")) {
    return Fail(ExitCode::kUsage,
                "activity of GPUs is recorded with that of operators: give "
                "--activities cpu,cuda");
  }
  if (asks_for_cuda && arguments.gpu == "off") {
    return Fail(ExitCode::kUsage,
                "--activities " + *activities + " and --gpu off exclude each other");
  }
  if (has_cpu && (arguments.gpu == "launch" || arguments.gpu == "agent") && activities &&
      !asks_for_cuda) {
    return Fail(ExitCode::kUsage,
                "--activities cpu and --gpu " + arguments.gpu + " exclude each other");
  }
  if (asks_for_cuda || arguments.gpu == "launch") return CudaCalls::kAlways;
  return activities || arguments.gpu == "off" ? CudaCalls::kNever : CudaCalls::kWhereUsed;
}

absl::Status ParseActivities(const RecordArguments& arguments, RecordOptions* options) {
  if (!arguments.activities.has_value()) return absl::OkStatus();
  for (const std::string_view name : SplitText(*arguments.activities, ",", /*skip_empty=*/false)) {
    if (std::find(std::begin(kActivities), std::end(kActivities), name) == std::end(kActivities)) {
      return Fail(ExitCode::kUsage, "--activities " + *arguments.activities +
                                        ": it is a list of cpu, cuda, syscalls, io, sched, faults");
    }
  }
  options->info.system = SystemActivities::FromText(*arguments.activities);
  if (options->info.system.operators) return absl::OkStatus();
  for (const auto& [is_set, name] : {std::pair(arguments.steps.has_value(), "--steps"),
                                     std::pair(arguments.schedule.has_value(), "--schedule"),
                                     std::pair(arguments.record_shapes, "--record-shapes"),
                                     std::pair(arguments.with_flops, "--with-flops"),
                                     std::pair(arguments.profile_memory, "--profile-memory"),
                                     std::pair(arguments.with_stack, "--with-stack"),
                                     std::pair(arguments.with_modules, "--with-modules"),
                                     std::pair(arguments.python_gc, "--python-gc"),
                                     std::pair(arguments.sample.has_value(), "--sample")}) {
    if (!is_set) continue;
    return Fail(ExitCode::kUsage, std::string(name) + " needs operators: give --activities cpu," +
                                      *arguments.activities);
  }
  return absl::OkStatus();
}

absl::Status ParseBudget(const RecordArguments& arguments, RecordOptions* options) {
  if (!arguments.max_overhead.has_value()) return absl::OkStatus();
  const absl::StatusOr<double> percent = ParsePercent(*arguments.max_overhead);
  if (!percent.ok()) {
    return Fail(ExitCode::kUsage, "--max-overhead: " + std::string(percent.status().message()));
  }
  if (!options->info.system.operators) {
    return Fail(ExitCode::kUsage,
                "--max-overhead is kept by counting operators: give --activities cpu," +
                    *arguments.activities);
  }
  options->max_overhead_percent = *percent;
  options->keeps_counting = arguments.keep_counting;
  options->bpf.has_budget = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<AgentOptions>> ChooseAgent(const RecordArguments& arguments,
                                                        CudaCalls cuda_calls) {
  const bool is_asked = arguments.gpu == "agent";
  if (cuda_calls == CudaCalls::kNever || arguments.no_inject ||
      (!is_asked && arguments.gpu != "auto")) {
    return std::nullopt;
  }
  std::string library = FindAgentLibrary();
  if (!library.empty()) return AgentOptions{std::move(library), is_asked};
  if (!is_asked) return std::nullopt;
  return Fail(
      ExitCode::kHostUnfit,
      "--gpu agent: there is no libproftrace_agent.so beside this program (it is built where "
      "CUPTI's headers are found); --gpu launch needs none");
}

}  // namespace proftrace
