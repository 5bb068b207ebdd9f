// The columns of the table `events` in outputs where a row has the number of its stack
// (stack_row.h).
#pragma once

#include "exporters/tables/column.h"
#include "exporters/tables/event_row.h"

namespace proftrace {

// A row of the table `events` whose cell `stack` is the number of a stack.
struct NumberedEventRow {
  const EventRow* row = nullptr;  // nullptr: there is no row, only the columns are needed
};

template <typename Visit>
[[gnu::always_inline]] inline void ForEachCell(const NumberedEventRow& row, Visit&& visit) {
  static constexpr EventRow kNone;
  ForEachCell(
      row.row == nullptr ? kNone : *row.row, [&visit](
                                                 const Column& column,
                                                 const auto& cell) __attribute__((always_inline)) {
        if (column.name == "stack") {
          visit(Column{"stack_id", "The number of its stack in stacks.csv.gz."}, cell);
        } else {
          visit(column, cell);
        }
      });
}

}  // namespace proftrace
