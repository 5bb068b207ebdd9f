// The rows and columns of the table `modules`: one row an nn.Module, in the order in which they
// were met. ModuleTimes says what the times are.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/aggregate/module_times.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct ModuleRow {
  uint32_t pid = 0;
  std::string_view path;
  std::string module_class;
  uint64_t calls = 0;
  NsAsUs forward_us;
  NsAsUs self_forward_us;
  NsAsUs backward_us;
  NsAsUs self_backward_us;
  std::optional<Decimal> percent;
  uint64_t operators = 0;
  std::optional<int64_t> cpu_memory_bytes;
  uint64_t instances = 0;
};

// In SQLite `instances` has always been a text, and readers that check user_version rely on that.
template <typename Visit>
void ForEachCell(const ModuleRow& row, Visit&& visit) {
  visit(Column{"pid", "The process."}, row.pid);
  visit(Column{"module", "The attribute path, `encoder.layers.0`; empty for the model itself."},
        row.path);
  visit(Column{"module_class",
               "The class, with the number of the instance if the row is of one instance."},
        row.module_class);
  visit(Column{"calls", "How many forwards were seen."}, row.calls);
  visit(Column{"forward_us",
               "Time of its forwards. A call of the module within a call of itself counts once."},
        row.forward_us);
  visit(Column{"self_forward_us", "The same without modules in it."}, row.self_forward_us);
  visit(Column{"backward_us", "Time of the autograd nodes that its operators made."},
        row.backward_us);
  visit(Column{"self_backward_us", "Time of the nodes of operators whose innermost module it is."},
        row.self_backward_us);
  visit(Column{"percent", "Forward and backward as a share of all modules at the top."},
        row.percent);
  visit(Column{"operators", "How many operators ran in it, without the backward pass."},
        row.operators);
  visit(Column{"cpu_memory_bytes", "CPU memory allocated less freed in it (`--profile-memory`)."},
        row.cpu_memory_bytes);
  visit(Column{"instances",
               "How many modules of this path and class were seen: more than 1 where a forward "
               "makes its modules anew.",
               "TEXT"},
        row.instances);
}

// Gives the rows to `add`, until it returns false.
void ForEachModuleRow(const Timeline& timeline, const ModuleSums& sums,
                      absl::FunctionRef<bool(const ModuleRow&)> add);

}  // namespace proftrace
