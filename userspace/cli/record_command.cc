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
#include "userspace/capture/session/recorder.h"
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

// One run of `record`, from the options to the results.
class RecordRun {
 public:
  RecordRun(RecordArguments arguments, const std::vector<std::string>& command)
      : arguments_(std::move(arguments)), command_(command) {}

  absl::Status Run();

 private:
  bool is_streamed() const { return arguments_.output == "-"; }

  // Steps before the recording. Where one fails, nothing was recorded and no file is left.
  absl::Status Prepare();
  absl::Status ReadTargets();
  absl::Status StartCommand();
  absl::Status MakeDirectory();
  absl::StatusOr<std::unique_ptr<CaptureWriter>> MakeWriter();
  RecordCallbacks MakeCallbacks();
  // Writes the outputs of the recording, and prints how it went.
  absl::Status Finish(const RecordResult& result);

  RecordArguments arguments_;
  const std::vector<std::string>& command_;  // after "--"; empty: none
  std::vector<const Format*> formats_;
  ResultNameFacts name_facts_;
  std::string comm_;  // the name of the program, for the name of the result
  std::unique_ptr<FleetSummaries> summaries_;
  std::optional<ResultArchive> archive_;
  std::unique_ptr<LaunchedCommand> launched_;
  std::optional<ResultDirectory> directory_;
  std::optional<FlightDumps> dumps_;
  std::shared_ptr<RecordedTargets> targets_ = std::make_shared<RecordedTargets>();
  absl::Status launch_;         // status of starting the command
  bool misses_places_ = false;  // places are missing because another proftrace has its jumps there
};

absl::Status RecordRun::Prepare() {
  absl::Status complete = CompleteOptions(&arguments_, !command_.empty());
  if (!complete.ok()) return complete;
  absl::StatusOr<std::vector<const Format*>> formats = ChooseFormats(arguments_);
  if (!formats.ok()) return formats.status();
  formats_ = *std::move(formats);
  name_facts_ = OwnNameFacts(/*of_command=*/!command_.empty());
  // The pattern of -o is checked before a command runs.
  if (const auto name = ResultNameOf(arguments_.output, name_facts_); !name.ok()) {
    return name.status();
  }
  StopOnSignals();
  if (!arguments_.flight.fleet.empty()) {
    absl::StatusOr<std::unique_ptr<FleetSummaries>> begun =
        FleetSummaries::Begin(arguments_.flight.fleet);
    if (!begun.ok()) return begun.status();
    summaries_ = *std::move(begun);
  }
  // The archive takes standard output over before a command gets it.
  if (is_streamed()) return PrepareArchive("-", &arguments_, &archive_);
  return absl::OkStatus();
}

absl::Status RecordRun::ReadTargets() {
  const RecordOptions& options = arguments_.options;
  comm_ = options.all ? "all" : "command";
  name_facts_.pid = Pid{static_cast<uint32_t>(getpid())};
  for (const Pid pid : options.pids) {
    absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    if (!info.ok()) return info.status();
    if (pid != options.pids.front()) continue;
    comm_ = info->comm;
    TakeJob(*info, options.pids.size() == 1, &name_facts_);
    name_facts_.pid = pid;
  }
  return absl::OkStatus();
}

absl::Status RecordRun::StartCommand() {
  if (command_.empty()) return absl::OkStatus();
  RecordOptions* options = &arguments_.options;
  // The CUDA driver loads the agent when it is initialized, and NVTX at the first range. A library
  // that the user has set here is kept.
  if (options->agent.has_value() && !options->agent->file.empty()) {
    setenv("CUDA_INJECTION64_PATH", options->agent->file.c_str(), /*overwrite=*/0);
    setenv("NVTX_INJECTION64_PATH", options->agent->file.c_str(), /*overwrite=*/0);
  }
  absl::StatusOr<std::unique_ptr<LaunchedCommand>> child =
      LaunchedCommand::Start(command_, {arguments_.as_root, arguments_.json});
  if (!child.ok()) return child.status();
  launched_ = *std::move(child);
  name_facts_.pid = launched_->pid();
  comm_ = command_[0].substr(command_[0].rfind('/') + 1);
  options->awaited.push_back(launched_->pid());
  return absl::OkStatus();
}

