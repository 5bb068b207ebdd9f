// Makes the rows of the table `events`.
#pragma once

#include <absl/functional/function_ref.h>

#include <vector>

#include "exporters/tables/cell_form.h"
#include "exporters/tables/event_row.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Gives the rows to `add`, in the order of their ids, until it returns false. A row's texts are
// valid during the call. Memory: a few words for each label and each frame of Python, and at most
// 16 MiB of call paths and 32 MiB of stacks. `steps` fill the column `step`; `step_rows` are rows
// of their own, and parents of the rows that they enclose. `used_stacks`: as in PythonCells.
void ForEachEventRow(const Timeline& timeline, const Steps& steps, const StepRows& step_rows,
                     CellForm form, absl::FunctionRef<bool(const EventRow&)> add,
                     std::vector<bool>* used_stacks = nullptr);

}  // namespace proftrace
