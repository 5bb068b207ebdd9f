#include <fcntl.h>
#include <signal.h>
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
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/capture/recorder.h"
#include "userspace/cli/cache_directory.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/cut_cycles.h"
#include "userspace/cli/finish_recording.h"
#include "userspace/cli/flight_dumps.h"
#include "userspace/cli/flight_options.h"
#include "userspace/cli/launch.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/result_directory.h"
#include "userspace/cli/say.h"
#include "userspace/cli/step_schedule.h"
#include "userspace/cli/stop_signals.h"
#include "userspace/cli/version.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

// Below this many bytes a burst of one scheduler slice no longer fits.
constexpr uint64_t kSmallestRing = 4096;
constexpr uint64_t kLargestRing = 1u << 30;

absl::StatusOr<RecordOptions> MakeOptions(const RecordArguments& arguments,
                                          const std::vector<std::string>& all) {
  RecordOptions options;
  for (const uint32_t pid : arguments.pids) {
    const bool again = std::any_of(options.pids.begin(), options.pids.end(),
                                   [pid](Pid other) { return Raw(other) == pid; });
    if (!again) options.pids.push_back(Pid{pid});
  }
  if (arguments.duration.has_value()) {
    absl::StatusOr<double> seconds = ParseDuration(*arguments.duration);
    if (!seconds.ok()) return seconds.status();
    options.duration_s = *seconds;
  }
  if (arguments.start_at.has_value()) {
    const int64_t now_ns = ClockNs(CLOCK_REALTIME);
    const absl::StatusOr<int64_t> start_ns = ParseInstant(*arguments.start_at, now_ns);
    if (!start_ns.ok()) return start_ns.status();
    if (*start_ns < now_ns) {
      return Fail(ExitCode::kUsage, "--start-at " + *arguments.start_at + " is over already");
    }
    options.start_unix_ns = *start_ns;
  }
  options.steps = arguments.steps;
  if (arguments.schedule.has_value()) {
    absl::StatusOr<StepSchedule> schedule = ParseSchedule(*arguments.schedule);
    if (!schedule.ok()) return schedule.status();
    options.steps = schedule->TotalSteps();
    options.counts_steps = true;
  }
  absl::StatusOr<std::optional<FlightOptions>> flight = MakeFlightOptions(
      arguments.flight,
      {arguments.steps.has_value() || arguments.schedule.has_value(), arguments.profile_memory});
  if (!flight.ok()) return flight.status();
  options.flight = *std::move(flight);
  absl::StatusOr<uint64_t> ring_bytes = ParseSize(arguments.buffer_size);
  if (!ring_bytes.ok()) return ring_bytes.status();
  if (*ring_bytes < kSmallestRing || *ring_bytes > kLargestRing) {
    return Fail(ExitCode::kUsage, "--buffer-size must be from 4K to 1G");
  }
  options.bpf.ring_bytes = static_cast<uint32_t>(kSmallestRing);
  while (options.bpf.ring_bytes < *ring_bytes) options.bpf.ring_bytes *= 2;
  options.all = arguments.all_processes;
  options.bpf.loss_threads = arguments.loss_threads;
  options.bpf.follow_children = !arguments.no_follow_children;
  options.bpf.empty_program = arguments.probe_program == "empty";
  if (arguments.trace_events) options.bpf.first_api = UprobeApi::kTrace;
  if (arguments.perf_links) options.bpf.first_api = UprobeApi::kPerf;
  options.bpf.force_links_for_all = arguments.links_for_all;
  if (arguments.sample.has_value()) {
    const absl::StatusOr<int64_t> period_ns = ParseFrequency(*arguments.sample);
    if (!period_ns.ok()) return period_ns.status();
    options.sample_period_ns = *period_ns;
  }
  if (absl::Status status = ParseActivities(arguments, &options); !status.ok()) return status;
  if (absl::Status status = ParseBudget(arguments, &options); !status.ok()) return status;
  if (arguments.waker_stacks && !options.info.system.sched) {
    return Fail(ExitCode::kUsage, "--waker-stacks needs sched in --activities");
  }
  options.samples_wakers = arguments.waker_stacks;
  options.plan.cache_directory = CacheDirectory();
  options.plan.profile_memory = arguments.profile_memory;
  options.plan.python_gc = arguments.python_gc;
  // Flops are made of shapes.
  options.plan.record_shapes = arguments.record_shapes || arguments.with_flops;
  // An nn.Module is known by the frame of its call.
  options.bpf.with_stack = arguments.with_stack || arguments.with_modules;
  options.bpf.beside_jumps = arguments.tier == "patch";
  options.bpf.record_shapes = options.plan.record_shapes;
  absl::StatusOr<CudaCalls> cuda_calls = ChooseCudaCalls(arguments);
  if (!cuda_calls.ok()) return cuda_calls.status();
  options.plan.cuda_calls = *cuda_calls;
  absl::StatusOr<std::optional<AgentOptions>> agent = ChooseAgent(arguments, *cuda_calls);
  if (!agent.ok()) return agent.status();
  options.agent = *std::move(agent);
  options.puts_jumps = arguments.tier == "patch";
  options.without_bpf = arguments.no_bpf;
  options.info.tier = arguments.tier;
  options.info.with_flops = arguments.with_flops;
  options.info.proftrace_version = kVersion;
  options.info.arguments = all;
  options.info.trace_name = arguments.trace_name;
  if (absl::Status status = ParseMetadata(arguments, &options.info); !status.ok()) return status;
  return options;
}

