#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "exporters/sinks/output_file.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"
#include "userspace/cli/clock_options.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/dump_merge.h"
#include "userspace/cli/merge_output.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/say.h"
#include "userspace/fleet/chrome_merge.h"
#include "userspace/fleet/fleet_merge.h"
#include "userspace/fleet/kineto_directory.h"
#include "userspace/fleet/perfetto_merge.h"
#include "userspace/fleet_sources/byte_source.h"
#include "userspace/fleet_sources/open_source.h"
#include "userspace/sandbox/confined.h"

namespace proftrace {
namespace {

struct MergeArguments {
  MergeOptions options;
  std::vector<std::string> inputs;
  std::string output;
  std::optional<int64_t> most_clock_error_ns;
  bool strict = false;
  bool salvage = false;
  bool json = false;
  ClockChoice clock;
  std::vector<std::string> of_recordings;  // options that were given and have no meaning for dumps
};

constexpr std::array<Choice<MergeLanes>, 3> kLanes = {
    {{"auto", MergeLanes::kAuto}, {"full", MergeLanes::kFull}, {"summary", MergeLanes::kSummary}}};

// Parses "3" or "5-7"; the first must not be above the last.
template <typename T>
std::optional<std::pair<T, T>> ParseRange(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = ParseNumber<T>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : ParseNumber<T>(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

absl::StatusOr<MergeEdge> ParseEdge(const std::string& text) {
  MergeEdge edge;
  edge.is_after_begin = text.starts_with("+");
  if (text == "+0" || text == "+0s") return edge;
  if (text.starts_with("/")) {
    return Fail(ExitCode::kUsage,
                "'" + text + "' is not a place on the timeline; write 2026-11-22T02:35:00Z or +5s");
  }
  const absl::StatusOr<int64_t> ns = ParseInstant(text, 0);
  if (!ns.ok()) return ns.status();
  edge.ns = *ns;
  return edge;
}

absl::StatusOr<std::vector<std::pair<int32_t, int32_t>>> ParseRanks(const std::string& text) {
  std::vector<std::pair<int32_t, int32_t>> ranks;
  for (const std::string_view part : SplitText(text, ",", false)) {
    const auto range = ParseRange<int32_t>(part);
    if (!range) return Fail(ExitCode::kUsage, "'" + text + "' is no list of ranks; write 0,5-7");
    ranks.push_back(*range);
  }
  return ranks;
}

absl::StatusOr<std::pair<int64_t, int64_t>> ParseSteps(const std::string& text) {
  const auto steps = ParseRange<int64_t>(text);
  if (!steps) return Fail(ExitCode::kUsage, "'" + text + "' are no steps; write 100-102");
  return *steps;
}

absl::StatusOr<std::vector<std::string>> ParseCategories(const std::string& text) {
  std::vector<std::string> categories;
  for (const std::string_view part : SplitText(text, ",", false)) {
    if (part.empty()) {
      return Fail(ExitCode::kUsage,
                  "'" + text + "' is no list of categories; write cpu_op,kernel,collective");
    }
    categories.emplace_back(part);
  }
  return categories;
}

absl::StatusOr<int64_t> ParseClockError(const std::string& text) {
  const absl::StatusOr<double> seconds = ParseDuration(text);
  if (!seconds.ok()) return seconds.status();
  return std::llround(*seconds * 1e9);
}

// Fails where two names stand for the same input, or where the output is one of the inputs.
absl::Status CheckFiles(const MergeArguments& arguments) {
  std::vector<std::pair<const std::string*, struct stat>> seen;
  for (const std::string& input : arguments.inputs) {
    struct stat facts {};
    if (stat(input.c_str(), &facts) != 0) {
      return Fail(ExitCode::kUsage, "cannot read " + input + ": " + ErrnoText(errno));
    }
    // Pipes and devices are refused, because inputs are read twice, and reading a pipe may wait for
    // a writer forever.
    if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
      return Fail(ExitCode::kUsage,
                  input + " is neither a file nor a directory; write it into a file first");
    }
    for (const auto& [name, other] : seen) {
      if (other.st_dev != facts.st_dev || other.st_ino != facts.st_ino) continue;
      return Fail(ExitCode::kInputsDisagree,
                  *name == input ? input + " is given twice; give it once"
                                 : *name + " and " + input + " are the same file; give it once");
    }
    seen.emplace_back(&input, facts);
  }
  struct stat output {};
  if (stat(arguments.output.c_str(), &output) != 0) return absl::OkStatus();
  for (const auto& [name, facts] : seen) {
    if (facts.st_dev != output.st_dev || facts.st_ino != output.st_ino) continue;
    return Fail(ExitCode::kUsage, arguments.output + " is one of the inputs; name another with -o");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FleetMerge>> Prepare(const MergeArguments& arguments,
                                                    const std::string& scratch) {
  SourceOptions source_options;
  source_options.salvage = arguments.salvage;
  source_options.scratch_directory = scratch;
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (const std::string& path : arguments.inputs) {
    absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> opened =
        OpenSources(path, source_options);
    if (!opened.ok()) return opened.status();
    for (std::unique_ptr<SourceInput>& input : *opened) inputs.push_back(std::move(input));
  }
  return FleetMerge::Prepare(std::move(inputs), arguments.options);
}

std::string ParentDirectory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status WriteFile(const std::string& output, MergeFormat format, FleetMerge& merge) {
  absl::StatusOr<OutputDirectory> directory = OutputDirectory::Open(ParentDirectory(output));
  if (!directory.ok()) return directory.status();
  absl::StatusOr<std::unique_ptr<ByteSink>> sink =
      directory->Create(std::filesystem::path(output).filename().string());
  if (!sink.ok()) return sink.status();
  absl::Status status;
  if (format == MergeFormat::kChrome) {
    status = merge.Write(*NewChromeMerge(**sink));
  } else {
    absl::StatusOr<GuardedFolder> scratch = directory->OpenScratch();
    if (!scratch.ok()) return scratch.status();
    status = merge.Write(*NewPerfettoMerge(**sink, *scratch));
  }
  return status.ok() ? (*sink)->Finish() : status;
}

absl::Status WriteDirectory(const std::string& path, FleetMerge& merge) {
  const absl::StatusOr<OutputDirectory> directory = OutputDirectory::Open(path);
  if (!directory.ok()) return directory.status();
  return merge.Write(*NewKinetoDirectory(*directory));
}

void SayMerged(const MergeArguments& arguments, const FleetMerge& merge) {
  for (const std::string& remark : merge.remarks()) Say("%s", remark.c_str());
  for (const std::string& finding : merge.clock().findings) Say("%s", finding.c_str());
  const MergeCounts& counts = merge.counts();
  Say("%s", merge.clock().Line().c_str());
  Say("events: %llu in = %llu out + %llu filtered + %llu refused; %llu rows added",
      static_cast<unsigned long long>(counts.in), static_cast<unsigned long long>(counts.out),
      static_cast<unsigned long long>(counts.filtered),
      static_cast<unsigned long long>(counts.refused),
      static_cast<unsigned long long>(counts.added));
  Say("merged %s and %zu collectives into %s%s",
      OneOrMore(merge.joined().processes.size(), "process", "processes").c_str(),
      merge.collectives().size(), arguments.output.c_str(),
      merge.is_summary() ? " (--lanes summary; all rows with --lanes full)" : "");
}

absl::Status CheckClockError(const MergeArguments& arguments, const ClockStatement& clock) {
  const std::optional<int64_t> most_ns = arguments.most_clock_error_ns;
  if (!most_ns) return absl::OkStatus();
  std::string problem;
  if (!clock.not_aligned.empty()) {
    problem = clock.not_aligned.front() + " is not aligned";
  } else if (clock.hosts > 1 && !clock.worst_bound_ns) {
    problem = "no bound of the clocks' error is proved";
  } else if (clock.worst_bound_ns.value_or(0) > *most_ns) {
    problem = "the clocks are proved to " + PlusMinus(*clock.worst_bound_ns) + " only";
  }
  if (problem.empty()) return absl::OkStatus();
  problem += ", and --max-clock-error asks for " + PlusMinus(*most_ns);
  if (arguments.strict) return Fail(ExitCode::kEventsLost, problem);
  Say("%s", problem.c_str());
  return absl::OkStatus();
}

absl::Status MergeDumps(const MergeArguments& arguments) {
  if (!arguments.of_recordings.empty()) {
    return Fail(ExitCode::kUsage, arguments.of_recordings.front() +
                                      " is of recordings; a merge of dumps takes -o and --json");
  }
  const bool as_json = arguments.json || !arguments.output.empty();
  const absl::StatusOr<JobDumps> all = ReadDumps(arguments.inputs, !as_json);
  return all.ok() ? WriteDumps(*all, arguments.output, as_json) : all.status();
}

// Merges dumps and prints the result. Fails for recordings, whose merge needs an output.
absl::Status MergeToStandardOutput(const MergeArguments& arguments) {
  const absl::StatusOr<bool> are_dumps = AreDumps(arguments.inputs);
  if (!are_dumps.ok()) return are_dumps.status();
  if (*are_dumps) return MergeDumps(arguments);
  return Fail(ExitCode::kUsage,
              "name the output with -o: job.pftrace.gz, job.json.gz, or a new directory");
}

// Merges into `place`: the output, or the temporary directory that becomes the output when all is
// written.
absl::Status MergeInto(const MergeArguments& arguments, const std::string& place) {
  const absl::StatusOr<bool> are_dumps = AreDumps(arguments.inputs);
  if (!are_dumps.ok()) return are_dumps.status();
  if (*are_dumps) return MergeDumps(arguments);
  const MergeFormat format = MergeFormatOf(arguments.output);
  const bool is_directory = format == MergeFormat::kDirectory;
  MergeArguments with_clock = arguments;
  if (absl::Status status = ReadClock(with_clock.clock, &with_clock.options.clock); !status.ok())
    return status;
  auto merge = Prepare(with_clock, is_directory ? place : ParentDirectory(place));
  if (!merge.ok()) return merge.status();
  absl::Status status =
      is_directory ? WriteDirectory(place, **merge) : WriteFile(place, format, **merge);
  if (!status.ok()) return status;
  if (arguments.json) {
    PrintDocument(nlohmann::json::parse((*merge)->SummaryJson()));
  } else {
    SayMerged(arguments, **merge);
  }
  return CheckClockError(arguments, (*merge)->clock());
}

absl::Status RunMerge(MergeArguments arguments) {
  if (absl::Status status = CheckFiles(arguments); !status.ok()) return status;
  if (arguments.output.empty()) {
    return RunConfined(OfReport(arguments.inputs), [&] {
      EndBySignals();
      return MergeToStandardOutput(arguments);
    });
  }
  MergeOptions& options = arguments.options;
  options.one_file_a_rank = MergeFormatOf(arguments.output) == MergeFormat::kDirectory;
  if (options.one_file_a_rank) options.lanes = MergeLanes::kFull;
  const auto merge_into = [&](const std::string& place) {
    std::vector<std::string> reads = arguments.inputs;
    if (!arguments.clock.path.empty()) reads.push_back(arguments.clock.path);
    return RunConfined(OfExport(reads, place), [&] {
      EndBySignals();
      return MergeInto(arguments, place);
    });
  };
  if (MergeFormatOf(arguments.output) != MergeFormat::kDirectory) {
    return merge_into(arguments.output);
  }
  return WithNewDirectory(arguments.output, merge_into);
}

// Adds the options that choose rows.
void AddRowChoices(CLI::App* command, MergeOptions* options) {
  AddParsed(command, "--ranks", "LIST", &options->ranks, ParseRanks,
            "keeps only rows of these ranks, for example 0,5-7");
  AddParsed(
      command, "--steps", "A-B", &options->steps, ParseSteps,
      "keeps only rows of these steps, for example 100-102, by the ProfilerStep rows of each rank");
  AddParsed(command, "--from", "INSTANT", &options->from, ParseEdge,
            "keeps only rows from this moment on: 2026-11-22T02:35:00Z, or +5s, which is 5 s after "
            "the first row");
  AddParsed(command, "--to", "INSTANT", &options->until, ParseEdge,
            "keeps only rows until this moment, written as for --from");
  AddParsed(command, "--categories", "LIST", &options->categories, ParseCategories,
            "keeps only rows of these categories, as they stand in \"cat\", for example "
            "cpu_op,kernel,collective. The merge itself adds collective, collective_wait, "
            "gpu_busy, phase and late_cause");
  AddChoice(command, "--lanes", &options->lanes, kLanes,
            "how much of each rank is shown. full: all rows; summary: only steps, annotations, "
            "phases, collectives, what late ranks did, and when GPUs were busy; auto: summary for "
            "more than 16 ranks, else full");
}

}  // namespace

void AddMergeCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<MergeArguments>();
  MergeOptions* options = &arguments->options;
  CLI::App* command = app.add_subcommand(
      "merge",
      "Put recordings of many ranks, hosts and profilers on one timeline and one clock, and state "
      "the clock's error. Or put the dumps of several hosts together, and name the ranks that a "
      "hanging job waits for. Without root, on any machine.\n"
      "Example: proftrace merge rank*/ -o job.pftrace.gz\n"
      "Example: proftrace merge node1.json node2.json");
  command->footer("INPUT... [-o PATH] [OPTIONS]");
  command
      ->add_option("INPUT", arguments->inputs,
                   "result directories, .ptrec files, traces of torch.profiler (.json, .json.gz), "
                   "of DFTracer (.pfw, .pfw.gz), of Nsight Systems (.sqlite); or documents of "
                   "'proftrace dump --json', which are printed as one without -o")
      ->required();
  command
      ->add_option(
          "-o,--output", arguments->output,
          ".json or .json.gz: Chrome's format; .pftrace or .pftrace.gz: Perfetto's; any "
          "other name: a new directory of one corrected file a rank, for HTA and TraceLens")
      ->type_name("PATH");
  AddClockOptions(command, &arguments->clock, &options->clock);
  AddParsed(command, "--max-clock-error", "TIME", &arguments->most_clock_error_ns, ParseClockError,
            "the largest error of the clocks that is acceptable, for example 1ms. Where the proved "
            "bound of the error is larger a message says so, and with --strict the exit code is 9");
  command->add_flag("--strict", arguments->strict,
                    "ends with exit code 9 where --max-clock-error is not met");
  command
      ->add_option("--rank-of", options->rank_of,
                   "for files that do not tell their rank: a regular expression that finds it in "
                   "their path, for example 'rank_(?P<rank>[0-9]+)'")
      ->type_name("REGEX");
  AddRowChoices(command, options);
  command->add_flag("--salvage", arguments->salvage, "takes the undamaged part of damaged inputs");
  command->add_flag("--json", arguments->json, "prints what was merged as one JSON document");
  command->callback([command, arguments, action] {
    for (const CLI::Option* option : command->get_options()) {
      const std::string name = option->get_name();
      if (option->count() > 0 && name != "INPUT" && name != "--output" && name != "--json") {
        arguments->of_recordings.push_back(name);
      }
    }
    *action = [arguments] { return RunMerge(*arguments); };
  });
}

}  // namespace proftrace