absl::Status RecordRun::MakeDirectory() {
  const absl::StatusOr<std::string> path = arguments_.output.empty() || is_streamed()
                                               ? DefaultResultName(comm_, name_facts_)
                                               : ResultNameOf(arguments_.output, name_facts_);
  if (!path.ok()) return path.status();
  if (!is_streamed() && ResultArchive::IsAsked(*path)) {
    absl::Status prepared = PrepareArchive(*path, &arguments_, &archive_);
    if (!prepared.ok()) return prepared;
  }
  absl::StatusOr<ResultDirectory> directory =
      archive_.has_value() ? archive_->MakeDirectory(*path)
                           : ResultDirectory::Prepare(*path, arguments_.force);
  if (!directory.ok()) return directory.status();
  directory_ = *std::move(directory);
  return absl::OkStatus();
}

// Makes the writer of the capture; null for a flight recorder, which writes dumps instead.
absl::StatusOr<std::unique_ptr<CaptureWriter>> RecordRun::MakeWriter() {
  if (arguments_.options.flight.has_value()) {
    dumps_.emplace(FlightDumps::Options{&*directory_, arguments_.formats, arguments_.force,
                                        arguments_.strict, arguments_.quiet, arguments_.json});
    return std::unique_ptr<CaptureWriter>();
  }
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CreateWriter(&*directory_);
  if (!writer.ok()) directory_->Discard();
  return writer;
}

RecordCallbacks RecordRun::MakeCallbacks() {
  RecordOptions* options = &arguments_.options;
  targets_->pids = options->pids.empty() ? options->awaited : options->pids;
  if (!command_.empty()) targets_->command = command_[0];
  RecordCallbacks callbacks = TellingCallbacks(arguments_, targets_);
  if (arguments_.json) AddEvents(targets_, &callbacks);
  if (!arguments_.quiet) options->plan.on_analysis = SayAnalysis;
  if (launched_ != nullptr) {
    callbacks.on_ready = [this, tell = callbacks.on_ready](const Ready& ready) {
      if (StopAsked().load(std::memory_order_relaxed))
        return;  // the command is not started any more after a stop
      if (tell) tell(ready);
      launch_ = launched_->Release();
      if (!launch_.ok()) StopAsked().store(true, std::memory_order_relaxed);
    };
  }
  callbacks.on_anothers_jumps = [this, tell = callbacks.on_anothers_jumps](const std::string& why) {
    misses_places_ = true;
    if (tell) tell(why);
  };
  callbacks.on_dump = [this](FlightDump dump) { dumps_->Add(std::move(dump)); };
  if (summaries_ != nullptr) {
    callbacks.on_summary = [this](FlightDump dump) { summaries_->Add(std::move(dump)); };
  }
  return callbacks;
}

absl::Status RecordRun::Finish(const RecordResult& result) {
  directory_->ForgetEarlier();
  absl::Status status;
  if (dumps_.has_value() && result.last_dump.has_value()) {
    status = FinishFlight(arguments_, result, formats_, *directory_, &*dumps_);
  } else if (arguments_.schedule.has_value() && result.status.ok()) {
    status = FinishCycles(arguments_, result, formats_, *directory_);
  } else {
    status = FinishRecording(arguments_, result, formats_, *directory_);
  }
  if (summaries_ != nullptr) status.Update(summaries_->Finish());
  if (archive_.has_value()) {
    const absl::Status packed = archive_->Finish(*directory_);
    if (!packed.ok() && !status.ok()) Say("%s", std::string(packed.message()).c_str());
    status.Update(packed);
  }
  if (status.ok()) status = result.code;
  if (status.ok() && arguments_.strict && misses_places_) {
    return Fail(
        ExitCode::kEventsLost,
        "operators are missing (--strict): another proftrace has its jumps in the job; record "
        "again when its recording has ended");
  }
  return status;
}

absl::Status RecordRun::Run() {
  absl::Status ready = Prepare();
  if (ready.ok()) ready = ReadTargets();
  if (ready.ok()) ready = StartCommand();
  if (ready.ok()) ready = MakeDirectory();
  if (!ready.ok()) return ready;
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = MakeWriter();
  if (!writer.ok()) return writer.status();
  const RecordCallbacks callbacks = MakeCallbacks();
  const RecordResult result =
      Record(arguments_.options, *std::move(writer), callbacks, StopAsked());
  if (launched_ != nullptr && launch_.ok() && !arguments_.quiet && launched_->IsRunning()) {
    const unsigned pid = Raw(launched_->pid());
    Say("the recording is over, and %s goes on as PID %u; to end it: kill %u",
        ShownText(command_[0]).c_str(), pid, pid);
  }
  // Where the command could not be run, there are no results.
  if (!launch_.ok() || (!result.status.ok() && !result.attached)) {
    directory_->Discard();
    return launch_.ok() ? result.status : launch_;
  }
  return Finish(result);
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
    *action = [arguments, command] { return RecordRun(*arguments, command).Run(); };
  });
}

}  // namespace proftrace
