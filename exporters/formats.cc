#include "exporters/formats.h"

#include <algorithm>
#include <memory>
#include <set>

#include "exporters/args/distributed_info.h"
#include "exporters/memory/memory_timeline.h"
#include "exporters/memory/memory_viz.h"
#include "exporters/parquet/parquet_folder.h"
#include "exporters/report/report_html.h"
#include "exporters/sinks/escape.h"
#include "exporters/stacks/flamegraph_html.h"
#include "exporters/stacks/folded.h"
#include "exporters/stacks/pprof.h"
#include "exporters/stacks/speedscope.h"
#include "exporters/tables/csv.h"
#include "exporters/tables/sqlite.h"
#include "exporters/text/summary_json.h"
#include "exporters/traces/chrome_trace.h"
#include "exporters/traces/perfetto_trace.h"
#include "exporters/traces/pfw.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/nearest_word.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

absl::Status WriteTable(const ExportInput& input, ByteSink& sink) {
  return ExportTable(input.timeline, input.aggregates, input.table, sink);
}

absl::Status WriteKeyAveragesCsv(const ExportInput& input, ByteSink& sink) {
  return ExportKeyAveragesCsv(input.aggregates.key_averages, sink, input.csv_text);
}

absl::Status WriteChromeTrace(const ExportInput& input, ByteSink& sink) {
  return ExportChromeTrace(input.timeline, sink, input.aggregates.step_rows, input.rank,
                           input.aggregates.device_idle, input.aggregates.python_rows,
                           input.aggregates.cuda_sync_rows);
}

absl::Status WritePerfettoTrace(const ExportInput& input, ByteSink& sink) {
  return ExportPerfettoTrace(input.timeline, input.aggregates.step_rows,
                             input.aggregates.python_rows, sink);
}

absl::Status WriteEventsCsv(const ExportInput& input, ByteSink& sink) {
  return ExportEventsCsv(input.timeline, input.aggregates.steps, input.aggregates.step_rows, sink,
                         input.csv_text);
}

absl::Status WriteFolded(const ExportInput& input, ByteSink& sink) {
  if (input.comparison != nullptr) {
    return ExportFoldedDiff(input.comparison->diff, input.metric, sink);
  }
  return ExportFolded(input.aggregates.stacks, input.metric, sink);
}

absl::Status WriteFoldedCounts(const ExportInput& input, ByteSink& sink) {
  return ExportFolded(input.aggregates.stacks, StackWeight::kCount, sink);
}

absl::Status WriteGpuIdle(const ExportInput& input, ByteSink& sink) {
  if (!input.timeline.has_device_records()) {
    return Fail(ExitCode::kUsage, std::string(InfoOf(StackWeight::kSelfDeviceTime).missing));
  }
  return ExportGpuIdleCsv(input.timeline, input.aggregates.device_idle, sink, input.csv_text);
}

absl::Status WriteDataWaits(const ExportInput& input, ByteSink& sink) {
  if (!IsRecorded(FormatNeeds::kDataWaits, input.timeline)) {
    return Fail(ExitCode::kUsage,
                "no time off the CPU is in this recording; record with --activities "
                "cpu,syscalls,sched");
  }
  return ExportDataWaitsCsv(input.timeline, input.aggregates.data_waits, sink, input.csv_text);
}

absl::Status WriteDeviceFolded(const ExportInput& input, ByteSink& sink) {
  return ExportFolded(input.aggregates.stacks, StackWeight::kSelfDeviceTime, sink);
}

absl::Status WriteModules(const ExportInput& input, ByteSink& sink) {
  if (input.timeline.python_modules().empty()) {
    return Fail(ExitCode::kUsage,
                "no nn.Modules are in this recording; record with --with-modules");
  }
  if (!input.aggregates.python_rows.status().ok()) return input.aggregates.python_rows.status();
  return ExportModulesCsv(input.timeline, input.aggregates.modules, sink, input.csv_text);
}

absl::Status WriteSamples(const ExportInput& input, ByteSink& sink) {
  if (input.timeline.samples().empty()) {
    return Fail(ExitCode::kUsage, "no samples are in this recording; record with --sample 99Hz");
  }
  return ExportSamplesCsv(input.timeline, input.aggregates.step_rows, sink, input.csv_text);
}

