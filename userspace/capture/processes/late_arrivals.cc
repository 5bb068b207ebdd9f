#include "userspace/capture/processes/late_arrivals.h"

#include <optional>
#include <utility>

#include "symbols/plan/torch_copies.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"

namespace proftrace {

LateArrivals::LateArrivals(SharedParts* shared, std::function<void(Pid pid, Pid parent)> on_change)
    : shared_(shared),
      on_change_(std::move(on_change)),
      operators_(shared->given.reader,
                 [this](Pid pid, const ProbePlan& plan, uint32_t image,
                        const std::vector<OperatorInfo>& added) {
                   AddOperators(pid, plan, image, added);
                 }),
      libraries_(shared->planning.python_gc) {}

void LateArrivals::Watch(Pid pid, const PlannedImage& planned) {
  operators_.Add(pid, planned.image, planned.plan);
  libraries_.Add(pid, *planned.plan);
}

void LateArrivals::Unwatch(Pid pid) {
  operators_.Remove(pid);
  libraries_.Remove(pid);
}

void LateArrivals::Look() {
  operators_.Look();
  libraries_.Look([this](Pid pid) { AddLibraries(pid); });
}

void LateArrivals::AddLibraries(Pid pid) {
  on_change_(pid, Pid{});
  // This is done at once, because the second PyTorch counts its own sequence numbers, and a plan
  // may take a second.
  if (HasRepeatedTorch(pid)) {
    shared_->given.programs->RemoveAutogradLayout(pid);
    if (shared_->patch != nullptr) shared_->patch->RemoveAutogradLayout(pid);
  }
  PlanOptions options = shared_->planning;
  const std::optional<PlannedImage> planned = shared_->known.Find(pid);
  if (planned && planned->plan != nullptr && planned->plan->has_agent) {
    options.cuda_calls = CudaCalls::kNever;
  }
  const absl::StatusOr<ProbePlan> now = BuildProbePlan(pid, options);
  if (!now.ok()) return;
  PlanRegistry::Extended extended = shared_->known.Extend(pid, *now, &shared_->plans);
  if (extended.plan != nullptr) AttachLibraries(pid, std::move(extended));
}

void LateArrivals::AttachLibraries(Pid pid, PlanRegistry::Extended extended) {
  if (shared_->patch != nullptr) {
    extended.added = shared_->patch->Extend(pid, extended.plan, std::move(extended.added));
  }
  ProcessLinks links;
  AttachReport report;
  // Probes that went in stay also where others of the library failed.
  const absl::Status status =
      shared_->probes.Attach(pid, *extended.plan, std::move(extended.added), &links, &report);
  if (shared_->given.programs->is_loaded()) shared_->gaps.AddMissing(pid, report);
  if (!status.ok() && ExitCodeOf(status) != ExitCode::kNoTarget) {
    shared_->gaps.AddFailedLibrary(pid, status);
  }
  shared_->known.AddLinks(pid, std::move(links));
}

void LateArrivals::WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators) {
  std::vector<OperatorEntry> entries;
  entries.reserve(operators.size());
  for (const OperatorInfo& info : operators) {
    entries.push_back(OperatorEntry{info.address, info.name, info.overload_name, ""});
  }
  shared_->given.sink->AddMetadata(
      [&](MetadataWriter& writer) { writer.AddOperators(image, entries); });
}

void LateArrivals::AddOperators(Pid pid, const ProbePlan& plan, uint32_t image,
                                const std::vector<OperatorInfo>& added) {
  WriteOperators(image, added);
  shared_->schemas.Collect(pid, plan, image, added);
  // A full map costs annotations, not the recording.
  (void)AddAnnotationOperators(shared_->given.programs, pid, plan, added);
  if (shared_->patch != nullptr) shared_->patch->AddOperators(pid, plan, added);
}

}  // namespace proftrace
