// The rows and columns of the table `steps`: one row for each step that was found in a job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/column.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"
#include "userspace/why/step_parts.h"

namespace proftrace {

struct StepRow {
  // By StepPart, without kBetween, which lies in no step.
  using Why = std::array<std::optional<int64_t>, kStepParts - 1>;

  std::optional<int64_t> Part(StepPart part) const { return why_ns[static_cast<size_t>(part)]; }

  std::optional<uint32_t> pid;
  std::optional<uint32_t> tid;
  bool is_main = false;
  int64_t step = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  std::optional<Decimal> confidence;
  std::optional<int64_t> compute_ns;
  std::optional<int64_t> data_ns;
  std::optional<int64_t> io_ns;
  std::optional<int64_t> lock_ns;
  std::optional<int64_t> event_ns;
  std::optional<int64_t> run_queue_ns;
  std::optional<int64_t> faults_ns;
  std::optional<int64_t> other_ns;
  Why why_ns;
  std::optional<int64_t> gpu_busy_ns;
  std::optional<int64_t> gpu_compute_ns;
  std::optional<int64_t> gpu_idle_ns;
  std::optional<int64_t> comm_ns;
  std::optional<int64_t> comm_overlap_ns;
  std::optional<int64_t> comm_exposed_ns;
  std::optional<int64_t> mem_peak_bytes;
};

// Visits the columns with the parts of `report --why`.
template <typename Visit>
void VisitWhy(const StepRow& row, Visit&& visit) {
  visit(Column{"why_data_ns",
               "The step as `report --why` splits it, its first part: in the DataLoader's call "
               "that gives the next batch. The parts in `why_…_ns` add up to `duration_ns`."},
        row.Part(StepPart::kData));
  visit(Column{"why_collection_ns", "In Python's garbage collector."},
        row.Part(StepPart::kCollection));
  visit(Column{"why_collective_ns", "Blocked while a collective was under way."},
        row.Part(StepPart::kCollective));
  visit(Column{"why_run_queue_ns", "It could run and had no CPU."}, row.Part(StepPart::kRunQueue));
  visit(Column{"why_faults_ns", "In page faults."}, row.Part(StepPart::kFaults));
  visit(
      Column{"why_recording_ns",
             "proftrace wrote the record of a fault, a system call or a time off the CPU. This is "
             "the number of such records times what one takes, as measured."},
      row.Part(StepPart::kRecording));
  visit(Column{"why_lock_ns", "Off the CPU, for a lock."}, row.Part(StepPart::kLock));
  visit(Column{"why_event_ns", "Off it, for another thread to do something."},
        row.Part(StepPart::kEvent));
  visit(Column{"why_io_ns", "In calls that move or look for bytes of files and the network."},
        row.Part(StepPart::kIo));
  visit(Column{"why_other_ns", "In other system calls, or off the CPU for other reasons."},
        row.Part(StepPart::kOther));
  visit(Column{"why_synchronizing_ns", "In a call of CUDA that waits."},
        row.Part(StepPart::kSynchronizing));
  visit(Column{"why_operators_ns", "In an operator or autograd row."},
        row.Part(StepPart::kOperators));
  visit(Column{"why_python_ns", "In none of these: Python, and what has no row."},
        row.Part(StepPart::kPython));
}

template <typename Visit>
void ForEachCell(const StepRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"tid", "The thread that goes round the loop."}, row.tid);
  visit(Column{"is_main",
               "1 for steps of the thread that drives the job; 0 for those of other processes and "
               "threads."},
        row.is_main);
  visit(Column{"step", "The step's number."}, row.step);
  visit(Column{"start_ns", "When it began (Unix time)."}, row.start_ns);
  visit(Column{"duration_ns", "How long it took."}, row.duration_ns);
  visit(
      Column{
          "confidence",
          "How sure it is that these are steps: 0 to 1. Steps that the job itself marks have 1."},
      row.confidence);
  visit(Column{"compute_ns",
               "Of the thread that drives the job, with `--activities sched`: on a CPU, in the "
               "program itself. The parts in `…_ns` up to `other_ns` add up to `duration_ns`."},
        row.compute_ns);
  visit(Column{"data_ns", "Off the CPU, waiting for a batch of a DataLoader."}, row.data_ns);
  visit(Column{"io_ns", "In system calls that move or look for bytes of files and the network."},
        row.io_ns);
  visit(Column{"lock_ns", "Off the CPU, for a lock that another thread holds."}, row.lock_ns);
  visit(Column{"event_ns", "Off the CPU, for another thread to do something else."}, row.event_ns);
  visit(Column{"run_queue_ns", "It could run and had no CPU."}, row.run_queue_ns);
  visit(Column{"faults_ns", "In page faults."}, row.faults_ns);
  visit(Column{"other_ns", "In other system calls, or off the CPU for other reasons."},
        row.other_ns);
  VisitWhy(row, visit);
  visit(Column{"gpu_busy_ns", "A GPU worked for the process (`--gpu`)."}, row.gpu_busy_ns);
  visit(Column{"gpu_compute_ns", "A GPU did other work for it than communication."},
        row.gpu_compute_ns);
  visit(Column{"gpu_idle_ns", "No GPU worked for it."}, row.gpu_idle_ns);
  visit(Column{"comm_ns",
               "Collectives were under way: kernels of NCCL, where there are none works of gloo."},
        row.comm_ns);
  visit(Column{"comm_overlap_ns",
               "Of that, the process computed meanwhile: its GPU did; without one, its thread was "
               "not blocked, or, where the scheduler was not recorded, an operator ran."},
        row.comm_overlap_ns);
  visit(Column{"comm_exposed_ns",
               "Of that, it did not. The rank's own time is `duration_ns` less this."},
        row.comm_exposed_ns);
  visit(Column{"mem_peak_bytes",
               "The most that was allocated on its GPU; without one, of CPU memory "
               "(`--profile-memory`)."},
        row.mem_peak_bytes);
}

// Returns the rows, those of the thread that drives the job first, and those of each thread in
// order.
std::vector<StepRow> StepRowsOf(const Timeline& timeline, const Aggregates& aggregates);

}  // namespace proftrace
