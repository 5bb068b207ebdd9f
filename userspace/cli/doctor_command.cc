#include <linux/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "symbols/plan/planner.h"
#include "symbols/plan/process.h"
#include "symbols/plan/python_reading.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/own_path.h"
#include "userspace/base/shown_text.h"
#include "userspace/capture/gpu/gpu_process.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/probe_memory.h"
#include "userspace/capture/kernel/sample_programs.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/plans/unreached_code.h"
#include "userspace/cli/cache_directory.h"
#include "userspace/cli/commands.h"
#include "userspace/cli/json_schema.h"
#include "userspace/cli/parse.h"
#include "userspace/cli/say.h"
#include "userspace/cli/seccomp_option.h"
#include "userspace/cli/version.h"
#include "userspace/inject/injector.h"
#include "userspace/inject/seccomp_filter.h"
#include "userspace/inject/standstill.h"
#include "userspace/inject/trace_permission.h"
#include "userspace/patch/code_audit.h"
#include "userspace/patch/jump_cost.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/plan_spots.h"
#include "userspace/patch/ring_room.h"
#include "userspace/patch/tsc_clock.h"
#include "userspace/patch/whole_sites.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr char kJumps[] = "jumps (--tier patch)";

// The check of one thing that a recording needs.
struct Check {
  std::string name;
  bool ok = false;
  std::string detail;
};

// The results of all checks, and the status with which a recording would end.
struct Diagnosis {
  std::vector<Check> checks;
  absl::Status status;
  bool has_bpf = false;     // whether BPF can be used here
  bool has_probes = false;  // of the process that is asked for
  bool has_torch = false;   // of the process that is asked for
  bool has_jumps = false;
  // The seccomp filter of the process cannot be read, so that jumps need the user's statement of
  // what it allows.
  bool is_filter_unknown = false;

  void Add(const std::string& name, bool ok, const std::string& detail) {
    checks.push_back(Check{name, ok, detail});
  }
  void Add(const std::string& name, const absl::Status& result) {
    Add(name, false, std::string(result.message()));
    if (status.ok()) status = result;
  }
};

std::string ExitRuleName(ExitRule rule) {
  switch (rule) {
    case ExitRule::kNone:
      return "none";
    case ExitRule::kConditional:
      return "one conditional jump";
    case ExitRule::kSiteSet:
      return "several sites";
    case ExitRule::kReturn:
      return "ret instructions";
  }
  return "unknown";
}

// Checks which tiers can record on this host, and which processes.
void CheckTiers(const absl::Status& bpf, Diagnosis* diagnosis) {
  diagnosis->Add("tier bpf", bpf.ok(),
                 bpf.ok() ? "possible" : "not possible: the BPF programs cannot be loaded");
  const absl::Status clock = CheckTimeStampCounter();
  const bool may_be_any = HasCapability(CAP_SYS_PTRACE);
  std::string text = clock.ok() ? std::string("possible for running jobs, ") +
                                      (may_be_any ? "any process" : "processes of this user")
                                : std::string(clock.message());
  if (clock.ok() && !bpf.ok()) text += ", without eBPF: only what jumps can see is recorded";
  if (clock.ok() && !MayReadSeccompFilters()) {
    text +=
        "; of those with a seccomp filter, as in a container: commands that proftrace starts, and "
        "processes that start proftrace; others with --seccomp=runtime-default";
  }
  diagnosis->Add("tier patch", clock.ok(), text);
}

// Checks the BPF programs that only some recordings load. Where the kernel refuses them, other
// recordings still work.
void CheckOtherPrograms(Diagnosis* diagnosis) {
  const auto add = [diagnosis](const char* name, const absl::Status& loaded) {
    diagnosis->Add(name, loaded.ok(), loaded.ok() ? "load" : std::string(loaded.message()));
  };
  BpfOptions options;
  options.ring_bytes = 1u << 20;
  options.record_shapes = options.with_stack = true;
  const auto readers = BpfPrograms::Load(options);
  absl::Status inputs = readers.status();
  absl::Status stacks = readers.status();
  if (readers.ok()) {
    // In these cases the kernel has accepted only the programs without that part.
    constexpr char kRefused[] = "the kernel does not take its programs";
    if (!(*readers)->reads_inputs()) inputs = Fail(ExitCode::kHostUnfit, kRefused);
    if (!(*readers)->reads_stacks()) stacks = Fail(ExitCode::kHostUnfit, kRefused);
  }
  add("programs of --record-shapes", inputs);
  add("programs of --with-stack", stacks);
  add("programs of --sample", SamplePrograms::Load(/*wakers=*/false).status());
  add("programs of --activities",
      SystemPrograms::Load({SystemActivities::FromText("syscalls,io,sched,faults")}).status());
}

