// The columns of the table `steps` on the common clock. A row is a step of one rank.
#pragma once

#include <cstdint>
#include <optional>

#include "exporters/tables/column.h"
#include "exporters/tables/step_rows.h"

namespace proftrace {

struct AlignedStepRow {
  StepRow row;
  int64_t local_step = 0;
  int64_t end_ns = 0;
  std::optional<int64_t> bound_ns;
  std::optional<int64_t> estimate_error_ns;
  std::optional<int64_t> comm_wait_ns;
  std::optional<int64_t> comm_transfer_ns;
  int64_t timeline = 0;
};

template <typename Visit>
void ForEachCell(const AlignedStepRow& row, Visit&& visit) {
  ForEachCell(row.row, visit);
  visit(Column{"local_step",
               "The step's number on this rank alone; `step` is one number for what the ranks did "
               "together."},
        row.local_step);
  visit(Column{"end_ns", "When it ended."}, row.end_ns);
  visit(Column{"bound_ns",
               "The most that its common times can be wrong by, proved; empty: nothing is."},
        row.bound_ns);
  visit(Column{"estimate_error_ns", "What they likely are wrong by."}, row.estimate_error_ns);
  visit(Column{"comm_wait_ns",
               "Sum over the step's collectives: from entering one until the last rank had."},
        row.comm_wait_ns);
  visit(Column{"comm_transfer_ns",
               "Sum over them: from the last rank's entering until the first one left."},
        row.comm_transfer_ns);
  visit(Column{"timeline", "Times of different timelines cannot be compared."}, row.timeline);
}

}  // namespace proftrace
