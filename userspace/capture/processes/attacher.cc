#include "userspace/capture/processes/attacher.h"

#include <absl/cleanup/cleanup.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/reduced_plan.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/kernel/probe_memory.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/samples/python_stacks.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

// The most processes that are recorded at once, which bounds the BPF programs' maps and our memory.
constexpr size_t kMostProcesses = 1024;
constexpr char kNoInputPrograms[] =
    "this kernel does not take the programs; Linux 5.17 or later is needed, or --tier patch";

constexpr char kNoRowInputs[] =
    "those of rows of at::RecordFunction, of custom Functions, and of operators and autograd nodes "
    "without a function are read by the kernel's probes";

absl::Status EndedEarly(Pid pid) {
  return Fail(ExitCode::kNoTarget,
              "PID " + std::to_string(Raw(pid)) + " ended before its probes were live");
}

ProcessEntry EntryOf(Pid pid, const PlannedImage& planned, Arrival arrival) {
  ProcessEntry entry;
  entry.plan = planned.plan_id;
  entry.image = planned.image;
  entry.target = DescribeProcess(pid);
  entry.target.torch_version = planned.plan->torch_version;
  entry.target.torch_build_id = planned.plan->torch_build_id;
  if (!planned.plan->python_version.empty()) {
    entry.target.python_version = planned.plan->python_version;
  }
  entry.target.followed = arrival.followed;
  entry.target.could_run_ns = arrival.could_run_ns;
  return entry;
}

}  // namespace

Attacher::Attacher(SharedParts* shared, LateArrivals* late)
    : shared_(shared),
      late_(late),
      modules_(shared->given.sink),
      scripts_(shared->given.sink, shared->given.reader) {}

absl::Status Attacher::Trace(Pid pid) {
  absl::Status status = shared_->given.programs->TraceProcess(pid);
  if (status.ok() && shared_->given.system != nullptr) {
    status = shared_->given.system->AddProcess(pid);
  }
  return status;
}

absl::Status Attacher::Attach(Pid pid, ProbePlan plan, Arrival arrival, StoppedThreads* held) {
  if (!shared_->given.programs->reads_inputs()) RemoveInputs(kNoInputPrograms, &plan);
  if (!shared_->given.programs->is_loaded()) RemoveRowInputs(kNoRowInputs, &plan);
  PlannedImage planned;
  planned.image = shared_->known.NewImage(plan);
  absl::StatusOr<uint32_t> plan_id = shared_->plans.Add(&plan);
  if (!plan_id.ok()) return plan_id.status();
  planned.plan_id = *plan_id;
  late_->WriteOperators(planned.image, plan.operators);
  planned.plan = std::make_shared<const ProbePlan>(std::move(plan));
  absl::Status status = AttachBy(planned, pid, arrival, held);
  if (status.ok()) shared_->schemas.Request(pid, planned.plan, planned.image);
  return status;
}

absl::Status Attacher::AttachBy(const PlannedImage& planned, Pid pid, Arrival arrival,
                                StoppedThreads* held) {
  if (!HasProgram(pid)) return EndedEarly(pid);
  ProcessEntry entry = EntryOf(pid, planned, arrival);
  if (absl::Status status = Prepare(pid, planned, &entry.target); !status.ok()) return status;
  shared_->known.Enter(pid, planned);
  shared_->closer.Postpone();
  ProcessLinks links;
  AttachReport report;
  entry.target.probes_begin_ns = MonotonicNs();
  absl::Status status = PutIn(pid, planned.plan, arrival.followed, held, &links, &report);
  entry.target.probes_on_ns = MonotonicNs();
  const bool has_ended = !HasProgram(pid);
  if (status.ok() && has_ended) status = EndedEarly(pid);
  if (status.ok()) {
    entry.target.operator_count = planned.plan->operator_count;
    entry.target.inputs_recorded = planned.plan->has_input_probes;
    entry.target.memory_recorded =
        planned.plan->has_memory_probes && !RefusesMemory(*planned.plan, report);
  }
  // The entry is written also for a process that ended meanwhile: it says that the records of its
  // first probes came before this moment, outside the window.
  shared_->given.sink->AddMetadata([&entry](MetadataWriter& writer) { writer.AddProcess(entry); });
  // Where attaching to a living process has failed, destructors close its links at once, because
  // the process goes on or runs another program.
  if (has_ended) shared_->closer.Close(links.TakeAll());
  if (!status.ok()) return status;
  late_->Watch(pid, planned);
  if (shared_->given.programs->is_loaded()) shared_->gaps.AddMissing(pid, report);
  shared_->known.OnLive(pid, entry.target.probes_on_ns, planned.plan->operator_count,
                        std::move(links));
  return absl::OkStatus();
}