void CheckHost(Diagnosis* diagnosis) {
  utsname name{};
  uname(&name);
  diagnosis->Add("kernel", true, std::string(name.release) + " " + name.machine);
  const bool has_types = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
  diagnosis->Add(
      "kernel type information (BTF)", has_types,
      has_types ? "/sys/kernel/btf/vmlinux" : "missing: the kernel needs CONFIG_DEBUG_INFO_BTF");
  BpfOptions options;
  options.ring_bytes = 1u << 20;
  absl::StatusOr<std::unique_ptr<BpfPrograms>> programs = BpfPrograms::Load(options);
  diagnosis->has_bpf = programs.ok();
  if (!programs.ok()) diagnosis->Add("BPF programs", programs.status());
  CheckTiers(programs.status(), diagnosis);
  if (!programs.ok()) return;
  diagnosis->Add("BPF programs", true, "load");
  std::string probes = "one link a file (uprobe.multi)";
  if ((*programs)->are_links_for_all()) {
    probes +=
        ", which other processes with that file run into as well: for one process alone this "
        "kernel passes its first thread only; 6.10 and updates of 6.6 and 6.9 mend that";
  } else if ((*programs)->api() == UprobeApi::kTrace) {
    probes = "one event of the kernel's tracing a file and process (uprobe.multi needs 6.6)";
  } else if ((*programs)->api() == UprobeApi::kPerf) {
    probes =
        "one perf event a probe, which take minutes to remove: uprobe.multi needs 6.6, and "
        "events of the kernel's tracing a tracefs that can be written";
  }
  diagnosis->Add("probes", true, probes);
  char cost[64];
  std::snprintf(cost, sizeof(cost), "%.0f ns a hit, two hits an operator",
                (*programs)->ns_per_hit());
  diagnosis->Add("cost", true, cost);
  const absl::Status events = (*programs)->AttachProcessEvents();
  if (events.ok()) {
    diagnosis->Add("forks and exits", true, "can be followed");
  } else {
    diagnosis->Add("forks and exits", events);
  }
  CheckOtherPrograms(diagnosis);
}

// Checks what --record-shapes adds to `plan`. Rows that build their inputs only while a profiler
// runs have many names: they are counted here, and a recording names them.
void CheckInputs(Pid pid, PlanOptions options, const ProbePlan& plan, Diagnosis* diagnosis) {
  constexpr std::string_view kRows = "inputs of rows of ";
  options.record_shapes = true;
  const absl::StatusOr<ProbePlan> more = BuildProbePlan(pid, options);
  if (!more.ok()) {
    diagnosis->Add("inputs (--record-shapes)", more.status());
    return;
  }
  if (more->has_input_probes) diagnosis->Add("inputs (--record-shapes)", true, "can be read");
  size_t rows = 0;
  for (const PlanGap& gap : more->gaps) {
    const bool is_known =
        std::any_of(plan.gaps.begin(), plan.gaps.end(),
                    [&gap](const PlanGap& other) { return other.feature == gap.feature; });
    if (gap.feature.starts_with(kRows)) {
      ++rows;
    } else if (!is_known) {
      diagnosis->Add(gap.feature, false, gap.reason);
    }
  }
  if (rows != 0) {
    diagnosis->Add("inputs of rows (--record-shapes)", false,
                   "not clear from the code of " + std::to_string(rows) +
                       " functions, which a recording names in `unsupported`");
  }
}

void CheckStacks(Pid pid, Diagnosis* diagnosis) {
  constexpr char kWhat[] = "Python stacks (--with-stack)";
  const absl::StatusOr<PythonReading> python = ReadPython(pid);
  if (python.ok()) {
    diagnosis->Add(kWhat, true, "can be read: CPython " + python->runtime.version);
  } else {
    const bool has_none = absl::IsNotFound(python.status());
    diagnosis->Add(kWhat, has_none, std::string(python.status().message()));
  }
}

