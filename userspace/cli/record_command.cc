#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "exporters/formats.h"
#include "symbols/plan/process.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"
#include "userspace/capture/recorder.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/cut_cycles.h"
#include "userspace/cli/finish_recording.h"
#include "userspace/cli/fleet_summaries.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/launch.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/record_events.h"
#include "userspace/cli/record_messages.h"
#include "userspace/cli/result_archive.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/result_name.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

absl::Status PrepareArchive(const std::string& output, RecordArguments* arguments,
                            std::optional<ResultArchive>* archive) {
  absl::StatusOr<ResultArchive> prepared = ResultArchive::Prepare(output, arguments->force);
  if (!prepared.ok()) return prepared.status();
  *archive = *std::move(prepared);
  arguments->archive = (*archive)->shown();
  return absl::OkStatus();
}

absl::Status RunRecord(RecordArguments arguments, const std::vector<std::string>& command) {
  absl::Status complete = CompleteOptions(&arguments, !command.empty());
  if (!complete.ok()) return complete;
  RecordOptions* options = &arguments.options;
  const absl::StatusOr<std::vector<const Format*>> formats = ChooseFormats(arguments);
  if (!formats.ok()) return formats.status();

  ResultNameFacts name_facts = OwnNameFacts(/*of_command=*/!command.empty());
  // Before a command runs.
  if (const auto name = ResultNameOf(arguments.output, name_facts); !name.ok()) {
    return name.status();
  }
  StopOnSignals();
  std::unique_ptr<FleetSummaries> summaries;
  if (!arguments.flight.fleet.empty()) {
    absl::StatusOr<std::unique_ptr<FleetSummaries>> begun =
        FleetSummaries::Begin(arguments.flight.fleet);
    if (!begun.ok()) return begun.status();
    summaries = *std::move(begun);
  }
  std::optional<ResultArchive> archive;
  // Before a command gets standard output.
  const bool is_streamed = arguments.output == "-";
  if (is_streamed) {
    if (absl::Status status = PrepareArchive("-", &arguments, &archive); !status.ok())
      return status;
  }
  std::unique_ptr<LaunchedCommand> launched;
  std::string comm = options->all ? "all" : "command";
  Pid first{static_cast<uint32_t>(getpid())};
  for (const Pid pid : options->pids) {
    absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    if (!info.ok()) return info.status();
    if (pid == options->pids.front()) {
      comm = info->comm;
      TakeJob(*info, options->pids.size() == 1, &name_facts);
    }
    first = options->pids.front();
  }
  if (!command.empty()) {
    // The CUDA driver loads it when it is initialized, and NVTX at the first range. One of the
    // user's own stays.
    if (options->agent.has_value() && !options->agent->file.empty()) {
      setenv("CUDA_INJECTION64_PATH", options->agent->file.c_str(), /*overwrite=*/0);
      setenv("NVTX_INJECTION64_PATH", options->agent->file.c_str(), /*overwrite=*/0);
    }
    absl::StatusOr<std::unique_ptr<LaunchedCommand>> child =
        LaunchedCommand::Start(command, {arguments.as_root, arguments.json});
    if (!child.ok()) return child.status();
    launched = *std::move(child);
    first = launched->pid();
    comm = command[0].substr(command[0].rfind('/') + 1);
    options->awaited.push_back(first);
  }
  name_facts.pid = first;
  const absl::StatusOr<std::string> path = arguments.output.empty() || is_streamed
                                               ? DefaultResultName(comm, name_facts)
                                               : ResultNameOf(arguments.output, name_facts);
  if (!path.ok()) return path.status();
  if (!is_streamed && ResultArchive::IsAsked(*path)) {
    if (absl::Status status = PrepareArchive(*path, &arguments, &archive); !status.ok())
      return status;
  }
  absl::StatusOr<ResultDirectory> directory =
      archive.has_value() ? archive->MakeDirectory(*path)
                          : ResultDirectory::Prepare(*path, arguments.force);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer;
  std::optional<FlightDumps> dumps;
  if (options->flight.has_value()) {
    writer = std::unique_ptr<CaptureWriter>();
    dumps.emplace(FlightDumps::Options{&*directory, arguments.formats, arguments.force,
                                       arguments.strict, arguments.quiet, arguments.json});
  } else {
    writer = CreateWriter(&*directory);
  }
  if (!writer.ok()) {
    directory->Discard();
    return writer.status();
  }

  const auto targets = std::make_shared<RecordedTargets>();
  targets->pids = options->pids.empty() ? options->awaited : options->pids;
  if (!command.empty()) targets->command = command[0];
  RecordCallbacks callbacks = TellingCallbacks(arguments, targets);
  if (arguments.json) AddEvents(targets, &callbacks);
  if (!arguments.quiet) options->plan.on_analysis = SayAnalysis;
  absl::Status launch;
  if (launched != nullptr) {
    callbacks.on_ready = [&, tell = callbacks.on_ready](const Ready& ready) {
      if (StopAsked().load(std::memory_order_relaxed))
        return;  // what was not begun is not begun now
      if (tell) tell(ready);
      launch = launched->Release();
      if (!launch.ok()) StopAsked().store(true, std::memory_order_relaxed);
    };
  }
  callbacks.on_dump = [&dumps](FlightDump dump) { dumps->Add(std::move(dump)); };
  if (summaries != nullptr) {
    callbacks.on_summary = [&summaries](FlightDump dump) { summaries->Add(std::move(dump)); };
  }
  const RecordResult result = Record(*options, *std::move(writer), callbacks, StopAsked());
  if (launched != nullptr && launch.ok() && !arguments.quiet && launched->IsRunning()) {
    Say("the recording is over, and %s goes on as PID %u; to end it: kill %u",
        ShownText(command[0]).c_str(), Raw(first), Raw(first));
  }
  // A command that cannot be run leaves nothing to show.
  if (!launch.ok() || (!result.status.ok() && !result.attached)) {
    directory->Discard();
    return launch.ok() ? result.status : launch;
  }
  directory->ForgetEarlier();
  absl::Status status;
  if (dumps.has_value() && result.last_dump.has_value()) {
    status = FinishFlight(arguments, result, *formats, *directory, &*dumps);
  } else if (arguments.schedule.has_value() && result.status.ok()) {
    status = FinishCycles(arguments, result, *formats, *directory);
  } else {
    status = FinishRecording(arguments, result, *formats, *directory);
  }
  if (summaries != nullptr) status.Update(summaries->Finish());
  if (archive.has_value()) {
    const absl::Status packed = archive->Finish(*directory);
    if (!packed.ok() && !status.ok()) Say("%s", std::string(packed.message()).c_str());
    status.Update(packed);
  }
  return status.ok() ? result.code : status;
}

}  // namespace

void AddRecordCommand(CLI::App& app, const std::vector<std::string>& all,
                      const std::vector<std::string>& command, Action* action) {
  auto arguments = std::make_shared<RecordArguments>();
  arguments->options.info.arguments = all;
  CLI::App* record = app.add_subcommand(
      "record",
      "Attach to running PyTorch processes, or start one after --, and record what they do. The "
      "word record may be left out.\n"
      "Example: sudo proftrace -p 4711 -d 10s -o result");
  record->footer("[OPTIONS] (-p PID | -a | -- COMMAND [ARGS])");
  AddRecordOptions(record, arguments.get());
  record->callback([arguments, command, action] {
    *action = [arguments, command] { return RunRecord(*arguments, command); };
  });
}

}  // namespace proftrace