absl::Status WritePfw(const ExportInput& input, ByteSink& sink) {
  if (!IsRecorded(FormatNeeds::kSystemCalls, input.timeline)) {
    return Fail(ExitCode::kUsage,
                "no system calls are in this recording; record with --activities syscalls or io");
  }
  return ExportPfw(input.timeline, sink);
}

absl::Status WriteSpeedscope(const ExportInput& input, ByteSink& sink) {
  return ExportSpeedscope(input.timeline, input.aggregates.stacks, input.metric, sink);
}

absl::Status WritePprof(const ExportInput& input, ByteSink& sink) {
  return ExportPprof(input.timeline, input.aggregates.stacks, input.metric, sink);
}

absl::Status WriteFlamegraph(const ExportInput& input, ByteSink& sink) {
  const RecordingWords words = WordsOf(input.timeline, input.aggregates);
  if (input.comparison != nullptr) {
    return ExportFlamegraphDiff(words, input.comparison->before, input.comparison->diff,
                                input.metric, sink);
  }
  return ExportFlamegraph(words, input.aggregates.stacks, input.metric, sink);
}

absl::Status WriteReport(const ExportInput& input, ByteSink& sink) {
  return ExportReport(input.timeline, input.aggregates, sink);
}

absl::Status WriteSqlite(const ExportInput& input, ByteSink& sink) {
  const absl::StatusOr<GuardedFolder> scratch = input.directory->OpenScratch();
  if (!scratch.ok()) return scratch.status();
  return ExportSqlite(input.timeline, input.aggregates, *scratch, sink);
}

absl::Status WriteParquet(const ExportInput& input, const OutputDirectory& directory,
                          const std::string& name) {
  return ExportParquet(input.timeline, input.aggregates, directory, name);
}

absl::Status WriteParquetEvents(const ExportInput& input, const OutputDirectory& directory,
                                const std::string& name) {
  return ExportParquetEvents(input.timeline, input.aggregates, directory, name);
}

absl::Status WriteEventsFolder(const ExportInput& input, const OutputDirectory& directory,
                               const std::string& name) {
  return ExportEventsAndStacks(input.timeline, input.aggregates.steps, input.aggregates.step_rows,
                               directory, name, input.csv_text);
}

absl::Status WriteSummary(const ExportInput& input, ByteSink& sink) {
  return ExportSummary(input.timeline, input.aggregates, sink);
}

absl::Status WriteMemoryTimeline(const ExportInput& input, ByteSink& sink) {
  return ExportMemoryTimeline(input.timeline, input.memory_device, sink);
}

absl::Status WriteMemoryTimelineRaw(const ExportInput& input, ByteSink& sink) {
  return ExportMemoryTimelineRaw(input.timeline, input.memory_device, sink);
}

absl::Status WriteMemoryTimelineHtml(const ExportInput& input, ByteSink& sink) {
  return ExportMemoryTimelineHtml(input.timeline, input.memory_device, sink);
}

absl::Status WriteMemoryViz(const ExportInput& input, ByteSink& sink) {
  return ExportMemoryViz(input.timeline, sink);
}

// Returns the name of a worker. TensorBoard's plugin splits the name at dots and takes the number
// behind the last '_' as the PID.
std::string WorkerName(const Timeline& timeline, std::optional<int> rank) {
  std::string host = timeline.info().host.name.empty() ? "host" : timeline.info().host.name;
  for (char& c : host) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!is_plain) c = '-';
  }
  const std::vector<Target>& targets = timeline.info().targets;
  const Target* worker = rank.has_value() ? RankedTarget(timeline.info(), rank) : nullptr;
  for (const Target& target : targets) {
    if (worker == nullptr && (!rank.has_value() || target.rank == rank)) worker = &target;
  }
  return host + "_" + std::to_string(worker == nullptr ? 0 : Raw(worker->pid));
}

std::string TensorboardName(const Timeline& timeline, std::optional<int> rank) {
  const int64_t start_ns = timeline.ToUnixNs(timeline.info().window.start_ns);
  return WorkerName(timeline, rank) + "." + std::to_string(start_ns) + ".pt.trace.json.gz";
}

