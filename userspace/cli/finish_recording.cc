#include "userspace/cli/finish_recording.h"

#include <absl/strings/str_format.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "exporters/memory/memory_timeline.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/cli/confinements.h"
#include "userspace/cli/cut_cycles.h"
#include "userspace/cli/record_events.h"
#include "userspace/cli/results.h"
#include "userspace/cli/say.h"
#include "userspace/cli/step_schedule.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/wire/capture_part.h"
#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr double kDearPercent = 20;  // slow-down from which on a cheaper way to record is suggested
// A job waits most of the time if it became slower by less than this part of the added processor
// time.
constexpr double kWaits = 0.8;
// The most cycles that are cut out by one reading of the capture, because each needs an open file.
constexpr size_t kCyclesAtOnce = 32;

TableOptions TableOfRecording(const RecordArguments& arguments) {
  TableOptions table;
  table.is_verbose = arguments.verbose > 0;
  table.sort_by = "self_cpu_time_total";
  return table;
}

void PrintBudget(const std::optional<Budget>& budget) {
  if (!budget.has_value()) return;
  if (!budget->demoted.empty()) {
    Say("%zu operators were only counted to keep --max-overhead %g%%", budget->demoted.size(),
        budget->max_overhead_percent);
  }
  if (budget->is_kept) return;
  std::string after;
  if (budget->after_percent.has_value()) {
    after = absl::StrFormat(": %.1f %% is estimated since the last change", *budget->after_percent);
  }
  Say("warning: --max-overhead %g%% was not kept%s", budget->max_overhead_percent, after.c_str());
}

// Returns by how much the job became slower. In a job that waits most of the time, the recording
// adds more to the used processor time than to the duration of steps.
double SlowDownPercent(const Cost& cost) {
  return std::min(cost.estimated_overhead_percent,
                  cost.busiest_thread_percent.value_or(cost.estimated_overhead_percent));
}

std::string SlowDownText(const Cost& cost) {
  const double slow_down = SlowDownPercent(cost);
  std::string text = absl::StrFormat("%.1f %% slow-down while recording", slow_down);
  if (cost.estimated_overhead_percent >= 1 &&
      slow_down < kWaits * cost.estimated_overhead_percent) {
    text += absl::StrFormat(" (%.1f %% more processor time)", cost.estimated_overhead_percent);
  }
  return text;
}

// Says that the recording is shorter than was asked for, because the job has ended.
void PrintShortness(const RecordOptions& options, const RecordResult& result) {
  if (options.duration_s.has_value()) {
    Say("all recorded processes have ended, and the recording with them, before the %g s of "
        "--duration were over",
        *options.duration_s);
  }
  const size_t steps = result.steps.has_value() ? result.steps->intervals.size() : 0;
  if (options.steps.has_value() && steps < *options.steps) {
    Say("all recorded processes have ended, and the recording with them, after %zu of the %llu "
        "steps of --steps",
        steps, static_cast<unsigned long long>(*options.steps));
  }
}

// Prints how much was recorded and lost.
void PrintEnd(const RecordArguments& arguments, const RecordResult& result,
              const Results& results) {
  if (arguments.quiet) return;
  const Ledger& ledger = results.timeline->ledger();
  const uint32_t events = results.timeline->system_event_count();
  const std::string beside = events > 0 ? " and " + std::to_string(events) + " system events" : "";
  SayOverProgress("%u spans%s in %.2f s, %llu records lost, about %s",
                  results.timeline->span_count(), beside.c_str(),
                  static_cast<double>(result.window.duration_ns) * 1e-9,
                  static_cast<unsigned long long>(ledger.ring_lost + ledger.system_lost),
                  SlowDownText(result.cost).c_str());
  const RecordingInfo& info = results.timeline->info();
  const bool could_have_jumps =
      info.tier == "bpf" && !arguments.no_inject &&
      !(info.tier_choice.has_value() && info.tier_choice->are_jumps_refused);
  if (could_have_jumps && SlowDownPercent(result.cost) >= kDearPercent) {
    Say("--tier patch records the same for a fraction of that cost");
  }
  PrintBudget(result.budget);
  if (result.targets_ended) PrintShortness(arguments.options, result);
}

void PrintNames(const RecordArguments& arguments, const std::vector<std::string>& names,
                bool with_capture, const std::string& directory) {
  if (arguments.quiet) return;
  const std::string& place = arguments.archive.empty() ? directory : arguments.archive;
  std::string all;
  for (const std::string& name : names) all += " " + name;
  Say("results in %s:%s%s", place.c_str(), all.c_str(), with_capture ? " capture.ptrec" : "");
}

