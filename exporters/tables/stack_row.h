// The columns of the table `stacks`, which has each stack of the rows of events once.
#pragma once

#include <cstdint>

#include "exporters/tables/column.h"

namespace proftrace {

struct StackRow {
  uint32_t id = 0;
  CellText stack;
};

template <typename Visit>
void ForEachCell(const StackRow& row, Visit&& visit) {
  visit(Column{"stack_id", "The number that events have of it."}, row.id);
  visit(Column{"stack",
               "The Python frames, `file.py(line): function`, joined by `;`, the outermost first. "
               "The line is the one that runs."},
        row.stack);
}

}  // namespace proftrace