std::string RankFileName(int rank) { return "trace_rank" + std::to_string(rank) + ".json.gz"; }

}  // namespace

const std::vector<Format>& Formats() {
  static const std::vector<Format>& formats = *new std::vector<Format>{
      {"table", "key_averages.txt", "read it; torch.profiler's table", WriteTable},
      {"csv", "key_averages.csv", "any spreadsheet or pandas", WriteKeyAveragesCsv},
      {"chrome", "trace.json.gz", "https://ui.perfetto.dev, HTA, TraceLens", WriteChromeTrace},
      {"tensorboard", "", "tensorboard --logdir DIR, with torch-tb-profiler", WriteChromeTrace},
      {"perfetto", "trace.pftrace.gz",
       "https://ui.perfetto.dev, trace_processor; with thread states", WritePerfettoTrace},
      {"events-csv", "events.csv", "pandas or a database; one row an event", WriteEventsCsv},
      {"events-stacks", "events", "pandas; as events-csv, with each stack once in a second file",
       nullptr, FormatNeeds::kNothing, false, WriteEventsFolder},
      {"sqlite", "profile.sqlite", "sqlite3 or pandas; the CSV files as tables", WriteSqlite},
      {"parquet", "parquet", "DuckDB, Spark, pandas, polars; a folder, a table a file", nullptr,
       FormatNeeds::kNothing, false, WriteParquet},
      {"parquet-events", "parquet", "the same folder's table of events, one row an event", nullptr,
       FormatNeeds::kNothing, false, WriteParquetEvents},
      {"folded", "stacks_self_cpu.folded", "flamegraph.pl, inferno, https://www.speedscope.app",
       WriteFolded, FormatNeeds::kNothing, true},
      {"folded-count", "stacks_count.folded", "as folded, by the number of rows",
       WriteFoldedCounts},
      {"folded-cuda", "stacks_self_cuda.folded", "as folded, by the time of GPUs",
       WriteDeviceFolded, FormatNeeds::kDevice},
      {"gpu-idle", "gpu_idle.csv", "pandas; why a GPU had nothing to do, gap by gap", WriteGpuIdle,
       FormatNeeds::kDevice},
      {"flamegraph", "flamegraph.html", "any browser", WriteFlamegraph, FormatNeeds::kNothing,
       true},
      {"report", "report.html", "any browser; why it is slow, steps, timeline, tables",
       WriteReport},
      {"modules", "modules.csv", "pandas, a spreadsheet; one row an nn.Module", WriteModules,
       FormatNeeds::kModules},
      {"samples-csv", "samples.csv", "pandas; what each thread did, look by look", WriteSamples,
       FormatNeeds::kSamples},
      {"data-waits", "data_waits.csv", "pandas; what each batch of a DataLoader waited for",
       WriteDataWaits, FormatNeeds::kDataWaits},
      {"speedscope", "profile.speedscope.json", "https://www.speedscope.app", WriteSpeedscope},
      {"pprof", "profile.pb.gz", "go tool pprof -http=: FILE", WritePprof},
      {"memory-timeline", "memory_timeline.json",
       "scripts that read torch's export_memory_timeline", WriteMemoryTimeline,
       FormatNeeds::kMemory},
      {"memory-timeline-html", "memory_timeline.html", "any browser", WriteMemoryTimelineHtml,
       FormatNeeds::kMemory},
      {"memory-timeline-raw", "memory_timeline.raw.json.gz",
       "scripts that read torch's export_memory_timeline, raw", WriteMemoryTimelineRaw,
       FormatNeeds::kMemory},
      {"memory-viz", "memory_viz.pickle", "https://pytorch.org/memory_viz", WriteMemoryViz,
       FormatNeeds::kMemory},
      {"pfw", "trace.pfw.gz", "DFTracer's tools; one line a system call that does I/O", WritePfw,
       FormatNeeds::kSystemCalls},
      {"summary", "summary.json", "scripts; what was recorded, lost and paid", WriteSummary},
  };
  return formats;
}

