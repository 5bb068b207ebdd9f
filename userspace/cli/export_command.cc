#include <cstdio>
#include <filesystem>
#include <memory>

#include "exporters/escape.h"
#include "exporters/formats.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/results.h"

namespace proftrace {
namespace {

struct ExportArguments {
  std::string capture;
  std::string format;
  std::string output;
  std::string metric = "self_cpu_time_total";
  std::string sort_by = "self_cpu_time_total";
  bool step_rows = false;
  bool salvage = false;
};

// Where to: a directory and the name in it. Nothing given: the standard name in the current
// directory.
struct Place {
  std::string directory;
  std::string name;
};

Place FindPlace(const std::string& output, const Format& format, const Timeline& timeline) {
  const std::string standard = DefaultFileName(format, timeline);
  std::error_code error;
  if (output.empty()) return Place{".", standard};
  if (std::filesystem::is_directory(output, error)) return Place{output, standard};
  const std::filesystem::path path(output);
  const std::string parent = path.parent_path().string();
  return Place{parent.empty() ? "." : parent, path.filename().string()};
}

// What weights folded stacks: torch's export_stacks(metric=…), or the number of rows.
absl::Status ApplyMetric(const std::string& metric, std::vector<const Format*>* formats) {
  if (metric == "self_cpu_time_total") return absl::OkStatus();
  const bool is_device = metric == "self_cuda_time_total" || metric == "self_device_time_total";
  if (!is_device && metric != "count") {
    return Fail(ExitCode::kUsage,
                "unknown metric \"" + TableText(metric) +
                    "\"; valid are: self_cpu_time_total, self_cuda_time_total, count");
  }
  const absl::StatusOr<const Format*> by_metric =
      FindFormat(is_device ? "folded-cuda" : "folded-count");
  if (!by_metric.ok()) return by_metric.status();
  for (const Format*& format : *formats) {
    if (format->name == "folded") format = *by_metric;
  }
  return absl::OkStatus();
}

absl::Status RunExport(const ExportArguments& arguments) {
  absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.format);
  if (!formats.ok()) return formats.status();
  if (absl::Status status = ApplyMetric(arguments.metric, &*formats); !status.ok()) return status;
  std::error_code error;
  if (formats->size() > 1 && !arguments.output.empty() &&
      !std::filesystem::is_directory(arguments.output, error)) {
    return Fail(ExitCode::kUsage, "several formats need a directory that exists after -o");
  }
  TableOptions table;
  table.sort_by = arguments.sort_by;
  if (absl::Status status = CheckTableOptions(table); !status.ok()) return status;
  AggregateOptions options;
  options.step_rows = arguments.step_rows;
  absl::StatusOr<Results> results = LoadResults(arguments.capture, arguments.salvage, options);
  if (!results.ok()) return results.status();
  const ExportInput input{*results->timeline, results->aggregates, table};
  for (const Format* format : *formats) {
    const Place place = FindPlace(arguments.output, *format, *results->timeline);
    absl::StatusOr<OutputDirectory> directory =
        OutputDirectory::Open(place.directory, OwnerFromSudo());
    if (!directory.ok()) return directory.status();
    if (absl::Status status = Export(*format, input, *directory, place.name); !status.ok()) {
      return status;
    }
    std::fprintf(stderr, "proftrace: wrote %s/%s\n", place.directory.c_str(), place.name.c_str());
  }
  if (results->damage.empty()) return absl::OkStatus();
  return Fail(ExitCode::kInputDamaged, arguments.capture + " is damaged: " + results->damage +
                                           "; what is whole was exported");
}

}  // namespace

void AddExportCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      app.add_subcommand("export",
                         "Write a recording in another format, without root, on any machine.\n"
                         "Example: proftrace export result --format events-csv -o events.csv.gz");
  command->add_option("capture", arguments->capture, "result directory or .ptrec file")->required();
  std::string names;
  for (const Format& format : Formats()) {
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  command->add_option("--format", arguments->format, "one or several of: " + names)->required();
  command->add_option("-o,--output", arguments->output,
                      "file or directory; a name that ends in .gz is compressed");
  command
      ->add_option("--metric", arguments->metric,
                   "of folded stacks: self_cpu_time_total, self_cuda_time_total or count")
      ->capture_default_str();
  command->add_option("--sort-by", arguments->sort_by, "of the table")->capture_default_str();
  command->add_flag("--step-rows", arguments->step_rows,
                    "the job's steps as ProfilerStep#N rows, also where none were asked for");
  command->add_flag("--salvage", arguments->salvage, "take what is whole of a damaged capture");
  command->callback(
      [arguments, action] { *action = [arguments] { return RunExport(*arguments); }; });
}

}  // namespace proftrace