void CheckJumps(Pid pid, const ProbePlan& plan, Diagnosis* diagnosis) {
  absl::Status status = CheckPatchable(pid);
  diagnosis->is_filter_unknown = !status.ok() && !AreFiltersKnown(pid);
  if (const auto still = FindStandstill(pid);
      status.ok() && still.has_value() && still->kind == StandstillKind::kFrozen) {
    status = Fail(ExitCode::kHostUnfit, still->sentence);
  }
  PatchRingOptions ring;
  if (status.ok()) status = FitRing(pid, &ring);
  absl::StatusOr<PlanSpots> spots =
      status.ok() ? FindPlanSpots(pid, plan, plan.places, CacheDirectory()) : status;
  if (spots.ok() && !diagnosis->has_bpf) KeepWholeSites(plan, &*spots);
  const absl::StatusOr<JumpCost> cost = spots.ok() ? MeasureJumpCost() : spots.status();
  if (!cost.ok()) {
    diagnosis->Add(kJumps, false, std::string(cost.status().message()));
    return;
  }
  char text[160];
  std::snprintf(text, sizeof(text),
                "%zu of %zu places can have one, %.0f to %.0f ns each; the others %s",
                spots->spots.size(), spots->spots.size() + spots->unpatched.size(),
                cost->record.warm, cost->record.cold,
                diagnosis->has_bpf ? "keep probes" : "are not recorded, as there is no eBPF");
  diagnosis->Add(kJumps, true, text);
  diagnosis->has_jumps = true;
}

// Adds the tier that a recording without --tier would choose for this process.
void AddTierChoice(Diagnosis* diagnosis) {
  const bool bpf = diagnosis->has_probes;
  const bool jumps = diagnosis->has_jumps;
  const char* choice = "neither probes nor jumps can be used";
  if (bpf && jumps) {
    choice = "jumps where probes would slow a thread by more than 3 % (--auto-limit), else probes";
  } else if (bpf) {
    choice = "probes, whatever they cost: jumps cannot be used";
  } else if (jumps) {
    choice = "jumps: there is no eBPF for probes";
  }
  diagnosis->Add("tier auto, the default", bpf || jumps, choice);
}

// Checks whether the kernel's probes can be used in this process.
void CheckProbes(Pid pid, const ProbePlan& plan, Diagnosis* diagnosis) {
  if (!diagnosis->has_bpf) return;
  absl::Status status = CheckProbeMemory(pid, plan.modules);
  if (const auto moved = DescribeUnreachedCode(FindMovedCode(pid, plan.modules));
      status.ok() && moved.has_value()) {
    status = Fail(ExitCode::kHostUnfit, *moved);
  }
  diagnosis->has_probes = status.ok();
  if (status.ok()) {
    diagnosis->Add("probes (--tier bpf)", true, "there is room for them in its memory");
  } else {
    diagnosis->Add("probes (--tier bpf)", status);
  }
}

void CheckStandstill(Pid pid, Diagnosis* diagnosis) {
  const std::optional<Standstill> still = FindStandstill(pid);
  if (still.has_value()) diagnosis->Add("threads", false, still->sentence);
}

void CheckRunningCode(Pid pid, Diagnosis* diagnosis) {
  const absl::StatusOr<CodeAudit> audit = AuditCode(pid);
  if (!audit.ok() || audit->torn > 0) {
    diagnosis->Add("code", audit.ok() ? CheckCode(pid) : audit.status());
    return;
  }
  std::string text = "as in its files";
  if (audit->breakpoints > 0) {
    text += ", but for " + std::to_string(audit->breakpoints) + " breakpoints (probes, a debugger)";
  }
  if (audit->jumps > 0) {
    text += ", but for " + std::to_string(audit->jumps) +
            " jumps to memory of its own (--tier patch, a library that hooks functions)";
  }
  diagnosis->Add("code", true, text);
}

void CheckGpu(Pid pid, Diagnosis* diagnosis) {
  if (!HasCudaDriver(pid)) {
    diagnosis->Add("GPU", true, "not used: the CUDA driver is not loaded");
    return;
  }
  const absl::Status status = CheckInjection(pid);
  if (!status.ok()) {
    diagnosis->Add("GPU", status);
  } else {
    diagnosis->Add("GPU", true, "an agent for CUPTI can be put into the process");
  }
}

