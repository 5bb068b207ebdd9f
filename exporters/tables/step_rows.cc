#include "exporters/tables/step_rows.h"

#include <vector>

namespace proftrace {
namespace {

int64_t PartOf(const TimeUses& uses, TimeUse use) { return uses[static_cast<size_t>(use)]; }

void SetUses(const TimeUses& uses, StepRow* row) {
  row->compute_ns = PartOf(uses, TimeUse::kCompute);
  row->data_ns = PartOf(uses, TimeUse::kData);
  row->io_ns = PartOf(uses, TimeUse::kIo);
  row->lock_ns = PartOf(uses, TimeUse::kLock);
  row->event_ns = PartOf(uses, TimeUse::kEvent);
  row->run_queue_ns = PartOf(uses, TimeUse::kRunQueue);
  row->faults_ns = PartOf(uses, TimeUse::kFaults);
  row->other_ns = PartOf(uses, TimeUse::kOther);
}

}  // namespace

void ForEachStepRow(const Timeline& timeline, const Aggregates& aggregates,
                    absl::FunctionRef<bool(const StepRow&)> add) {
  const std::vector<ProcessSteps>& processes = aggregates.steps.processes;
  for (size_t process = 0; process < processes.size(); ++process) {
    const ProcessSteps& found = processes[process];
    StepRow row;
    row.pid = Raw(found.pid);
    row.confidence = {found.confidence, 4};
    // Gives the steps of one of its threads; `uses`: where the time of each went, if that is known.
    const auto add_steps = [&](ThreadIndex thread, const std::vector<Step>& steps,
                               const std::vector<TimeUses>* uses) {
      row.tid = Raw(timeline.thread(thread).tid);
      for (size_t i = 0; i < steps.size(); ++i) {
        row.step = steps[i].number;
        row.start_ns = timeline.ToUnixNs(steps[i].start_ns);
        row.duration_ns = steps[i].end_ns - steps[i].start_ns;
        if (uses != nullptr) SetUses((*uses)[i], &row);
        if (!add(row)) return false;
      }
      return true;
    };
    const bool has_uses = aggregates.time.has_value() && aggregates.steps.main == process &&
                          aggregates.time->steps.size() == found.steps.size();
    if (!add_steps(found.thread, found.steps, has_uses ? &aggregates.time->steps : nullptr)) return;
    row = StepRow();
    row.pid = Raw(found.pid);
    row.confidence = {found.confidence, 4};
    for (const ThreadSteps& other : found.others) {
      if (!add_steps(other.thread, other.steps, nullptr)) return;
    }
  }
}

}  // namespace proftrace
