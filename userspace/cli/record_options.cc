#include <algorithm>
#include <array>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/option_help.h"
#include "userspace/cli/option_kinds.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/record_arguments.h"
#include "userspace/cli/seccomp_option.h"

namespace proftrace {
namespace {

constexpr std::array<Choice<Tier>, 3> kTiers = {
    {{"auto", Tier::kAuto}, {"bpf", Tier::kBpf}, {"patch", Tier::kPatch}}};
constexpr std::array<Choice<GpuChoice>, 4> kGpuChoices = {{{"auto", GpuChoice::kAuto},
                                                           {"agent", GpuChoice::kAgent},
                                                           {"launch", GpuChoice::kLaunch},
                                                           {"off", GpuChoice::kOff}}};

// Limits of a ring's size in bytes. A smaller ring cannot hold the events of one scheduler slice.
constexpr uint64_t kSmallestRing = 4096;
constexpr uint64_t kLargestRing = 1u << 30;

// Parses a ring's size, and makes it a power of two.
absl::StatusOr<uint32_t> ParseRing(const std::string& text) {
  const absl::StatusOr<uint64_t> bytes = ParseSize(text);
  if (!bytes.ok()) return bytes.status();
  if (*bytes < kSmallestRing || *bytes > kLargestRing) {
    return Fail(ExitCode::kUsage, "a ring has from 4K to 1G");
  }
  uint64_t ring = kSmallestRing;
  while (ring < *bytes) ring *= 2;
  return static_cast<uint32_t>(ring);
}

absl::StatusOr<int64_t> ParseStart(const std::string& text) {
  const int64_t now_ns = ClockNs(CLOCK_REALTIME);
  absl::StatusOr<int64_t> start_ns = ParseInstant(text, now_ns);
  if (start_ns.ok() && *start_ns < now_ns) {
    return Fail(ExitCode::kUsage, "'" + text + "' is over already");
  }
  return start_ns;
}

void AddPids(CLI::App* record, RecordOptions* options) {
  const auto read = [options](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      const Pid pid{static_cast<uint32_t>(std::stoul(text))};
      const bool is_new =
          std::find(options->pids.begin(), options->pids.end(), pid) == options->pids.end();
      if (is_new) options->pids.push_back(pid);
    }
    return true;
  };
  record->add_option("-p,--pid", read, "records this process")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->type_name("PID")
      ->check(WhyNoPid)
      ->group(kGroupWhat);
}

// Adds options for what is recorded about operators beside their names and times.
void AddOfOperators(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  const auto add = [&](const char* name, bool* target, const char* text) {
    CLI::Option* option = record->add_flag(name, *target, text)->group(kGroupWhat);
    arguments->of_operators.push_back(option);
  };
  add("--record-shapes", &options->plan.record_shapes,
      "records what operators are called with: sizes, types, strides, numbers");
  add("--with-flops", &options->info.with_flops,
      "counts floating-point operations by torch's formulas; includes --record-shapes");
  add("--profile-memory", &options->plan.profile_memory,
      "records allocations and frees of CPU and device memory");
  add("--with-stack", &options->bpf.with_stack, "records the Python stacks that call operators");
  // An nn.Module is found by the frame of its call, so that stacks are needed.
  add("--with-modules", &options->bpf.with_modules,
      "records the nn.Modules that call operators, also those of TorchScript; includes "
      "--with-stack");
  add("--python-gc", &options->plan.python_gc,
      "records Python's garbage collections as rows `Python GC`, as torch's record_python_gc_info "
      "does");
  const auto all = [options] {
    options->plan.record_shapes = options->info.with_flops = options->plan.profile_memory = true;
    options->bpf.with_stack = options->bpf.with_modules = true;
  };
  arguments->of_operators.push_back(
      record
          ->add_flag_callback("--all", all,
                              "means --record-shapes, --with-flops, --profile-memory, --with-stack "
                              "and --with-modules")
          ->group(kGroupWhat));
}

void AddWhat(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  AddPids(record, options);
  record
      ->add_flag("-a,--all-processes", options->all,
                 "records every process that has loaded PyTorch, also those that start later")
      ->group(kGroupWhat);
  record
      ->add_flag(
          "--follow-children,!--no-follow-children", options->bpf.follow_children,
          "records forked and spawned children, too; --no-follow-children does not (default: on)")
      ->group(kGroupWhat);
  AddParsed(
      record, "--activities", "LIST", &arguments->activities, ParseActivities,
      "what is recorded, separated by commas. cpu: operators; cuda: GPUs (by default where the "
      "CUDA driver is in use); syscalls: all system calls; io: only system calls that move bytes "
      "of files or of the network; sched: the time that threads had no CPU, and why; faults: page "
      "faults. A list without cpu works for any process, with PyTorch or without")
      ->group(kGroupWhat);
  AddOfOperators(record, arguments);
  arguments->of_operators.push_back(
      AddParsed(
          record, "--sample", "FREQUENCY", &options->sample_period_ns, ParseFrequency,
          "takes samples of every thread at this rate, for example 99Hz, whether the thread runs "
          "or waits. A sample has the thread's Python and native frames and what it waits for")
          ->group(kGroupWhat));
  record
      ->add_flag("--waker-stacks", options->samples_wakers,
                 "needs --activities sched; records the Python and native frames that a thread was "
                 "in when it woke another one")
      ->group(kGroupWhat);
  AddChoice(record, "--gpu", &arguments->gpu, kGpuChoices,
            "how GPUs are recorded. agent: by CUPTI, inside the process; launch: only the calls of "
            "the CUDA Runtime and Driver, seen from outside; auto: agent where CUPTI can be used, "
            "else launch; off: not at all")
      ->group(kGroupWhat);
}

void AddWhen(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  AddParsed(record, "-d,--duration", "TIME", &options->duration_s, ParseDuration,
            "how long to record, for example 10s, 250ms or 2m. Without it proftrace records until "
            "^C or the target's end")
      ->group(kGroupWhen);
  AddParsed(record, "--start-at", "INSTANT", &options->start_unix_ns, ParseStart,
            "when to begin: 2026-11-22T02:35:00Z; +5s from now; or /10s, the next full multiple of "
            "10 s of the wall clock, which is the same on all hosts")
      ->group(kGroupWhen);
  CLI::Option* steps = record
                           ->add_option("--steps", options->steps,
                                        "ends the recording when the job has done this many steps, "
                                        "which are rounds of its training or inference loop")
                           ->type_name("N")
                           ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}))
                           ->group(kGroupWhen);
  CLI::Option* schedule =
      AddParsed(record, "--schedule", "SCHEDULE", &arguments->schedule, ParseSchedule,
                "records only some steps, as torch.profiler.schedule() does, for example "
                "skip_first=10,wait=5,warmup=1,active=3,repeat=2. With skip_first_wait=1 the first "
                "cycle does not wait. Each cycle has its own result directory")
          ->excludes(steps)
          ->group(kGroupWhen);
  // These options choose steps of the whole recording, of which a flight recorder keeps only the
  // last seconds.
  CLI::Option* flight = AddFlightOptions(record, &arguments->flight);
  flight->excludes(steps)->excludes(schedule);
  for (CLI::Option* option : {steps, schedule}) arguments->of_operators.push_back(option);
}