absl::Status CheckChoices(const RecordArguments& arguments, bool has_command) {
  const int targets =
      (arguments.pids.empty() ? 0 : 1) + (arguments.all_processes ? 1 : 0) + (has_command ? 1 : 0);
  if (targets != 1) {
    return Fail(ExitCode::kUsage,
                "give what to record: -p PID of a running process, -a for every PyTorch process, "
                "or -- COMMAND ARGS");
  }
  if (arguments.all_processes && arguments.no_follow_children) {
    return Fail(ExitCode::kUsage, "-a records children too: give it or --no-follow-children");
  }
  if (arguments.steps.has_value() && arguments.schedule.has_value()) {
    return Fail(ExitCode::kUsage, "give --steps or --schedule, not both");
  }
  if (arguments.tier != "bpf" && arguments.tier != "patch") {
    return Fail(ExitCode::kUsage, "--tier " + arguments.tier + ": choose bpf or patch");
  }
  if (arguments.no_inject && arguments.tier == "patch") {
    return Fail(ExitCode::kUsage, "--tier patch and --no-inject exclude each other");
  }
  if (arguments.no_bpf && arguments.tier != "patch") {
    return Fail(ExitCode::kUsage, "--no-bpf is for --tier patch: tier bpf records by eBPF alone");
  }
  return absl::OkStatus();
}

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
  const bool all = arguments.all_processes;
  if (!options.info.system.operators) {
    callbacks.on_ready = [all, targets, what = options.info.system.ToText()](const Ready& ready) {
      const std::string who = all ? "all processes" : DescribeTargets(*targets, 0);
      Say("recording %s, %s, %zu processes, after %.2f s", who.c_str(), what.c_str(),
          ready.processes, ready.attach_s);
    };
  } else {
    callbacks.on_ready = ReadyLine(targets, all);
  }
  if (!arguments.no_bpf) {
    callbacks.on_without_bpf = [](const std::string& why) {
      Say("jumps record alone, without eBPF: %s", why.c_str());
    };
  }
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