absl::StatusOr<Results> LoadRecorded(const ResultDirectory& directory, bool is_whole,
                                     bool cuda_sync_rows) {
  AggregateOptions aggregates;
  aggregates.cuda_sync_rows = cuda_sync_rows;
  CaptureReader::Options options;
  options.salvage = !is_whole;
  const absl::StatusOr<std::unique_ptr<CaptureReader>> reader = directory.OpenCapture(options);
  if (!reader.ok()) return reader.status();
  return LoadResults(reader->get(), directory.DescriptorPath(), aggregates);
}

absl::StatusOr<WrittenResults> WriteRecorded(const Results& results,
                                             const std::vector<const Format*>& formats,
                                             const TableOptions& table,
                                             const ResultDirectory& directory) {
  const absl::StatusOr<OutputDirectory> output = directory.OpenForOutputs();
  if (!output.ok()) return output.status();
  return WriteResults(results, formats, table, *output);
}

// Prints which memory curves the memory timeline has.
void PrintMemoryNote(const RecordArguments& arguments, const std::vector<const Format*>& formats,
                     const Timeline& timeline) {
  const bool is_asked = std::any_of(formats.begin(), formats.end(), [](const Format* format) {
    return format->name.starts_with("memory-timeline");
  });
  const std::string note = is_asked ? MemoryTimelineNote(timeline, "") : "";
  if (arguments.quiet || note.empty()) return;
  Say("memory_timeline: %s", note.c_str());
}

// Prints the table of a last dump that could not be written, because the disk is full or its
// directory is gone. Nothing else of that dump can be shown.
absl::Status PrintUnwritten(const RecordArguments& arguments, const RecordResult& result) {
  constexpr char kName[] = "the last dump";
  UniqueFd file(memfd_create(kName, MFD_CLOEXEC));
  UniqueFd copy(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return Fail(ExitCode::kOutputFailed,
                std::string("cannot show ") + kName + ": " + ErrnoText(errno));
  }
  const absl::StatusOr<std::unique_ptr<CaptureWriter>> writer =
      CaptureWriter::Create(file.Release(), kName);
  absl::Status kept = writer.status();
  if (kept.ok()) kept = result.last_dump->WriteTo(writer->get());
  const absl::StatusOr<std::unique_ptr<CaptureReader>> reader =
      CaptureReader::OpenFile(copy.Release(), kName, {.salvage = !kept.ok()});
  if (!reader.ok()) return reader.status();
  const absl::StatusOr<Results> results = LoadResults(reader->get(), "", AggregateOptions());
  if (!results.ok()) return results.status();
  const TableOptions table = TableOfRecording(arguments);
  absl::Status printed;
  if (!arguments.json) printed = PrintTable(*results, table, /*json=*/false);
  PrintEnd(arguments, result, *results);
  return printed;
}