void AddHow(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  AddChoice(record, "--tier", &options->tier, kTiers,
            "how operators are recorded. bpf: by probes of the kernel; patch: by jumps that are "
            "written into the job's code and cost a fraction; auto: by probes where they cost "
            "little (see --auto-limit), else by jumps where the job can have them")
      ->group(kGroupHow);
  AddParsed(record, "--auto-limit", "PERCENT", &options->auto_limit_percent, ParsePercent,
            "with --tier auto: a process whose threads the probes would slow by more than this is "
            "recorded by jumps")
      ->default_str("3%")
      ->group(kGroupHow);
  record
      ->add_flag("--no-bpf", options->without_bpf,
                 "loads no BPF programs, and records by jumps alone; this needs no root for a job "
                 "of one's own. What only BPF can record is named as missing")
      ->group(kGroupHow);
  record
      ->add_flag("--no-inject", arguments->no_inject,
                 "writes nothing into the target: neither an agent for CUPTI nor jumps")
      ->group(kGroupHow);
  AddSeccompOption(record)->group(kGroupHow);
  arguments->of_operators.push_back(
      AddParsed(record, "--max-overhead", "PERCENT", &options->max_overhead_percent, ParsePercent,
                "the most that the recording may slow the job, for example 5%. Where it would take "
                "more, the smallest and most frequent operators are no longer recorded one by one: "
                "only their calls are counted")
          ->group(kGroupHow));
  AddParsed(record, "--buffer-size", "SIZE", &options->bpf.ring_bytes, ParseRing,
            "the size of the buffer between the kernel and proftrace. A larger one loses nothing "
            "where proftrace has to wait longer for a CPU")
      ->default_str("32M")
      ->group(kGroupHow);
}

