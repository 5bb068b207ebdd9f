#include <fcntl.h>
#include <signal.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
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
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/launch.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/result_archive.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/result_name.h"
#include "userspace/cli/say.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

// What is recorded, as it is when it begins; `Targets::refused` are not.
struct Targets {
  std::vector<Pid> pids;
  std::set<Pid> refused;
  std::string command;  // that was started; empty: there is none
};

std::string DescribeTargets(const Targets& targets, size_t processes) {
  std::string text;
  size_t named = 0;
  for (const Pid pid : targets.pids) {
    if (targets.refused.contains(pid)) continue;
    const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    const std::string comm = !targets.command.empty() ? targets.command
                             : info.ok()              ? info->comm
                                                      : "?";
    text += (text.empty() ? "PID " : ", PID ") + std::to_string(Raw(pid)) + " (" + ShownText(comm) +
            ")";
    ++named;
  }
  if (processes > named) {
    const size_t more = processes - named;
    text += " and " + std::to_string(more) + (more == 1 ? " child" : " children");
  }
  return text;
}

std::function<void(const Ready&)> ReadyLine(const std::shared_ptr<Targets>& targets, bool all) {
  return [targets, all](const Ready& ready) {
    const std::string target = DescribeTargets(*targets, ready.processes);
    if (all && ready.processes == 0) {
      Say("no process has loaded PyTorch yet; waiting for the first");
      return;
    }
    if (all) {
      Say("recording all PyTorch processes, %zu now, %u operators, probes on "
          "after %.2f s",
          ready.processes, ready.operator_count, ready.attach_s);
      return;
    }
    if (ready.operator_count == 0) {
      Say("starting %s; its probes go in when it loads PyTorch", target.c_str());
      return;
    }
    Say("recording %s, %u operators, probes on after %.2f s", target.c_str(), ready.operator_count,
        ready.attach_s);
  };
}

RecordCallbacks MakeCallbacks(const RecordArguments& arguments, const RecordOptions& options,
                              const std::shared_ptr<Targets>& targets) {
  RecordCallbacks callbacks;
  callbacks.on_refused = [targets](Pid pid, const absl::Status& why) {
    targets->refused.insert(pid);
    Say("warning: PID %u is not recorded: %s; the others are", Raw(pid),
        std::string(why.message()).c_str());
  };
  callbacks.on_left_behind = [](const std::string& what) { Say("warning: %s", what.c_str()); };
  callbacks.on_missing = [](const std::string& what) { Say("warning: %s", what.c_str()); };
  if (arguments.quiet) return callbacks;
  const bool all = options.all;
  if (!options.info.system.operators) {
    callbacks.on_ready = [all, targets, what = options.info.system.ToText()](const Ready& ready) {
      const std::string who = all ? "all processes" : DescribeTargets(*targets, 0);
      Say("recording %s, %s, %zu processes, after %.2f s", who.c_str(), what.c_str(),
          ready.processes, ready.attach_s);
    };
  } else {
    callbacks.on_ready = ReadyLine(targets, all);
  }
  if (!options.without_bpf) {
    callbacks.on_without_bpf = [](const std::string& why) {
      Say("jumps record alone, without eBPF: %s", why.c_str());
    };
  }
  callbacks.on_tier = [is_verbose = arguments.verbose > 0](const std::string& tier,
                                                           const TierChoice& choice) {
    // Probes that cost little are nothing to tell of.
    if (tier != "patch" && !choice.are_jumps_refused && !is_verbose) return;
    Say("by %s: %s", tier == "patch" ? "jumps" : "probes", choice.reason.c_str());
  };
  callbacks.on_import = [](Pid pid) {
    Say("PID %u is importing PyTorch: waiting for its operators", Raw(pid));
  };
  callbacks.on_anothers_jumps = [](const std::string& why) { Say("%s", why.c_str()); };
  callbacks.on_budget = [is_verbose = arguments.verbose > 0](const BudgetNews& news,
                                                             double after_s) {
    if (!news.demoted.empty()) {
      std::string names;
      for (const std::string& name : news.demoted) names += (names.empty() ? "" : ", ") + name;
      Say("PID %u: from %.2f s on only counted: %s", Raw(news.pid), after_s, names.c_str());
    }
    if (is_verbose && news.measured_percent.has_value()) {
      Say("PID %u: estimated overhead now %.2f %%", Raw(news.pid), *news.measured_percent);
    }
  };
  const auto started = std::chrono::steady_clock::now();
  callbacks.on_awaited = [started](Pid pid, uint32_t operator_count) {
    const std::chrono::duration<double> after = std::chrono::steady_clock::now() - started;
    Say("recording PID %u, %u operators, probes on after %.2f s", Raw(pid), operator_count,
        after.count());
  };
  if (arguments.verbose > 0) {
    callbacks.on_follow = [](Pid child, int64_t after_ns) {
      Say("following PID %u, %.1f ms after its fork", Raw(child),
          static_cast<double>(after_ns) * 1e-6);
    };
  }
  if (arguments.no_progress || isatty(STDERR_FILENO) == 0) return callbacks;
  callbacks.on_progress = [](const Progress& progress) {
    char step[80] = "";
    if (progress.step_ms.has_value() && progress.steps > 0) {
      std::snprintf(step, sizeof(step), ", %llu steps of TID %u, the last of %.2f ms",
                    static_cast<unsigned long long>(progress.steps), Raw(progress.step_tid),
                    *progress.step_ms);
    } else if (progress.step_ms.has_value()) {
      std::snprintf(step, sizeof(step), ", step of TID %u %.2f ms", Raw(progress.step_tid),
                    *progress.step_ms);
    }
    ShowProgress("%.1f s, %.0f records/s, %llu lost%s", progress.elapsed_s, progress.records_per_s,
                 static_cast<unsigned long long>(progress.lost), step);
  };
  return callbacks;
}

