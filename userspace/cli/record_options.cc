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
  record->add_option("-p,--pid", read, "process to record")
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
      "what operators are called with: sizes, types, strides, numbers");
  add("--with-flops", &options->info.with_flops,
      "floating-point operations by torch's formulas; records shapes, too");
  add("--profile-memory", &options->plan.profile_memory,
      "allocations and frees of CPU and device memory");
  add("--with-stack", &options->bpf.with_stack, "the Python stacks that call operators");
  // An nn.Module is found by the frame of its call, so that stacks are needed.
  add("--with-modules", &options->bpf.with_modules,
      "the nn.Modules that call operators, also those of TorchScript; records stacks, too");
  add("--python-gc", &options->plan.python_gc,
      "Python's garbage collections, rows `Python GC`, as torch's record_python_gc_info gives "
      "them");
  const auto all = [options] {
    options->plan.record_shapes = options->info.with_flops = options->plan.profile_memory = true;
    options->bpf.with_stack = options->bpf.with_modules = true;
  };
  arguments->of_operators.push_back(
      record
          ->add_flag_callback("--all", all,
                              "all of --record-shapes, --with-flops, --profile-memory, "
                              "--with-stack and --with-modules")
          ->group(kGroupWhat));
}

void AddWhat(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  AddPids(record, options);
  record
      ->add_flag("-a,--all-processes", options->all,
                 "every process that has loaded PyTorch, also those that start later")
      ->group(kGroupWhat);
  record
      ->add_flag("--follow-children,!--no-follow-children", options->bpf.follow_children,
                 "record forked and spawned children, too; --no-follow-children does not (default: "
                 "on)")
      ->group(kGroupWhat);
  AddParsed(record, "--activities", "LIST", &arguments->activities, ParseActivities,
            "cpu: operators; cuda: GPUs (without this option where the CUDA driver is in use); "
            "syscalls: all system calls; io: those that move bytes of files or the network; sched: "
            "time off the CPU, and why; faults: page faults. Without cpu any process can be "
            "recorded")
      ->group(kGroupWhat);
  AddOfOperators(record, arguments);
  arguments->of_operators.push_back(
      AddParsed(record, "--sample", "FREQUENCY", &options->sample_period_ns, ParseFrequency,
                "look at every thread so often, whatever it does: its frames of Python and of C, "
                "and what it waits for; 99Hz, say")
          ->group(kGroupWhat));
  record
      ->add_flag("--waker-stacks", options->samples_wakers,
                 "with sched: what a thread was in when it woke another one, frames of Python and "
                 "of C")
      ->group(kGroupWhat);
  AddChoice(record, "--gpu", &arguments->gpu, kGpuChoices,
            "how GPUs are recorded: agent: by CUPTI, in the process; launch: the calls of the CUDA "
            "Runtime and Driver alone; auto: by CUPTI where it can be used, else launch, where "
            "the driver is in use")
      ->group(kGroupWhat);
}

