#include "exporters/formats.h"

#include <algorithm>
#include <memory>

#include "exporters/chrome_trace.h"
#include "exporters/escape.h"
#include "exporters/events_csv.h"
#include "exporters/flamegraph_html.h"
#include "exporters/folded.h"
#include "exporters/key_averages_csv.h"
#include "exporters/summary_json.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

absl::Status WriteTable(const ExportInput& input, ByteSink& sink) {
  return ExportTable(input.timeline, input.aggregates.key_averages, input.table, sink);
}

absl::Status WriteKeyAveragesCsv(const ExportInput& input, ByteSink& sink) {
  return ExportKeyAveragesCsv(input.aggregates.key_averages, sink);
}

absl::Status WriteChromeTrace(const ExportInput& input, ByteSink& sink) {
  return ExportChromeTrace(input.timeline, sink);
}

absl::Status WriteEventsCsv(const ExportInput& input, ByteSink& sink) {
  return ExportEventsCsv(input.timeline, sink);
}

absl::Status WriteFolded(const ExportInput& input, ByteSink& sink) {
  return ExportFolded(input.aggregates.stacks, sink);
}

absl::Status WriteFlamegraph(const ExportInput& input, ByteSink& sink) {
  return ExportFlamegraph(input.timeline, input.aggregates.stacks,
                          input.aggregates.key_averages.incomplete_spans, sink);
}

absl::Status WriteSummary(const ExportInput& input, ByteSink& sink) {
  return ExportSummary(input.timeline, input.aggregates.span_counts, sink);
}

std::string ValidNames() {
  std::string names;
  for (const Format& format : Formats()) names += std::string(format.name) + ", ";
  return names + "none";
}

// TensorBoard's plugin splits the name at dots and takes the number behind the last '_' for the
// PID.
std::string WorkerName(const Timeline& timeline) {
  std::string host = timeline.info().host.name.empty() ? "host" : timeline.info().host.name;
  for (char& c : host) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!is_plain) c = '-';
  }
  const std::vector<Target>& targets = timeline.info().targets;
  const uint32_t pid = targets.empty() ? 0 : Raw(targets.front().pid);
  return host + "_" + std::to_string(pid);
}

}  // namespace

const std::vector<Format>& Formats() {
  static const std::vector<Format>& formats = *new std::vector<Format>{
      {"table", "key_averages.txt", "read it; torch.profiler's table", WriteTable},
      {"csv", "key_averages.csv", "any spreadsheet or pandas", WriteKeyAveragesCsv},
      {"chrome", "trace.json.gz", "https://ui.perfetto.dev, HTA, TraceLens", WriteChromeTrace},
      {"tensorboard", "", "tensorboard --logdir DIR, with torch-tb-profiler", WriteChromeTrace},
      {"events-csv", "events.csv", "pandas or a database; one row an event", WriteEventsCsv},
      {"folded", "stacks_self_cpu.folded", "flamegraph.pl, inferno, https://www.speedscope.app",
       WriteFolded},
      {"flamegraph", "flamegraph.html", "any browser", WriteFlamegraph},
      {"summary", "summary.json", "scripts; what was recorded, lost and paid", WriteSummary},
  };
  return formats;
}

absl::StatusOr<const Format*> FindFormat(std::string_view name) {
  const std::vector<Format>& formats = Formats();
  const auto it = std::find_if(formats.begin(), formats.end(),
                               [&](const Format& format) { return format.name == name; });
  if (it != formats.end()) return &*it;
  return Fail(ExitCode::kUsage,
              "unknown format \"" + TableText(name) + "\"; valid are: " + ValidNames());
}

absl::StatusOr<std::vector<const Format*>> ParseFormatList(std::string_view list) {
  std::vector<const Format*> formats;
  if (list == "none") return formats;
  while (true) {
    const size_t comma = list.find(',');
    const absl::StatusOr<const Format*> format = FindFormat(list.substr(0, comma));
    if (!format.ok()) return format.status();
    if (std::find(formats.begin(), formats.end(), *format) == formats.end()) {
      formats.push_back(*format);
    }
    if (comma == std::string_view::npos) return formats;
    list.remove_prefix(comma + 1);
  }
}

std::string DefaultFileName(const Format& format, const Timeline& timeline) {
  if (!format.file_name.empty()) return std::string(format.file_name);
  const int64_t start_ns = timeline.ToUnixNs(timeline.info().window.start_ns);
  return WorkerName(timeline) + "." + std::to_string(start_ns) + ".pt.trace.json.gz";
}

absl::Status Export(const Format& format, const ExportInput& input,
                    const OutputDirectory& directory, const std::string& name) {
  const absl::StatusOr<std::unique_ptr<ByteSink>> sink = directory.Create(name);
  if (!sink.ok()) return sink.status();
  if (absl::Status status = format.write(input, **sink); !status.ok()) return status;
  return (*sink)->Finish();
}

}  // namespace proftrace
