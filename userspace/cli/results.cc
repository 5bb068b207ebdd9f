#include "userspace/cli/results.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "exporters/text/compare_text.h"
#include "exporters/text/why_text.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/standard_output.h"
#include "userspace/compare/run_comparison.h"
#include "userspace/compare/run_profile.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/why/verdict.h"

namespace proftrace {
namespace {

// The words with which messages about missing data go on to their advice.
constexpr std::string_view kRecordWith = "; record ";

// Returns the directory for spans that do not fit in memory, beside the capture.
std::string SpillDirectory(const std::string& capture) {
  std::error_code error;
  const std::filesystem::path path(capture);
  if (std::filesystem::is_directory(path, error)) return capture;
  const std::string parent = path.parent_path().string();
  return parent.empty() ? "." : parent;
}

// Returns `formats` with their companions, which are written where the recording has their data,
// and with summary.json; each format once.
absl::StatusOr<std::vector<const Format*>> WithCompanions(
    const std::vector<const Format*>& formats) {
  std::vector<const Format*> all;
  const auto add = [&all](const Format* format) {
    if (std::find(all.begin(), all.end(), format) == all.end()) all.push_back(format);
  };
  const absl::StatusOr<const Format*> modules = FindFormat("modules");
  const absl::StatusOr<const Format*> by_device = FindFormat("folded-cuda");
  const absl::StatusOr<const Format*> summary = FindFormat("summary");
  for (const auto* found : {&modules, &by_device, &summary}) {
    if (!found->ok()) return found->status();
  }
  for (const Format* format : formats) {
    add(format);
    if (format->name == "csv") add(*modules);
    if (format->name == "folded") add(*by_device);
  }
  add(*summary);
  return all;
}

}  // namespace

absl::StatusOr<Results> LoadResults(const std::string& capture, bool salvage,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes) {
  CaptureReader::Options reader_options;
  reader_options.salvage = salvage;
  absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
      CaptureReader::Open(capture, reader_options);
  if (!reader.ok()) return reader.status();
  if ((*reader)->is_empty() && !(*reader)->damage().empty()) {
    return Fail(ExitCode::kInputDamaged,
                capture + " is damaged: " + (*reader)->damage() + "; nothing of it is whole");
  }
  absl::StatusOr<Results> results =
      LoadResults(reader->get(), SpillDirectory(capture), options, processes);
  if (!results.ok()) return OfCapture(results.status(), capture, (*reader)->damage());
  return results;
}

absl::StatusOr<Results> LoadResults(CaptureReader* reader, const std::string& spill_directory,
                                    const AggregateOptions& options,
                                    const ProcessChoice& processes) {
  const std::unique_ptr<RecordSource> device_records = reader->DeviceRecords();
  absl::StatusOr<std::unique_ptr<Timeline>> timeline =
      BuildTimeline(reader->metadata(), reader, spill_directory, device_records.get(), processes);
  if (!timeline.ok()) return timeline.status();
  Results results;
  results.timeline = *std::move(timeline);
  AggregateOptions with_spill = options;
  with_spill.spill_directory = spill_directory;
  results.aggregates = Aggregate(*results.timeline, with_spill);
  results.damage = reader->damage();
  if (!results.timeline->ledger().ConservationHolds() ||
      !results.timeline->device_ledger().ConservationHolds()) {
    return Fail(ExitCode::kBug, "the ledger of " + reader->path() + " does not add up");
  }
  return results;
}

absl::Status OfCapture(const absl::Status& status, const std::string& capture,
                       const std::string& damage) {
  if (damage.empty() || ExitCodeOf(status) != ExitCode::kUsage) return status;
  const std::string_view missing(status.message().data(), status.message().size());
  return Fail(ExitCode::kInputDamaged,
              capture + " is damaged: " + damage +
                  "; its undamaged part has nothing for this output: " +
                  std::string(missing.substr(0, missing.find(kRecordWith))));
}

absl::StatusOr<WrittenResults> WriteResults(const Results& results,
                                            const std::vector<const Format*>& formats,
                                            const TableOptions& table,
                                            const OutputDirectory& directory) {
  const ExportInput input{*results.timeline, results.aggregates, table};
  const absl::StatusOr<std::vector<const Format*>> all = WithCompanions(formats);
  if (!all.ok()) return all.status();
  WrittenResults written;
  const auto write = [&](const Format& format, const ExportInput& from, const std::string& name) {
    const absl::Status status = Export(format, from, directory, name);
    std::vector<std::string>& names = status.ok() ? written.names : written.missing;
    // Two formats may have the same folder, which is named once.
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    if (status.ok()) return;
    written.first_error.Update(status);
    std::vector<std::string>& formats_of = written.missing_formats;
    if (formats_of.empty() || formats_of.back() != format.name)
      formats_of.emplace_back(format.name);
  };
  for (const Format* format : *all) {
    // A format is skipped where its data was not recorded, because only the recording shows whether
    // an agent, modules or samples can be recorded. `unsupported` says why they were not.
    if (format->needs != FormatNeeds::kMemory && !IsRecorded(format->needs, *results.timeline)) {
      continue;
    }
    for (const FormatFile& file : FilesOf(*format, *results.timeline)) {
      ExportInput of_file = input;
      of_file.rank = file.rank;
      write(*format, of_file, file.name);
    }
  }
  return written;
}

absl::Status CheckWritten(const WrittenResults& written, const std::string& capture) {
  if (written.first_error.ok()) return absl::OkStatus();
  std::string text(written.first_error.message());
  // The first error's advice is cut off; the advice below is for all files.
  text.resize(std::min(text.rfind("; "), text.size()));
  for (size_t i = 1; i < written.missing.size(); ++i) {
    text += (i == 1 ? ", nor " : ", ") + written.missing[i];
  }
  text += "; the capture is whole: 'proftrace export " + capture + " --format ";
  for (size_t i = 0; i < written.missing_formats.size(); ++i) {
    text += (i == 0 ? "" : ",") + written.missing_formats[i];
  }
  return Fail(ExitCodeOf(written.first_error), text + " -o ELSEWHERE' makes what is missing");
}

std::vector<std::string> WhyNotWritten(const Results& results,
                                       const std::vector<const Format*>& formats,
                                       const TableOptions& table) {
  std::vector<std::string> reasons;
  for (const Format* format : formats) {
    if (IsRecorded(format->needs, *results.timeline)) continue;
    StringSink nowhere;
    const absl::Status status =
        format->write(ExportInput{*results.timeline, results.aggregates, table}, nowhere);
    if (status.ok()) continue;
    reasons.push_back(std::string(format->name) +
                      " is not written: " + std::string(status.message()));
  }
  return reasons;
}

absl::Status PrintTable(const Results& results, const TableOptions& table, bool json) {
  StringSink sink;
  const Timeline& timeline = *results.timeline;
  absl::Status status = json ? ExportTableJson(timeline, results.aggregates, table, sink)
                             : ExportTable(timeline, results.aggregates, table, sink);
  if (!status.ok()) return status;
  return PrintText(sink.text(), json);
}

absl::Status PrintVerdict(const Results& results, bool json) {
  const Verdict verdict = FindVerdict(*results.timeline, results.aggregates);
  StringSink sink;
  absl::Status status =
      json ? ExportVerdictJson(verdict, sink) : sink.Write(FormatVerdict(verdict) + "\n");
  return status.ok() ? PrintText(sink.text(), json) : status;
}

absl::Status PrintComparison(const Results& before, const Results& after, int64_t row_limit,
                             bool json) {
  const std::optional<RunProfile> earlier = ProfileRun(*before.timeline, before.aggregates);
  const std::optional<RunProfile> later = ProfileRun(*after.timeline, after.aggregates);
  if (!earlier.has_value() || !later.has_value()) {
    return Fail(ExitCode::kUsage, std::string("the ") +
                                      (later.has_value() ? "earlier recording" : "recording") +
                                      " has no thread or no time: there is nothing to compare");
  }
  const RunComparison comparison = CompareRuns(*earlier, *later);
  StringSink sink;
  absl::Status status = json ? ExportComparisonJson(comparison, row_limit, sink)
                             : sink.Write(FormatComparison(comparison, row_limit));
  return status.ok() ? PrintText(sink.text(), json) : status;
}

absl::Status PrintText(const std::string& whole, bool json) {
  return WriteStandardOutput(json ? ShownJson(whole) : ShownLines(whole));
}

}  // namespace proftrace
