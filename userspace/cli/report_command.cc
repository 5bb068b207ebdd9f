#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporters/text/system_views.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/results.h"
#include "userspace/cli/say.h"
#include "userspace/cli/view_options.h"

namespace proftrace {
namespace {

struct ReportArguments {
  std::string capture;
  std::string sort_by = "self_cpu_time_total";
  int64_t row_limit = 100;
  int max_name_column_width = 55;
  int max_shapes_column_width = 80;
  int max_src_column_width = 75;
  TimeUnit time_unit = TimeUnit::kAuto;
  std::string header;
  KeyAveragesOptions grouping;
  ProcessChoice processes;
  bool step_rows = false;
  bool top_level_events_only = false;
  bool is_verbose = false;
  std::optional<SystemView> view;
  bool why = false;
  std::optional<std::string> compare;
  bool json = false;
  bool salvage = false;
};

// The value that stands for no limit, which is None in torch.
constexpr int kNoLimit = -1;

constexpr std::array<Choice<TimeUnit>, 4> kTimeUnits = {{{"auto", TimeUnit::kAuto},
                                                         {"us", TimeUnit::kMicroseconds},
                                                         {"ms", TimeUnit::kMilliseconds},
                                                         {"s", TimeUnit::kSeconds}}};

std::optional<int> WidthLimit(int width) {
  return width == kNoLimit ? std::nullopt : std::optional<int>(width);
}

absl::StatusOr<TableOptions> MakeTableOptions(const ReportArguments& arguments) {
  TableOptions table;
  table.sort_by = arguments.sort_by;
  table.row_limit = arguments.row_limit;
  table.max_name_column_width = WidthLimit(arguments.max_name_column_width);
  table.max_shapes_column_width = WidthLimit(arguments.max_shapes_column_width);
  table.max_src_column_width = WidthLimit(arguments.max_src_column_width);
  table.header = arguments.header;
  table.top_level_events_only = arguments.top_level_events_only;
  table.is_verbose = arguments.is_verbose;
  table.time_unit = arguments.time_unit;
  if (absl::Status status = CheckTableOptions(table); !status.ok()) return status;
  return table;
}

absl::Status PrintView(const Timeline& timeline, const ReportArguments& arguments) {
  StringSink sink;
  const SystemViewOptions options{*arguments.view, arguments.row_limit, arguments.json};
  absl::Status status = ExportSystemView(timeline, options, sink);
  return status.ok() ? PrintText(sink.text(), arguments.json) : status;
}

// Compares with an earlier recording. Only the rank selects its processes, because another run has
// other PIDs. `damage` receives the earlier recording's damage.
absl::Status CompareWith(const Results& after, const ReportArguments& arguments,
                         const AggregateOptions& options, std::string* damage) {
  ProcessChoice processes;
  processes.rank = arguments.processes.rank;
  absl::StatusOr<Results> before =
      LoadResults(*arguments.compare, arguments.salvage, options, processes);
  if (!before.ok()) return before.status();
  *damage = before->damage;
  return PrintComparison(*before, after, arguments.row_limit, arguments.json);
}

// Reports the damaged part of a recording, which could not be shown.
absl::Status DamageShown(const std::string& capture, const std::string& damage, bool is_json) {
  if (damage.empty()) return absl::OkStatus();
  absl::Status damaged = Fail(ExitCode::kInputDamaged,
                              capture + " is damaged: " + damage + "; what is whole was shown");
  if (!is_json) return damaged;
  // Standard output already has its one document, the rows, so that the error goes to standard
  // error.
  Say("%s", std::string(damaged.message()).c_str());
  return Told(std::move(damaged));
}

absl::Status RunReport(const ReportArguments& arguments) {
  absl::StatusOr<TableOptions> table = MakeTableOptions(arguments);
  if (!table.ok()) return table.status();
  AggregateOptions options;
  options.key_averages = arguments.grouping;
  options.step_rows = arguments.step_rows;
  absl::StatusOr<Results> results =
      LoadResults(arguments.capture, arguments.salvage, options, arguments.processes);
  if (!results.ok()) return results.status();
  std::string earlier_damage;
  absl::Status printed = CheckGrouping(arguments.grouping, *results->timeline);
  if (printed.ok()) {
    printed = arguments.compare.has_value()
                  ? CompareWith(*results, arguments, options, &earlier_damage)
              : arguments.why              ? PrintVerdict(*results, arguments.json)
              : arguments.view.has_value() ? PrintView(*results->timeline, arguments)
                                           : PrintTable(*results, *table, arguments.json);
  }
  if (!printed.ok()) return OfCapture(printed, arguments.capture, results->damage);
  absl::Status whole = DamageShown(arguments.capture, results->damage, arguments.json);
  if (!whole.ok()) return whole;
  return DamageShown(arguments.compare.value_or(""), earlier_damage, arguments.json);
}

// Adds the options of the table of key averages, which other views do not have.
std::vector<CLI::Option*> AddTableOptions(CLI::App* report, ReportArguments* arguments) {
  std::vector<CLI::Option*> options = {
      report
          ->add_option("--sort-by", arguments->sort_by,
                       "sorts by this key of torch's table(); '' leaves the rows in the order of "
                       "their first calls")
          ->type_name("KEY")
          ->capture_default_str(),
      report
          ->add_option("--max-name-column-width", arguments->max_name_column_width,
                       "the most characters; -1 = no limit")
          ->capture_default_str(),
      report
          ->add_option("--max-shapes-column-width", arguments->max_shapes_column_width,
                       "the most characters; -1 = no limit")
          ->capture_default_str(),
      report
          ->add_option("--max-src-column-width", arguments->max_src_column_width,
                       "the most characters; -1 = no limit")
          ->capture_default_str(),
      AddChoice(report, "--time-unit", &arguments->time_unit, kTimeUnits, "the unit of all times"),
      report->add_option("--header", arguments->header, "prints this line above the table"),
      report->add_flag("--step-rows", arguments->step_rows,
                       "adds the row ProfilerStep* of the job's steps, also where the recording "
                       "was made without --steps and --schedule"),
      report->add_flag("--top-level-events-only", arguments->top_level_events_only,
                       "shows only rows that no other row called"),
      report->add_flag("-v,--verbose", arguments->is_verbose,
                       "names each piece of code that is not recorded if it runs"),
  };
  for (CLI::Option* option : AddGroupingOptions(report, &arguments->grouping)) {
    options.push_back(option);
  }
  for (CLI::Option* option : options) option->group("Table of key averages");
  return options;
}

void AddViews(CLI::App* report, ReportArguments* arguments,
              const std::vector<CLI::Option*>& of_table) {
  std::vector<CLI::Option*> views;
  const auto keep_apart = [&](CLI::Option* option) {
    for (CLI::Option* other : views) option->excludes(other);
    for (CLI::Option* other : of_table) option->excludes(other);
    option->group("Instead of that table");
    views.push_back(option);
  };
  const auto add = [&](const char* name, SystemView view, const char* text) {
    keep_apart(report->add_flag_callback(
        name, [arguments, view] { arguments->view = view; }, text));
  };
  keep_apart(
      report->add_flag("--why", arguments->why,
                       "prints what makes steps take so long: the largest causes, with evidence"));
  keep_apart(report
                 ->add_option("--compare", arguments->compare,
                              "prints what got slower or faster than in this earlier recording, "
                              "a result directory or a .ptrec file")
                 ->type_name("RESULT"));
  add("--by-file", SystemView::kByFile,
      "prints I/O by file, pipe and socket (recorded by --activities syscalls or io)");
  add("--by-syscall", SystemView::kBySystemCall,
      "prints system calls by name (recorded by --activities syscalls or io)");
  add("--waits", SystemView::kWaits,
      "prints which thread waited for which other one (recorded by --activities sched)");
  add("--gpu-idle", SystemView::kGpuIdle,
      "prints why GPUs had nothing to do: what the threads that launch their work did meanwhile");
}

}  // namespace

void AddReportCommand(CLI::App& app, Action* action) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* report = app.add_subcommand(
      "report",
      "Print the table of key averages of a recording, without root, on any machine; or, with "
      "--why, what makes its steps take so long, with --compare, what changed since an earlier "
      "recording, with --by-file, --by-syscall and --waits, what "
      "the "
      "kernel did, with --gpu-idle, why GPUs were idle.\n"
      "Example: proftrace report result --sort-by cpu_time_total --row-limit 20");
  report->add_option("CAPTURE", arguments->capture, "result directory or .ptrec file")->required();
  report->add_option("--row-limit", arguments->row_limit, "the most rows; -1 = all")
      ->check(CLI::Range(int64_t{-1}, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
  const std::vector<CLI::Option*> of_table = AddTableOptions(report, arguments.get());
  AddViews(report, arguments.get(), of_table);
  AddProcessOptions(report, &arguments->processes);
  report->add_flag("--json", arguments->json, "prints the rows as JSON");
  AddJsonSchema(report);
  report->add_flag("--salvage", arguments->salvage,
                   "shows the undamaged part of a damaged capture");
  report->callback([arguments, action] {
    *action = [arguments] {
      std::vector<std::string> captures = {arguments->capture};
      if (arguments->compare.has_value()) captures.push_back(*arguments->compare);
      return RunConfined(OfReport(captures), [&] { return RunReport(*arguments); });
    };
  });
}

}  // namespace proftrace
