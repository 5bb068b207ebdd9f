#include "userspace/capture/processes/process_set.h"

#include <memory>
#include <utility>

#include "userspace/capture/plans/unreached_code.h"
#include "userspace/capture/processes/cost_probes.h"

namespace proftrace {

ProcessSet::ProcessSet(const ProcessParts& parts, const JumpOptions& jumps,
                       PlanOptions plan_options, ProcessCallbacks callbacks)
    : callbacks_(std::move(callbacks)),
      shared_(parts, jumps, std::move(plan_options)),
      late_(&shared_, callbacks_.on_change),
      attacher_(&shared_, &late_),
      children_(&shared_, &attacher_, callbacks_.on_change),
      awaited_(&shared_, &attacher_, &children_, &callbacks_),
      follower_(&shared_, &attacher_, &awaited_, &late_, &callbacks_) {}

ProcessSet::~ProcessSet() { Detach(); }

absl::Status ProcessSet::Attach(Pid pid, ProbePlan plan) {
  if (absl::Status status = attacher_.Trace(pid); !status.ok()) return status;
  return attacher_.Attach(pid, std::move(plan), Arrival{});
}

void ProcessSet::OnReady(int64_t window_start_ns) {
  shared_.known.BeginWindow(window_start_ns);
  shared_.gaps.BeginWindow(window_start_ns);
  shared_.schemas.Start();
}

std::optional<uint32_t> ProcessSet::ImageOf(Pid pid) const {
  const std::optional<PlannedImage> planned = shared_.known.Find(pid);
  if (!planned) return std::nullopt;
  return planned->image;
}

LinkSet ProcessSet::AttachCostPoints() {
  return proftrace::AttachCostPoints(&shared_.probes, shared_.known.Planned());
}

LinkSet ProcessSet::AttachCounter(Pid pid, const ProbePlan& plan) {
  return proftrace::AttachCounter(&shared_.probes, pid, plan);
}

LinkSet ProcessSet::AttachCounterAt(Pid pid, uint16_t site) {
  const std::optional<PlannedImage> planned = shared_.known.Find(pid);
  if (!planned || planned->plan == nullptr) return {};
  return proftrace::AttachCounterAt(&shared_.probes, pid, *planned->plan, site);
}

std::optional<Label> ProcessSet::SiteLabel(Pid pid, uint16_t site) const {
  const std::optional<PlannedImage> planned = shared_.known.Find(pid);
  if (!planned || site >= planned->plan->sites.size()) return std::nullopt;
  return planned->plan->sites[site].label;
}

std::optional<SymbolList> ProcessSet::SymbolListOf(Pid pid) const {
  const std::optional<PlannedImage> planned = shared_.known.Find(pid);
  if (!planned) return std::nullopt;
  return SymbolList{planned->plan->torch_data, 0, planned->plan->old_string_abi};
}

bool ProcessSet::IsDemotable(Pid pid, uint16_t site) const {
  const std::optional<PlannedImage> planned = shared_.known.Find(pid);
  return planned && planned->plan != nullptr && proftrace::IsDemotable(*planned->plan, site);
}

void ProcessSet::Detach() {
  follower_.Stop();
  if (shared_.patch != nullptr) shared_.patch->Detach();

  std::vector<LinkSet> links = shared_.known.TakeLinks();
  if (shared_.given.programs->api() != UprobeApi::kPerf) return;
  // The kernel removes perf events one by one, a tenth of a second each (it waits for readers of
  // the tracepoint under one lock): they are left to the end of this process, after the results are
  // written.
  shared_.given.programs->StopRecording();
  for (LinkSet& set : links) {
    for (ProbeLink& link : set) link.Abandon();
  }
}

void ProcessSet::CollectLastNames() {
  late_.LookForOperators();
  shared_.schemas.Finish();
  attacher_.FinishModules();
  for (const auto& [pid, plan] : shared_.known.Planned()) {
    if (plan != nullptr) shared_.schemas.CollectJob(pid, *plan);
    for (const ThreadEntry& thread : ReadThreads(pid)) {
      shared_.given.sink->AddMetadata(
          [&thread](MetadataWriter& writer) { writer.AddThread(thread); });
    }
  }
}

void ProcessSet::NoteMovedCode() {
  // Jumps lie in the code itself and move with it.
  if (!shared_.given.programs->is_loaded() || shared_.patch != nullptr) return;
  const std::set<uint32_t> unreached = shared_.gaps.unreached();
  for (const auto& [pid, plan] : shared_.known.Planned()) {
    if (unreached.contains(Raw(pid))) continue;
    const auto moved = DescribeUnreachedCode(FindMovedCode(pid, plan->modules));
    if (!moved.has_value()) continue;
    shared_.gaps.AddUnreached(pid, *moved + " (since some moment of the recording)");
  }
}

std::vector<Unsupported> ProcessSet::gaps() const {
  GapList::Facts facts;
  facts.of_schemas = shared_.schemas.gaps();
  facts.of_kernel = GapsOfKernel(*shared_.given.programs);
  facts.loaded = shared_.known.LoadedWithoutProbes();
  facts.waiting_forks = shared_.known.waiting_forks();
  facts.ended_forks = shared_.known.ended_forks();
  facts.replaced_operators = late_.replaced_operators();
  return shared_.gaps.Describe(facts);
}

}  // namespace proftrace
