// The rows and columns of the table `steps`: one row a step of a job, as the recording found them.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct StepRow {
  uint32_t pid = 0;
  uint32_t tid = 0;
  int64_t step = 0;
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  Decimal confidence;
  std::optional<int64_t> compute_ns;
  std::optional<int64_t> data_ns;
  std::optional<int64_t> io_ns;
  std::optional<int64_t> lock_ns;
  std::optional<int64_t> event_ns;
  std::optional<int64_t> run_queue_ns;
  std::optional<int64_t> faults_ns;
  std::optional<int64_t> other_ns;
};

template <typename Visit>
void ForEachCell(const StepRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"tid", "The thread that goes round the loop."}, row.tid);
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
}

// Gives the rows to `add`, until it returns false.
void ForEachStepRow(const Timeline& timeline, const Aggregates& aggregates,
                    absl::FunctionRef<bool(const StepRow&)> add);

}  // namespace proftrace