bool IsRecorded(FormatNeeds needs, const Timeline& timeline) {
  switch (needs) {
    case FormatNeeds::kNothing:
      return true;
    case FormatNeeds::kMemory:
      return timeline.has_memory();
    case FormatNeeds::kDevice:
      return timeline.has_device_records();
    case FormatNeeds::kModules:
      return !timeline.python_modules().empty();
    case FormatNeeds::kDataWaits:
      return timeline.has_sched();
    case FormatNeeds::kSamples:
      return !timeline.samples().empty();
    case FormatNeeds::kSystemCalls:
      return timeline.info().system.calls || timeline.info().system.io;
  }
  return false;
}

std::vector<int> SeveralRanks(const Timeline& timeline) {
  std::set<int> ranks;
  for (const Target& target : timeline.info().targets) {
    if (target.rank.has_value()) ranks.insert(*target.rank);
  }
  return ranks.size() > 1 ? std::vector<int>(ranks.begin(), ranks.end()) : std::vector<int>();
}

absl::StatusOr<const Format*> FindFormat(std::string_view name) {
  const std::vector<Format>& formats = Formats();
  const auto it = std::find_if(formats.begin(), formats.end(),
                               [&](const Format& format) { return format.name == name; });
  if (it != formats.end()) return &*it;
  std::vector<std::string_view> names;
  for (const Format& known : formats) names.push_back(known.name);
  names.emplace_back("none");
  return Fail(ExitCode::kUsage, "--format: " + NoneOf(name, names));
}

namespace {

// Adds a format once, however often it is named.
absl::Status AddFormat(std::string_view name, std::vector<const Format*>* formats) {
  const absl::StatusOr<const Format*> format = FindFormat(name);
  if (!format.ok()) return format.status();
  if (std::find(formats->begin(), formats->end(), *format) == formats->end()) {
    formats->push_back(*format);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<const Format*>> ParseFormatList(std::string_view list) {
  std::vector<const Format*> formats;
  if (list == "none") return formats;
  for (const std::string_view name : SplitText(list, ",", /*skip_empty=*/false)) {
    if (name == "none")
      return Fail(ExitCode::kUsage, "--format: none stands alone; it is the capture without more");
    if (absl::Status status = AddFormat(name, &formats); !status.ok()) return status;
    // One call of torch writes the JSON or the page; here one name gives both.
    if (name == "memory-timeline") {
      if (absl::Status status = AddFormat("memory-timeline-html", &formats); !status.ok()) {
        return status;
      }
    }
  }
  return formats;
}

std::string DefaultFileName(const Format& format, const Timeline& timeline, StackWeight metric) {
  if (format.name == "folded") return std::string(InfoOf(metric).file_name);
  if (!format.file_name.empty()) return std::string(format.file_name);
  return TensorboardName(timeline, std::nullopt);
}

std::vector<FormatFile> FilesOf(const Format& format, const Timeline& timeline, StackWeight metric,
                                std::optional<int> of_rank) {
  const bool is_chrome = format.name == "chrome";
  const bool is_trace = is_chrome || format.name == "tensorboard";
  const auto name_of = [&](int rank) {
    return is_chrome ? RankFileName(rank) : TensorboardName(timeline, rank);
  };
  if (is_trace && of_rank.has_value()) return {{name_of(*of_rank)}};
  std::vector<FormatFile> files;
  const std::vector<int> ranks = is_trace ? SeveralRanks(timeline) : std::vector<int>();
  if (ranks.empty() || is_chrome) files.push_back({DefaultFileName(format, timeline, metric)});
  for (const int rank : ranks) files.push_back({name_of(rank), rank});
  return files;
}

absl::Status Export(const Format& format, const ExportInput& input,
                    const OutputDirectory& directory, const std::string& name) {
  if (format.write_folder != nullptr) return format.write_folder(input, directory, name);
  const absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory.Create(name);
  if (!sink.ok()) return sink.status();
  ExportInput with_place = input;
  with_place.directory = &directory;
  if (absl::Status status = format.write(with_place, **sink); !status.ok()) return status;
  return (*sink)->Finish();
}

}  // namespace proftrace