absl::Status RunRecord(const RecordArguments& arguments, const std::vector<std::string>& all,
                       const std::vector<std::string>& command) {
  if (absl::Status status = CheckChoices(arguments, !command.empty()); !status.ok()) return status;
  absl::StatusOr<RecordOptions> options = MakeOptions(arguments, all);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::vector<const Format*>> formats = ParseFormatList(arguments.formats);
  if (!formats.ok()) return formats.status();
  for (const Format* format : *formats) {
    const bool lacks_memory = format->needs == FormatNeeds::kMemory && !arguments.profile_memory;
    const bool lacks_samples = format->needs == FormatNeeds::kSamples && !arguments.sample;
    if (!lacks_memory && !lacks_samples) continue;
    return Fail(ExitCode::kUsage, "--format " + std::string(format->name) + " needs " +
                                      (lacks_memory ? "--profile-memory" : "--sample"));
  }

  StopOnSignals();
  std::unique_ptr<LaunchedCommand> launched;
  std::string comm = arguments.all_processes ? "all" : "command";
  Pid first{static_cast<uint32_t>(getpid())};
  for (const Pid pid : options->pids) {
    absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
    if (!info.ok()) return info.status();
    if (pid == options->pids.front()) comm = info->comm;
    first = options->pids.front();
  }
  if (!command.empty()) {
    // The CUDA driver loads it when it is initialized, and NVTX at the first range. One of the
    // user's own stays.
    if (options->agent.has_value()) {
      setenv("CUDA_INJECTION64_PATH", options->agent->library.c_str(), /*overwrite=*/0);
      setenv("NVTX_INJECTION64_PATH", options->agent->library.c_str(), /*overwrite=*/0);
    }
    absl::StatusOr<std::unique_ptr<LaunchedCommand>> child =
        LaunchedCommand::Start(command, arguments.as_root);
    if (!child.ok()) return child.status();
    launched = *std::move(child);
    first = launched->pid();
    comm = command[0].substr(command[0].rfind('/') + 1);
    options->awaited.push_back(first);
  }
  const std::string path =
      arguments.output.empty() ? DefaultResultName(comm, first) : arguments.output;
  absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(path, arguments.force);
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
  return status.ok() ? result.code : status;
}

}  // namespace