void AddOutputs(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  record
      ->add_option("-o,--output", arguments->output,
                   "where results go: a directory that is missing or empty; FILE.tar for one tar "
                   "archive; - for a tar archive on standard output. In the name %h becomes the "
                   "host, %r the rank, %p the PID and %a the attempt, so that names do not collide "
                   "on storage that many hosts share")
      ->type_name("PATH")
      ->check([](const std::string& path) {
        return path.empty() ? std::string("an empty name; give one, or leave -o out") : "";
      })
      ->group(kGroupOutputs);
  record
      ->add_option("--format", arguments->formats,
                   "the outputs to write, separated by commas; none: only the capture, from which "
                   "export makes each of them")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(kGroupOutputs);
  record
      ->add_flag("--cuda-sync-events", arguments->cuda_sync_events,
                 "adds rows of waits for the GPU and of CUDA events to traces (export has the same "
                 "option)")
      ->group(kGroupOutputs);
  record
      ->add_option("--trace-name", options->info.trace_name,
                   "a name that is kept in the trace as traceName")
      ->type_name("TEXT")
      ->group(kGroupOutputs);
  record->add_option("--metadata", arguments->metadata, "a text that is kept in the trace")
      ->type_name("KEY=VALUE")
      ->group(kGroupOutputs);
  record
      ->add_option("--metadata-json", arguments->metadata_json,
                   "a value that is kept in the trace as JSON: a number, a list or an object")
      ->type_name("KEY=JSON")
      ->group(kGroupOutputs);
  record->add_flag("--force", arguments->force, "writes into a directory that is not empty, too")
      ->group(kGroupOutputs);
  record->add_flag("--strict", arguments->strict, "ends with exit code 9 when events were lost")
      ->group(kGroupOutputs);
}

void AddMessages(CLI::App* record, RecordArguments* arguments) {
  record->add_flag("-q,--quiet", arguments->quiet, "prints only the table and errors")
      ->group(kGroupMessages);
  record
      ->add_flag("--no-progress", arguments->no_progress,
                 "shows no line that counts while recording")
      ->group(kGroupMessages);
  record
      ->add_flag("--json", arguments->json,
                 "prints what happens on standard output, one JSON object a line, and no table. "
                 "What the command after -- prints goes to standard error")
      ->group(kGroupMessages);
  AddJsonSchema(record)->group(kGroupMessages);
  record
      ->add_flag("-v,--verbose", arguments->verbose,
                 "names the children that are followed, and everything that was not recorded")
      ->group(kGroupMessages);
  record->get_help_ptr()->group(kGroupMessages);
}

}  // namespace

void AddTracingOptions(CLI::App* command, RecordArguments* arguments) {
  AddWhat(command, arguments);
  AddHow(command, arguments);
}

void AddRecordOptions(CLI::App* record, RecordArguments* arguments) {
  AddWhat(record, arguments);
  AddWhen(record, arguments);
  AddHow(record, arguments);
  record
      ->add_flag("--as-root", arguments->as_root,
                 "runs the command after -- as root. Without it, under sudo, the command runs as "
                 "the user who called sudo")
      ->group(kGroupHow);
  AddOutputs(record, arguments);
  AddMessages(record, arguments);
}

}  // namespace proftrace