absl::Status Attacher::Prepare(Pid pid, const PlannedImage& planned, Target* target) {
  if (shared_->known.size() >= kMostProcesses) {
    return Fail(ExitCode::kHostUnfit, "no more than " + std::to_string(kMostProcesses) +
                                          " processes are recorded at once");
  }
  absl::Cleanup forget = [this, pid] { shared_->given.programs->ForgetProcess(pid); };
  // Jumps take at least as much memory as probes. What they take in addition is checked when their
  // places are known.
  absl::Status status = CheckProbeMemory(pid, planned.plan->modules);
  if (status.ok()) status = PrepareMaps(shared_->given.programs, pid, *planned.plan);
  if (!status.ok()) return status;
  std::move(forget).Cancel();
  PrepareWaits(shared_->given.system, pid);
  PrepareReaders(pid, planned, target);
  return absl::OkStatus();
}

void Attacher::PrepareReaders(Pid pid, const PlannedImage& planned, Target* target) {
  BpfPrograms* programs = shared_->given.programs;
  if (!programs->wants_stacks() && shared_->given.sampler == nullptr) return;
  std::vector<Unsupported> gaps;
  const auto scripts = scripts_.Prepare(programs, pid, planned.image, planned.plan, &gaps);
  PrepareStacks(programs, shared_->jumps.RecorderFor(pid), scripts, &modules_,
                shared_->given.sampler, pid, target, &gaps);
  shared_->gaps.AddAll(std::move(gaps));
}

absl::Status Attacher::PutIn(Pid pid, const std::shared_ptr<const ProbePlan>& plan, bool followed,
                             StoppedThreads* held, ProcessLinks* links, AttachReport* report) {
  absl::StatusOr<std::vector<ModulePlan>> modules = shared_->jumps.Put(pid, plan, followed, held);
  if (!modules.ok()) return modules.status();
  return shared_->probes.Attach(pid, *plan, *std::move(modules), links, report);
}

LinkSet Attacher::Forget(Pid pid) {
  late_->Unwatch(pid);
  std::optional<KnownProcesses::Forgotten> forgotten = shared_->known.Forget(pid);
  if (!forgotten) return {};
  // The entries must go before another process gets its number.
  if (forgotten->has_maps) shared_->given.programs->ForgetProcess(pid);
  if (shared_->given.sampler != nullptr) shared_->given.sampler->RemoveProcess(pid);
  if (shared_->patch != nullptr) shared_->patch->Forget(pid);
  scripts_.Forget(pid);
  return std::move(forgotten->links);
}

void Attacher::RemoveProbes(Pid pid) {
  std::optional<KnownProcesses::Removal> removal = shared_->known.TakeRemoval(pid);
  if (!removal) return;
  shared_->closer.Postpone();
  absl::Status status;
  for (OperatorLinks& links : removal->operators) {
    absl::Status one = links.Remove(shared_->given.programs, pid, removal->removed);
    if (!one.ok()) status = std::move(one);
  }
  const bool is_recorded = shared_->known.EndRemoval(pid, std::move(removal->operators));
  if (!is_recorded || status.ok()) return;
  shared_->gaps.Add({"fewer probes", "PID " + std::to_string(Raw(pid)) +
                                         " keeps the probes of operators that are only counted: " +
                                         std::string(status.message())});
}

void Attacher::FinishModules() {
  modules_.Finish();
  const std::string why = modules_.failure();
  if (const uint64_t count = modules_.not_read(); count > 0 && why.empty()) {
    shared_->gaps.Add({"modules", std::to_string(count) +
                                      " were told of faster than their places in their models can "
                                      "be looked for: they have none"});
  }
  if (!why.empty()) {
    shared_->gaps.Add(
        {"modules from some moment on",
         why + " (" + std::to_string(modules_.not_read()) + " of them have no place)"});
  }
}

}  // namespace proftrace
