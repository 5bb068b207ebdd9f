#include "exporters/tables/step_rows.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "userspace/aggregate/memory_uses.h"
#include "userspace/aggregate/step_work.h"

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

void SetWhy(const PartTimes& times, StepRow* row) {
  for (size_t part = 0; part < row->why_ns.size(); ++part) row->why_ns[part] = times[part];
}

std::vector<Stretch> StretchesOf(const std::vector<Step>& steps) {
  std::vector<Stretch> stretches;
  for (const Step& step : steps) stretches.emplace_back(step.start_ns, step.end_ns);
  return stretches;
}

// Makes the rows of the steps of one process, thread by thread.
class StepRowsOfProcess {
 public:
  StepRowsOfProcess(const Timeline& timeline, const Aggregates& aggregates, size_t process,
                    const std::optional<MemoryCurve>& curve)
      : timeline_(timeline),
        found_(aggregates.steps.processes[process]),
        curve_(curve),
        work_(WorkOfProcess(timeline, found_.pid)) {
    if (aggregates.steps.main != process) return;
    is_main_ = true;
    // What the time of a last step that is cut was used for is not known.
    const size_t timed = found_.timed_steps().size();
    if (aggregates.time && aggregates.time->steps.size() == timed) {
      uses_ = &aggregates.time->steps;
    }
    parts_ = SplitSteps(timeline, aggregates.steps);
    if (parts_ && parts_->by_step.size() != timed) parts_.reset();
  }

  void AddAll(std::vector<StepRow>* rows) const {
    Add(found_.thread, found_.steps, is_main_, rows);
    for (const ThreadSteps& other : found_.others) Add(other.thread, other.steps, false, rows);
  }

 private:
  void Add(ThreadIndex thread, const std::vector<Step>& steps, bool is_main,
           std::vector<StepRow>* rows) const {
    std::vector<std::optional<MemoryUse>> memory(steps.size());
    if (curve_) memory = MemoryUsesIn(timeline_, *curve_, StretchesOf(steps));
    for (size_t i = 0; i < steps.size(); ++i) {
      StepRow row;
      row.pid = Raw(found_.pid);
      row.tid = Raw(timeline_.thread(thread).tid);
      row.is_main = is_main;
      row.step = steps[i].number;
      row.start_ns = timeline_.ToUnixNs(steps[i].start_ns);
      row.duration_ns = steps[i].end_ns - steps[i].start_ns;
      row.confidence = Decimal{found_.confidence, 4};
      if (is_main && uses_ != nullptr && i < uses_->size()) SetUses((*uses_)[i], &row);
      if (is_main && parts_ && i < parts_->by_step.size()) SetWhy(parts_->by_step[i], &row);
      SetWork(WorkIn(work_, steps[i].start_ns, steps[i].end_ns), is_main, &row);
      if (memory[i]) row.mem_peak_bytes = memory[i]->peak_bytes;
      rows->push_back(row);
    }
  }

  void SetWork(const StepWork& work, bool is_main, StepRow* row) const {
    row->gpu_busy_ns = work.gpu_busy_ns;
    row->gpu_compute_ns = work.gpu_compute_ns;
    row->gpu_idle_ns = work.gpu_idle_ns;
    row->comm_ns = work.comm_ns;
    row->comm_exposed_ns = work.comm_exposed_ns;
    // Where the scheduler was recorded, it tells when the thread was blocked, so that operators are
    // not needed for this.
    if (!work_.has_device && is_main && parts_ && parts_->has_kernel) {
      row->comm_exposed_ns =
          std::min(work.comm_ns, row->Part(StepPart::kCollective).value_or(work.comm_exposed_ns));
    }
    row->comm_overlap_ns = work.comm_ns - *row->comm_exposed_ns;
  }

  const Timeline& timeline_;
  const ProcessSteps& found_;
  const std::optional<MemoryCurve>& curve_;
  ProcessWork work_;
  bool is_main_ = false;
  const std::vector<TimeUses>* uses_ = nullptr;
  std::optional<StepParts> parts_;
};

}  // namespace

std::vector<StepRow> StepRowsOf(const Timeline& timeline, const Aggregates& aggregates) {
  const std::vector<MemoryCurve> curves =
      timeline.has_memory() ? MemoryCurves(timeline) : std::vector<MemoryCurve>();
  std::vector<StepRow> rows;
  for (size_t process = 0; process < aggregates.steps.processes.size(); ++process) {
    const auto curve = MainCurveOf(curves, aggregates.steps.processes[process].pid);
    StepRowsOfProcess(timeline, aggregates, process, curve).AddAll(&rows);
  }
  std::stable_partition(rows.begin(), rows.end(), [](const StepRow& row) { return row.is_main; });
  return rows;
}

}  // namespace proftrace