void AddWhen(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  AddParsed(record, "-d,--duration", "TIME", &options->duration_s, ParseDuration,
            "how long: 10s, 250ms, 2m; without it until ^C or the target's end")
      ->group(kGroupWhen);
  AddParsed(record, "--start-at", "INSTANT", &options->start_unix_ns, ParseStart,
            "2026-11-22T02:35:00Z, +5s, or /10s for the next multiple of 10 s")
      ->group(kGroupWhen);
  CLI::Option* steps =
      record
          ->add_option("--steps", options->steps, "until so many rounds of the job's loop are over")
          ->type_name("N")
          ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000}))
          ->group(kGroupWhen);
  CLI::Option* schedule =
      AddParsed(record, "--schedule", "SCHEDULE", &arguments->schedule, ParseSchedule,
                "steps as torch.profiler.schedule() takes them, one result directory a cycle: "
                "skip_first=10,wait=5,warmup=1,active=3,repeat=2,skip_first_wait=1 (not 0: the "
                "first cycle does not wait)")
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
            "bpf: by the kernel's probes; patch: by jumps in the job's code, for a fraction of the "
            "cost; auto: by probes where they cost little, else by jumps where these can be")
      ->group(kGroupHow);
  AddParsed(record, "--auto-limit", "PERCENT", &options->auto_limit_percent, ParsePercent,
            "what --tier auto lets probes slow a thread by before it takes jumps")
      ->default_str("3%")
      ->group(kGroupHow);
  record
      ->add_flag("--no-bpf", options->without_bpf,
                 "by jumps alone: load no BPF programs, as where this user may not; what needs "
                 "them is named as missing")
      ->group(kGroupHow);
  record
      ->add_flag("--no-inject", arguments->no_inject,
                 "change nothing in the target: no agent for CUPTI, no jumps")
      ->group(kGroupHow);
  AddSeccompOption(record)->group(kGroupHow);
  arguments->of_operators.push_back(
      AddParsed(record, "--max-overhead", "PERCENT", &options->max_overhead_percent, ParsePercent,
                "what recording may take of the job's time, 5% say: the hottest small operators "
                "are only counted where it would take more")
          ->group(kGroupHow));
  AddParsed(record, "--buffer-size", "SIZE", &options->bpf.ring_bytes, ParseRing,
            "of the ring in the kernel")
      ->default_str("32M")
      ->group(kGroupHow);
}

void AddOutputs(CLI::App* record, RecordArguments* arguments) {
  RecordOptions* options = &arguments->options;
  record
      ->add_option("-o,--output", arguments->output,
                   "where results go: a directory, missing or empty; FILE.tar, or - for the "
                   "standard output: one tar archive. %h is the host, %r the rank, %p the PID, %a "
                   "the attempt: names that do not collide on storage that many hosts share")
      ->type_name("PATH")
      ->check([](const std::string& path) {
        return path.empty() ? std::string("an empty name; give one, or leave -o out") : "";
      })
      ->group(kGroupOutputs);
  record->add_option("--format", arguments->formats, "outputs to write; none: the capture alone")
      ->type_name("LIST")
      ->capture_default_str()
      ->group(kGroupOutputs);
  record
      ->add_flag("--cuda-sync-events", arguments->cuda_sync_events,
                 "traces get rows of waits for the GPU and of its events, too (export has the same "
                 "option)")
      ->group(kGroupOutputs);
  record->add_option("--trace-name", options->info.trace_name, "kept in the trace as traceName")
      ->type_name("TEXT")
      ->group(kGroupOutputs);
  record->add_option("--metadata", arguments->metadata, "kept in the trace")
      ->type_name("KEY=VALUE")
      ->group(kGroupOutputs);
  record
      ->add_option("--metadata-json", arguments->metadata_json,
                   "kept in the trace: a number, a list or an object, say")
      ->type_name("KEY=JSON")
      ->group(kGroupOutputs);
  record->add_flag("--force", arguments->force, "write into a directory that is not empty")
      ->group(kGroupOutputs);
  record->add_flag("--strict", arguments->strict, "exit with 9 when events were lost")
      ->group(kGroupOutputs);
}

void AddMessages(CLI::App* record, RecordArguments* arguments) {
  record->add_flag("-q,--quiet", arguments->quiet, "only the table and errors")
      ->group(kGroupMessages);
  record->add_flag("--no-progress", arguments->no_progress, "no live line")->group(kGroupMessages);
  record
      ->add_flag(
          "--json", arguments->json,
          "print what happens on standard output, a JSON object a line, and no table; what a "
          "command prints goes to standard error")
      ->group(kGroupMessages);
  AddJsonSchema(record)->group(kGroupMessages);
  record
      ->add_flag("-v,--verbose", arguments->verbose,
                 "name the children that are followed, and all that was not recorded")
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
                 "under sudo: the command after -- runs as root, not as the user who called sudo")
      ->group(kGroupHow);
  AddOutputs(record, arguments);
  AddMessages(record, arguments);
}

}  // namespace proftrace
