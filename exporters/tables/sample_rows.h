// The rows and columns of the table `samples` (--sample): one row for consecutive looks at a thread
// that found the same, in order of time.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/cell_form.h"
#include "exporters/tables/column.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct SampleRow {
  uint32_t pid = 0;
  uint32_t tid = 0;
  std::string_view thread_name;
  int64_t start_ns = 0;
  uint32_t samples = 0;
  int64_t period_ns = 0;
  std::string_view state;
  std::string system_call;
  std::optional<uint64_t> event_id;
  CellText stack;  // in the output's form, because many rows share few stacks
  std::string_view cut;
};

template <typename Visit>
void ForEachCell(const SampleRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"tid", "The thread."}, row.tid);
  visit(Column{"thread_name", "Its name."}, row.thread_name);
  visit(Column{"start_ns", "When it was looked at first (Unix time)."}, row.start_ns);
  visit(Column{"samples", "How many looks this row stands for."}, row.samples);
  visit(Column{"period_ns", "The time between two looks."}, row.period_ns);
  visit(Column{"state", "What the thread did: see the list below."}, row.state);
  visit(Column{"system_call", "The system call that it was in."}, row.system_call);
  visit(Column{"event_id", "The `id` in events.csv of the row that it was in."}, row.event_id);
  visit(Column{"stack",
               "Frames of Python and of C++ in one stack, joined by `;`, the outermost first."},
        row.stack);
  visit(Column{"cut",
               "`python`, `native` or `both`: which frames are missing because a stack was too "
               "deep or could not be followed."},
        row.cut);
}

// Gives the rows to `add`, until it returns false.
void ForEachSampleRow(const Timeline& timeline, const StepRows& steps, CellForm form,
                      absl::FunctionRef<bool(const SampleRow&)> add);

}  // namespace proftrace