absl::StatusOr<std::vector<const Format*>> ChooseFormats(const RecordArguments& arguments) {
  absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.formats);
  if (!formats.ok()) return formats.status();
  const RecordOptions& options = arguments.options;
  for (const Format* format : *formats) {
    const bool lacks_memory = format->needs == FormatNeeds::kMemory && !options.plan.profile_memory;
    const bool lacks_samples =
        format->needs == FormatNeeds::kSamples && !options.sample_period_ns.has_value();
    if (!lacks_memory && !lacks_samples) continue;
    return Fail(ExitCode::kUsage, "--format " + std::string(format->name) + " needs " +
                                      (lacks_memory ? "--profile-memory" : "--sample"));
  }
  return formats;
}

std::optional<int64_t> NumberInEnvironment(const char* name) {
  const char* const text = getenv(name);
  return text == nullptr ? std::nullopt : ParseNumber<int64_t>(text);
}

// What names results, of this host; a command has the rank that this program's launcher gave it.
ResultNameFacts OwnNameFacts(bool of_command) {
  ResultNameFacts facts;
  utsname names{};
  uname(&names);
  facts.host = names.nodename;
  if (!of_command) return facts;
  facts.rank = NumberInEnvironment("RANK");
  if (!facts.rank) facts.rank = NumberInEnvironment("SLURM_PROCID");
  auto attempt = NumberInEnvironment("TORCHELASTIC_RESTART_COUNT");
  if (!attempt) attempt = NumberInEnvironment("SLURM_RESTART_COUNT");
  facts.attempt = static_cast<uint32_t>(attempt.value_or(0));
  return facts;
}

// What names the result of a running process.
void TakeJob(const ProcessInfo& info, bool is_alone, ResultNameFacts* facts) {
  if (is_alone && info.rank) facts->rank = *info.rank;
  const JobIdentity& job = info.job;
  facts->attempt = job.elastic_restart_count.value_or(job.slurm_restart_count.value_or(0));
}

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
        LaunchedCommand::Start(command, arguments.as_root);
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
                                       arguments.strict, arguments.quiet});
  } else {
    writer = CreateWriter(&*directory);
  }
  if (!writer.ok()) {
    directory->Discard();
    return writer.status();
  }

  const auto targets = std::make_shared<Targets>();
  targets->pids = options->pids.empty() ? options->awaited : options->pids;
  if (!command.empty()) targets->command = command[0];
  RecordCallbacks callbacks = MakeCallbacks(arguments, *options, targets);
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
  if (!arguments.quiet) {
    options->plan.on_analysis = [](const std::string& build_id, uint64_t bytes) {
      Say("analysing a library of %llu MB that is not known (build %.8s); what is found is kept "
          "for "
          "the next time",
          static_cast<unsigned long long>(bytes >> 20), ShownText(build_id).c_str());
    };
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