void CheckTarget(Pid pid, Diagnosis* diagnosis) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  if (!info.ok()) {
    diagnosis->Add("process", info.status());
    return;
  }
  diagnosis->Add("process", true,
                 info->comm + ", " + std::to_string(info->threads) + " threads, Python " +
                     (info->python_version.empty() ? "not found" : info->python_version));
  CheckRunningCode(pid, diagnosis);
  PlanOptions options;
  options.cache_directory = CacheDirectory();
  const absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) {
    diagnosis->Add("PyTorch", NameTorchDescendants(pid, plan.status(), {}));
    if (const absl::Status status = CheckTraceable(pid); !status.ok()) {
      diagnosis->Add(kJumps, status);
    }
    return;
  }
  diagnosis->has_torch = true;
  diagnosis->Add("PyTorch", true,
                 (plan->torch_version.empty() ? "version not known" : plan->torch_version) + ", " +
                     std::to_string(plan->operator_count) + " operators with a probe, " +
                     std::to_string(plan->operators.size()) + " registered");
  std::map<ExitRule, int> rules;
  for (const SiteInfo& site : plan->sites) ++rules[site.exit_rule];
  for (const auto& [rule, count] : rules) {
    if (rule == ExitRule::kNone) continue;
    diagnosis->Add("exits", true, std::to_string(count) + " functions: " + ExitRuleName(rule));
  }
  for (const ModulePlan& module : plan->modules) {
    diagnosis->Add("module", true,
                   module.name + ", " + std::to_string(module.points.size()) + " probes, build " +
                       module.build_id.substr(0, 8));
  }
  for (const PlanGap& gap : plan->gaps) diagnosis->Add(gap.feature, false, gap.reason);
  CheckStandstill(pid, diagnosis);
  CheckInputs(pid, options, *plan, diagnosis);
  CheckStacks(pid, diagnosis);
  CheckProbes(pid, *plan, diagnosis);
  CheckJumps(pid, *plan, diagnosis);
  AddTierChoice(diagnosis);
  CheckGpu(pid, diagnosis);
}

// Returns a command that can record, as far as the checks tell: by a tier that is possible now,
// else with the option or right that makes one possible; empty where none is known. It works only
// under the condition of ConditionOf().
std::string CommandThatWorks(std::optional<uint32_t> pid, const Diagnosis& diagnosis) {
  const std::string whom = pid.has_value() ? "-p " + std::to_string(*pid) : "-a";
  const bool may_be_any = !pid.has_value();
  if (diagnosis.has_probes || (diagnosis.has_bpf && may_be_any)) {
    return OwnPath() + " " + whom + " -d 10s";
  }
  if (diagnosis.has_jumps) {
    return OwnPath() + " " + whom + " --tier patch" +
           (IsRuntimeDefaultStated() ? " --seccomp=runtime-default" : "") + " -d 10s";
  }
  if (diagnosis.is_filter_unknown) {
    return OwnPath() + " " + whom + " --tier patch --seccomp=runtime-default -d 10s";
  }
  // BPF works and PyTorch is loaded, so that the process has no room for probes: no command helps.
  if (pid.has_value() && diagnosis.has_bpf && diagnosis.has_torch) return "";
  if (geteuid() != 0) return "sudo " + OwnPath() + " " + whom + " -d 10s";
  return "";
}

// Returns the condition for CommandThatWorks() that only the user can check; empty where there is
// none.
std::string ConditionOf(const Diagnosis& diagnosis) {
  const bool has_way = diagnosis.has_probes || diagnosis.has_jumps;
  if (has_way || !diagnosis.is_filter_unknown) return "";
  return "if the job's seccomp filter is the default profile of its container's runtime";
}

absl::Status RunDoctor(std::optional<uint32_t> pid, bool as_json) {
  Diagnosis diagnosis;
  CheckHost(&diagnosis);
  if (pid.has_value()) CheckTarget(Pid{*pid}, &diagnosis);
  const std::string command = CommandThatWorks(pid, diagnosis);
  const std::string condition = ConditionOf(diagnosis);
  if (as_json) {
    json rows = json::array();
    for (const Check& check : diagnosis.checks) {
      rows.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
    }
    const json document = {{"proftrace", kVersion},
                           {"command", command.empty() ? json() : json(command)},
                           {"condition", condition.empty() ? json() : json(condition)},
                           {"exit_code", static_cast<int>(ExitCodeOf(diagnosis.status))},
                           {"checks", std::move(rows)}};
    PrintDocument(document);
    return Told(diagnosis.status);
  }
  Print("proftrace %s\n", kVersion);
  for (const Check& check : diagnosis.checks) {
    Print("  [%s] %s: %s\n", check.ok ? "ok" : "--", check.name.c_str(),
          ShownText(check.detail).c_str());
  }
  if (!command.empty()) {
    const std::string when = condition.empty() ? "" : ", " + condition;
    Print("to record%s: %s\n", when.c_str(), ShownText(command).c_str());
  }
  return diagnosis.status;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Action* action) {
  struct Arguments {
    std::optional<uint32_t> pid;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Say what this host, and one process, can be recorded with, and what is missing.\n"
      "Example: sudo proftrace doctor -p 4711");
  doctor->add_option("-p,--pid", arguments->pid, "also examines this process")
      ->type_name("PID")
      ->check(WhyNoPid);
  AddSeccompOption(doctor);
  doctor->add_flag("--json", arguments->json, "prints one JSON document");
  AddJsonSchema(doctor);
  doctor->callback([arguments, action] {
    *action = [arguments] { return RunDoctor(arguments->pid, arguments->json); };
  });
}

}  // namespace proftrace
