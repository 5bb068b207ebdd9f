#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporters/formats.h"
#include "exporters/memory/memory_timeline.h"
#include "exporters/stacks/flamegraph_html.h"
#include "userspace/aggregate/stack_diff.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/base/shown_text.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/events.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/results.h"
#include "userspace/cli/say.h"
#include "userspace/cli/view_options.h"

namespace proftrace {
namespace {

constexpr char kStandardOutput[] = "/dev/stdout";

struct ExportArguments {
  std::string capture;
  std::string format;
  std::string output;
  std::string metric = "self_cpu_time_total";
  std::string diff;
  std::string sort_by = "self_cpu_time_total";
  std::string device;
  KeyAveragesOptions grouping;
  ProcessChoice processes;
  bool step_rows = false;
  bool cuda_sync_events = false;
  bool salvage = false;
  bool csv_exact = false;
  bool json = false;
  // Open descriptors of the capture and of the directory for its outputs. `capture` and `output`
  // are only for messages then.
  std::vector<int> as_recorded;
};

absl::StatusOr<StackWeight> ParseMetric(const std::string& metric) {
  const StackWeightInfo* info = FindStackWeight(metric);
  if (info != nullptr) return info->weight;
  std::vector<std::string_view> names;
  for (const StackWeightInfo& known : StackWeights()) names.push_back(known.name);
  return Fail(ExitCode::kUsage, "--metric: " + NoneOf(metric, names));
}

absl::Status CheckDiffFormats(const std::vector<const Format*>& formats) {
  for (const Format* format : formats) {
    if (format->compares) continue;
    std::string names;
    for (const Format& one : Formats()) {
      if (one.compares) names += (names.empty() ? "" : ", ") + std::string(one.name);
    }
    return Fail(ExitCode::kUsage, "--diff does not go with the format " +
                                      std::string(format->name) + "; it goes with: " + names);
  }
  return absl::OkStatus();
}

// Returns the earlier recording as the comparison for these stacks. `damage` receives that
// recording's damage.
absl::StatusOr<std::unique_ptr<Comparison>> Compare(const ExportArguments& arguments,
                                                    StackWeight metric, const FoldedStacks& stacks,
                                                    std::string* damage) {
  // Only the rank is used, because another run has other PIDs but the same ranks.
  ProcessChoice processes;
  processes.rank = arguments.processes.rank;
  absl::StatusOr<Results> before = LoadResults(arguments.diff, arguments.salvage, {}, processes);
  if (!before.ok()) return before.status();
  *damage = before->damage;
  if (const auto values = RecordedValues(before->aggregates.stacks, metric); !values.ok()) {
    return OfCapture(
        Fail(ExitCode::kUsage, arguments.diff + ": " + std::string(values.status().message())),
        arguments.diff, *damage);
  }
  auto comparison = std::make_unique<Comparison>();
  comparison->before = WordsOf(*before->timeline, before->aggregates);
  comparison->diff = DiffStacks(before->aggregates.stacks, stacks);
  return comparison;
}

absl::Status DamageOf(const std::string& capture, const std::string& damage) {
  return Fail(ExitCode::kInputDamaged,
              capture + " is damaged: " + damage + "; what is whole was exported");
}

bool IsMemoryTimeline(const Format& format) { return format.name.starts_with("memory-timeline"); }

// Chooses the format of an output file, which can hold only one. For memory timelines the file's
// name tells the format, as in torch.
absl::Status TakeFormatOfFile(const ExportArguments& arguments,
                              std::vector<const Format*>* formats) {
  if (arguments.format == "memory-timeline") {
    const std::string& name = arguments.output;
    const absl::StatusOr<const Format*> format =
        FindFormat(name.ends_with(".html")         ? "memory-timeline-html"
                   : name.ends_with("raw.json.gz") ? "memory-timeline-raw"
                                                   : "memory-timeline");
    if (!format.ok()) return format.status();
    *formats = {*format};
  }
  if (formats->size() <= 1) return absl::OkStatus();
  return Fail(ExitCode::kUsage, "several formats need a directory that exists after -o");
}

// Fails where the output is one of the captures, which would be lost.
absl::Status CheckIsNoInput(const ExportArguments& arguments) {
  struct stat output {};
  if (arguments.output.empty() || stat(arguments.output.c_str(), &output) != 0) {
    return absl::OkStatus();
  }
  for (const std::string* capture : {&arguments.capture, &arguments.diff}) {
    for (const std::string& file : {*capture, *capture + "/capture.ptrec"}) {
      struct stat input {};
      if (stat(file.c_str(), &input) != 0 || S_ISDIR(input.st_mode)) continue;
      if (input.st_dev != output.st_dev || input.st_ino != output.st_ino) continue;
      return Fail(ExitCode::kUsage, arguments.output + " is the capture " + *capture +
                                        " itself; name another file with -o");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const ExportArguments& arguments,
                          const std::vector<const Format*>& formats) {
  if (arguments.json && arguments.output == kStandardOutput) {
    return Fail(ExitCode::kUsage,
                "--json and the export cannot both have the standard output; name a file with -o");
  }
  const auto has = [&formats](const auto& is_wanted) {
    return std::any_of(formats.begin(), formats.end(),
                       [&](const Format* format) { return is_wanted(*format); });
  };
  if (!arguments.diff.empty()) {
    if (absl::Status status = CheckDiffFormats(formats); !status.ok()) return status;
  }
  const auto groups = [](const Format& format) {
    return format.name == "table" || format.name == "csv" || format.name == "sqlite";
  };
  if (IsGrouped(arguments.grouping) && !has(groups)) {
    return Fail(
        ExitCode::kUsage,
        "--group-by-input-shape, --group-by-stack-n and --group-by-overload-name are for the "
        "formats table, csv and sqlite; add one of them to --format, or leave these options out");
  }
  if (!arguments.device.empty() && !has(IsMemoryTimeline)) {
    return Fail(ExitCode::kUsage, "--device is for the format memory-timeline");
  }
  return absl::OkStatus();
}

// Writes a format to the given file or directory, or into the current directory where none was
// given.
absl::Status WriteFormat(const ExportArguments& arguments, const Format& format, bool is_to_file,
                         const ExportInput& input) {
  std::string place = arguments.output.empty() ? "." : arguments.output;
  std::vector<FormatFile> files;
  if (is_to_file) {
    const std::filesystem::path path(arguments.output);
    const std::string parent = path.parent_path().string();
    place = parent.empty() ? "." : parent;
    files.push_back({path.filename().string()});
  } else {
    files = FilesOf(format, input.timeline, input.metric, arguments.processes.rank);
  }
  absl::StatusOr<OutputDirectory> directory = OutputDirectory::Open(place);
  if (!directory.ok()) return directory.status();
  std::string note;
  if (IsMemoryTimeline(format)) note = MemoryTimelineNote(input.timeline, input.memory_device);
  if (!note.empty()) note = ": " + note;
  for (const FormatFile& file : files) {
    ExportInput of_file = input;
    of_file.rank = file.rank;
    if (absl::Status status = Export(format, of_file, *directory, file.name); !status.ok()) {
      return status;
    }
    Say("wrote %s/%s%s", place.c_str(), file.name.c_str(), note.c_str());
    if (arguments.json) {
      WriteEvent(
          {{"event", "written"}, {"format", format.name}, {"file", place + "/" + file.name}});
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFormats(const ExportArguments& arguments,
                          const std::vector<const Format*>& formats, StackWeight metric,
                          bool is_to_file, const TableOptions& table, const Results& results) {
  if (absl::Status status = CheckGrouping(arguments.grouping, *results.timeline); !status.ok()) {
    return status;
  }
  ExportInput input{*results.timeline, results.aggregates, table};
  input.metric = metric;
  input.memory_device = arguments.device;
  if (arguments.csv_exact) input.csv_text = CsvText::kExact;
  std::unique_ptr<Comparison> comparison;
  std::string diff_damage;
  if (!arguments.diff.empty()) {
    absl::StatusOr<std::unique_ptr<Comparison>> compared =
        Compare(arguments, metric, results.aggregates.stacks, &diff_damage);
    if (!compared.ok()) return compared.status();
    comparison = *std::move(compared);
    input.comparison = comparison.get();
  }
  absl::Status all;
  std::set<std::string> told;
  for (const Format* format : formats) {
    absl::Status status = OfCapture(WriteFormat(arguments, *format, is_to_file, input),
                                    arguments.capture, results.damage);
    if (!status.ok() && formats.size() > 1) {
      // The other formats are still written after an error.
      const auto [message, is_new] = told.insert(ShownText(std::string(status.message())));
      if (is_new) Say("%s", message->c_str());
      status = Told(std::move(status));
    }
    all.Update(std::move(status));
  }
  if (!all.ok()) return all;
  if (!results.damage.empty()) return DamageOf(arguments.capture, results.damage);
  if (!diff_damage.empty()) return DamageOf(arguments.diff, diff_damage);
  return absl::OkStatus();
}

// Writes the outputs of a flight recorder's dump, using descriptors only. Fails with kEventsLost
// where events were lost.
absl::Status ExportAsRecorded(const ExportArguments& arguments) {
  if (arguments.as_recorded.size() != 2)
    return Fail(ExitCode::kUsage, "two descriptors are needed");
  const absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.format);
  if (!formats.ok()) return formats.status();
  const absl::StatusOr<OutputDirectory> directory =
      OutputDirectory::OfDescriptor(arguments.as_recorded[1], arguments.output);
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
      CaptureReader::OpenFile(arguments.as_recorded[0], arguments.capture, {});
  if (!reader.ok()) return reader.status();
  const std::string spill = GuardedFolder::kDescriptors + std::to_string(arguments.as_recorded[1]);
  const absl::StatusOr<Results> results = LoadResults(reader->get(), spill, AggregateOptions());
  if (!results.ok()) return results.status();
  TableOptions table;
  table.sort_by = arguments.sort_by;
  const auto written = WriteResults(*results, *formats, table, *directory);
  if (!written.ok()) return written.status();
  if (absl::Status all = CheckWritten(*written, arguments.capture); !all.ok()) return all;
  if (!results->timeline->any_loss()) return absl::OkStatus();
  return Told(Fail(ExitCode::kEventsLost, "events were lost"));
}

absl::Status RunExport(const ExportArguments& arguments) {
  std::error_code error;
  const bool is_to_file =
      !arguments.output.empty() && !std::filesystem::is_directory(arguments.output, error);
  absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.format);
  if (!formats.ok()) return formats.status();
  const absl::StatusOr<StackWeight> metric = ParseMetric(arguments.metric);
  if (!metric.ok()) return metric.status();
  if (absl::Status status = CheckOptions(arguments, *formats); !status.ok()) return status;
  if (absl::Status status = CheckIsNoInput(arguments); !status.ok()) return status;
  if (is_to_file) {
    if (absl::Status status = TakeFormatOfFile(arguments, &*formats); !status.ok()) return status;
  }
  TableOptions table;
  table.sort_by = arguments.sort_by;
  if (absl::Status status = CheckTableOptions(table); !status.ok()) return status;
  AggregateOptions options;
  options.step_rows = arguments.step_rows;
  options.cuda_sync_rows = arguments.cuda_sync_events;
  options.key_averages = arguments.grouping;
  absl::StatusOr<Results> results =
      LoadResults(arguments.capture, arguments.salvage, options, arguments.processes);
  if (!results.ok()) return results.status();
  return OfCapture(WriteFormats(arguments, *formats, *metric, is_to_file, table, *results),
                   arguments.capture, results->damage);
}

void AddExportOptions(CLI::App* command, ExportArguments* arguments) {
  command->add_option("CAPTURE", arguments->capture, "result directory or .ptrec file")->required();
  std::string names;
  for (const Format& format : Formats()) {
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  command->add_option("--format", arguments->format, "one or several of: " + names)
      ->type_name("LIST")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "the file or directory to write; - for standard output. A name that ends in .gz "
                   "is compressed. For memory-timeline the ending .html, .raw.json.gz or .json "
                   "chooses the form, as in torch")
      ->type_name("PATH");
  command
      ->add_option(
          "--metric", arguments->metric,
          "what the width of a frame is. Folded stacks have only this one; flame graphs, "
          "speedscope and pprof have all that were recorded, and show this one first. One of: " +
              StackWeightNames() +
              ". The metrics of memory count allocated bytes, whether they were freed later or "
              "not. cpu_time_total is the same as self_cpu_time_total, because the width of a "
              "frame is its total")
      ->capture_default_str();
  command
      ->add_option("--diff", arguments->diff,
                   "compares with this earlier recording; for the formats flamegraph and "
                   "folded. Folded lines get two numbers, that of the earlier recording first")
      ->type_name("RESULT");
  command->add_option("--sort-by", arguments->sort_by, "sorts the table by this key")
      ->type_name("KEY")
      ->capture_default_str();
  command->add_option("--device", arguments->device,
                      "the device of memory timelines, for example cpu or cuda:0; by default the "
                      "first GPU, or the CPU where there is none");
  AddProcessOptions(command, &arguments->processes);
  AddGroupingOptions(command, &arguments->grouping);
  command->add_flag("--step-rows", arguments->step_rows,
                    "adds rows ProfilerStep#N of the job's steps, also where the recording was "
                    "made without --steps and --schedule");
  command->add_flag("--cuda-sync-events", arguments->cuda_sync_events,
                    "adds rows of waits for the GPU and of CUDA events to the formats chrome and "
                    "tensorboard, as torch's enable_cuda_sync_events does. HTA's critical path "
                    "needs them; HTA's breakdown of a GPU's time counts them as work");
  command->add_flag(
      "--csv-exact", arguments->csv_exact,
      "writes names into CSV exactly as they are. Without it a name that a spreadsheet would run "
      "as a formula (it begins with = + - @) gets an apostrophe in front");
  command->add_flag("--json", arguments->json,
                    "prints what is written on standard output, one JSON object a line");
  AddJsonSchema(command);
  command->add_flag("--salvage", arguments->salvage,
                    "takes the undamaged part of a damaged capture");
  // Only `record` uses this option, for a flight recorder's dumps, so that --help does not show it.
  // The exit code is 9 where events were lost.
  command->add_option("--as-recorded", arguments->as_recorded)->delimiter(',')->group("");
}

}  // namespace

void AddExportCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export",
                         "Write a recording in another format, without root, on any machine.\n"
                         "Example: proftrace export result --format events-csv -o events.csv.gz");
  AddExportOptions(command, arguments.get());
  command->callback([arguments, action] {
    if (arguments->output == "-") arguments->output = kStandardOutput;
    *action = [arguments] {
      if (!arguments->as_recorded.empty()) {
        return RunConfined(OfExport(arguments->as_recorded.back()),
                           [&] { return ExportAsRecorded(*arguments); });
      }
      std::vector<std::string> captures = {arguments->capture};
      if (!arguments->diff.empty()) captures.push_back(arguments->diff);
      return RunConfined(OfExport(captures, arguments->output),
                         [&] { return RunExport(*arguments); });
    };
  });
}

}  // namespace proftrace