void AddRecordCommand(CLI::App& app, const std::vector<std::string>& all,
                      const std::vector<std::string>& command, Action* action) {
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* record = app.add_subcommand(
      "record",
      "Attach to running PyTorch processes, or start one after --, and record what they do.\n"
      "'record' may be left out. Example: sudo proftrace record -p 4711 -d 10s -o result");
  record->add_option("-p,--pid", arguments->pids, "process to record; may be given several times")
      ->check(WhyNoPid);
  record->add_flag("-a,--all-processes", arguments->all_processes,
                   "every process that has loaded PyTorch, also those that start later");
  record->add_option("-d,--duration", arguments->duration,
                     "how long: 10s, 250ms, 2m; without it until ^C or the target's end");
  record->add_option("--start-at", arguments->start_at,
                     "when: 2026-11-22T02:35:00Z, +5s, or /10s for the next multiple of 10 s");
  record
      ->add_option("--steps", arguments->steps,
                   "until so many steps (rounds of the job's loop) are over")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}));
  record->add_option("--schedule", arguments->schedule,
                     "steps as torch.profiler.schedule() takes them, one result directory a "
                     "cycle: skip_first=10,wait=5,warmup=1,active=3,repeat=2,skip_first_wait=1 "
                     "(not 0: the first cycle does not wait)");
  AddFlightOptions(record, &arguments->flight);
  record->add_option("-o,--output", arguments->output,
                     "directory for the results; missing or empty");
  record->add_option("--format", arguments->formats, "outputs to write; 'none' = capture only")
      ->capture_default_str();
  record->add_option("--buffer-size", arguments->buffer_size, "of the ring in the kernel")
      ->capture_default_str();
  record->add_option(
      "--activities", arguments->activities,
      "what to record, a list: cpu = operators; cuda (default: where the CUDA driver is in use); "
      "syscalls; io = those that move bytes of files or the network; sched = time off the CPU, and "
      "why; faults = page faults. Without cpu any process can be recorded");
  record->add_flag("--record-shapes", arguments->record_shapes,
                   "record what operators are called with: sizes, types, strides, numbers");
  record->add_flag("--with-flops", arguments->with_flops,
                   "estimate floating-point operations by torch's formulas; records shapes, too");
  record->add_flag("--profile-memory", arguments->profile_memory,
                   "record allocations and frees of CPU and device memory");
  record->add_flag("--with-stack", arguments->with_stack,
                   "record the Python stacks in which operators are called");
  record->add_flag("--with-modules", arguments->with_modules,
                   "record which nn.Modules call operators, eager ones, too; as --with-stack does");
  record->add_flag("--python-gc", arguments->python_gc,
                   "rows of Python's garbage collections, `Python GC`, as torch's "
                   "record_python_gc_info gives them");
  record->add_flag("--cuda-sync-events", arguments->cuda_sync_events,
                   "traces get rows of waits for the GPU and of its events, too (`export` has "
                   "the same option)");
  record->add_option("--max-overhead", arguments->max_overhead,
                     "what recording may take of the job's time, 5% say: the hottest small "
                     "operators are only counted where it would take more");
  record->add_option("--sample", arguments->sample,
                     "look at every thread so often, whatever it does, 99Hz say: its frames of "
                     "Python and of C, and what it waits for");
  record->add_flag("--waker-stacks", arguments->waker_stacks,
                   "with sched: what a thread was in when it woke another one, frames of Python "
                   "and of C");
  record->add_flag("--all", arguments->all_options,
                   "all of --record-shapes, --with-flops, --profile-memory, --with-stack and "
                   "--with-modules");
  record->add_option("--tier", arguments->tier, "how events are captured")->capture_default_str();
  record->add_flag("--no-bpf", arguments->no_bpf,
                   "with --tier patch: load no BPF programs, as where this user may not; what "
                   "needs them is named as missing");
  record
      ->add_option("--gpu", arguments->gpu,
                   "how GPU activity is captured: agent = by CUPTI, in the process; launch = the "
                   "calls of the CUDA Runtime and Driver alone; auto = by CUPTI where it can be "
                   "used, else launch, where the driver is in use; off")
      ->capture_default_str();
  record->add_option("--trace-name", arguments->trace_name, "kept in the trace as traceName");
  record->add_option("--metadata", arguments->metadata, "KEY=VALUE, kept in the trace");
  record->add_option("--metadata-json", arguments->metadata_json,
                     "KEY=JSON, likewise: a number, a list or an object, say");
  record->add_flag(
      "--follow-children,!--no-follow-children",
      [arguments](int64_t on) { arguments->no_follow_children = on < 0; },
      "record forked and spawned children (on)");
  record->add_flag("--as-root", arguments->as_root,
                   "under sudo: the command after -- runs as root, not as the user who called "
                   "sudo");
  record->add_flag("--no-inject", arguments->no_inject,
                   "change nothing in the target: no agent for CUPTI, no jumps");
  record->add_flag("--strict", arguments->strict, "exit with 9 when events were lost");
  record->add_flag("--force", arguments->force, "write into a directory that is not empty");
  record->add_flag("-q,--quiet", arguments->quiet, "only the table and errors");
  record->add_flag("--no-progress", arguments->no_progress, "no live line");
  record->add_flag("-v,--verbose", arguments->verbose, "say which children are followed");
  // For tests and benchmarks; not in --help.
  record->add_option("--probe-program", arguments->probe_program)
      ->check(CLI::IsMember({"record", "empty"}))
      ->group("");
  record->add_flag("--trace-events", arguments->trace_events)->group("");
  record->add_flag("--perf-links", arguments->perf_links)->group("");
  record->add_flag("--links-for-all", arguments->links_for_all)->group("");
  record->add_flag("--keep-counting", arguments->keep_counting)->group("");
  record->add_option("--loss-threads", arguments->loss_threads)->group("");
  record->callback([arguments, all, command, action] {
    if (arguments->all_options) {
      arguments->record_shapes = arguments->with_flops = arguments->profile_memory = true;
      arguments->with_stack = arguments->with_modules = true;
    }
    *action = [arguments, all, command] { return RunRecord(*arguments, all, command); };
  });
}

}  // namespace proftrace