absl::Status WriteAndPrint(const RecordArguments& arguments, const RecordResult& result,
                           const std::vector<const Format*>& formats,
                           const ResultDirectory& directory) {
  const ResultDirectory::Place at_end = directory.FindPlace();
  // After an error, everything that was recorded before is still shown. A capture that was not
  // closed must be salvaged.
  const absl::StatusOr<Results> results =
      LoadRecorded(directory, result.status.ok(), arguments.cuda_sync_events);
  if (!results.ok()) return result.status.ok() ? results.status() : result.status;
  const TableOptions table = TableOfRecording(arguments);
  absl::StatusOr<WrittenResults> written = WrittenResults();
  if (!at_end.is_removed) written = WriteRecorded(*results, formats, table, directory);
  const absl::Status is_in_place = directory.CheckPlace();
  const ResultDirectory::Place place = directory.FindPlace();
  const bool with_table =
      !arguments.json &&
      (place.is_removed || std::any_of(formats.begin(), formats.end(), [](const Format* format) {
         return format->name == "table";
       }));
  absl::Status printed;
  if (with_table) {
    printed = PrintVerdict(*results, /*json=*/false);
    if (printed.ok()) printed = PrintTable(*results, table, /*json=*/false);
  }
  if (!result.status.ok()) return result.status;
  if (!written.ok()) return written.status();
  if (arguments.formats != RecordArguments::kDefaultFormats) {
    for (const std::string& reason : WhyNotWritten(*results, formats, table)) {
      Say("%s", reason.c_str());
    }
  }
  PrintMemoryNote(arguments, formats, *results->timeline);
  const absl::Status has_capture = directory.CheckCapture();
  PrintEnd(arguments, result, *results);
  if (place.is_removed) return is_in_place;
  PrintNames(arguments, written->names, has_capture.ok(), place.path);
  if (arguments.json) {
    std::vector<std::string> files = written->names;
    if (has_capture.ok()) files.emplace_back("capture.ptrec");
    WriteFinished(arguments.archive.empty() ? place.path : arguments.archive, files, *results);
  }
  const absl::Status all_written =
      has_capture.ok()
          ? CheckWritten(*written, arguments.archive.empty() ? place.path : arguments.archive)
          : written->first_error;
  for (const absl::Status& status : {all_written, is_in_place, has_capture, printed}) {
    if (!status.ok()) return status;
  }
  if (arguments.strict && results->timeline->any_loss()) {
    return Fail(ExitCode::kEventsLost,
                "events were lost (--strict); the table's footer says which");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FinishRecording(const RecordArguments& arguments, const RecordResult& result,
                             const std::vector<const Format*>& formats,
                             const ResultDirectory& directory) {
  absl::Status status = RunConfined(
      OfRecording(directory), [&] { return WriteAndPrint(arguments, result, formats, directory); });
  const ExitCode code = ExitCodeOf(status);
  const bool is_cut_short = code == ExitCode::kHostUnfit || code == ExitCode::kBug;
  if (!is_cut_short || WasTold(status) || !directory.CheckCapture().ok()) return status;
  return Fail(code, std::string(status.message()) + "; all that was recorded is in " +
                        directory.FindPlace().path + "/capture.ptrec: proftrace report reads it");
}

absl::Status FinishCycles(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory) {
  // The directory is gone, so that cycles cannot be written into it.
  if (directory.FindPlace().is_removed) {
    return FinishRecording(arguments, result, formats, directory);
  }
  std::vector<CapturePart> cycles;
  if (result.steps.has_value()) cycles = Cycles(*arguments.schedule, *result.steps);
  if (cycles.empty()) {
    Say("no step of the schedule was found; the results hold all that was "
        "recorded");
    return FinishRecording(arguments, result, formats, directory);
  }
  // Where a signal has ended the recording, outputs are written all the same. Otherwise a signal
  // from here on stops the writing of outputs.
  const bool was_asked = StopAsked().load(std::memory_order_relaxed);
  absl::Status failed;
  for (size_t first = 0; first < cycles.size(); first += kCyclesAtOnce) {
    const std::span<const CapturePart> group =
        std::span(cycles).subspan(first, std::min(kCyclesAtOnce, cycles.size() - first));
    const auto directories = CutCycles(group, first, arguments.force, directory);
    if (!directories.ok()) return failed.ok() ? directories.status() : failed;
    for (size_t i = 0; i < group.size(); ++i) {
      if (!was_asked && StopAsked().load(std::memory_order_relaxed)) {
        Say("stopped; outputs of %zu of %zu cycles were written, and "
            "%s/capture.ptrec has it all",
            first + i, cycles.size(), directory.FindPlace().path.c_str());
        failed.Update(directory.CheckPlace());
        return failed;
      }
      RecordResult part = result;
      part.window.start_ns = group[i].start_ns;
      part.window.duration_ns = group[i].end_ns - group[i].start_ns;
      failed.Update(FinishRecording(arguments, part, formats, (*directories)[i]));
    }
  }
  directory.RemoveCapture();
  failed.Update(directory.CheckPlace());
  return failed;
}

absl::Status FinishFlight(const RecordArguments& arguments, const RecordResult& result,
                          const std::vector<const Format*>& formats,
                          const ResultDirectory& directory, FlightDumps* dumps) {
  absl::StatusOr<ResultDirectory> last = dumps->WriteLast(*result.last_dump);
  absl::Status status;
  if (last.ok()) {
    status = FinishRecording(arguments, result, formats, *last);
  } else {
    status = directory.CheckPlace();  // this error says more than that of WriteLast()
    status.Update(last.status());
    status.Update(RunConfined(OfReport({}), [&] { return PrintUnwritten(arguments, result); }));
  }
  if (result.triggers_passed_over > 0 && !arguments.quiet) {
    Say("%llu more triggers made no dump: they came within the window of another dump, or after "
        "--most-dumps were made",
        static_cast<unsigned long long>(result.triggers_passed_over));
  }
  status.Update(dumps->Finish());
  status.Update(directory.CheckPlace());
  return status;
}

}  // namespace proftrace
