// The columns of the table `collectives` on the common clock. A row is a collective on one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "exporters/tables/collective_call_rows.h"
#include "exporters/tables/column.h"

namespace proftrace {

struct AlignedCallRow {
  CollectiveCallRow row;
  std::string_view match;
  std::optional<int64_t> bound_ns;
  std::optional<int64_t> estimate_error_ns;
  int64_t timeline = 0;
};

template <typename Visit>
void ForEachCell(const AlignedCallRow& row, Visit&& visit) {
  ForEachCell(row.row, visit);
  visit(
      Column{"match",
             "How it was found to be the same one as other ranks': `seq`, by its number; `order`, "
             "by the order of calls; `none`: it was not."},
      row.match);
  visit(Column{"bound_ns",
               "No difference between the times of two ranks in it is wrong by more, proved; "
               "empty: nothing is."},
        row.bound_ns);
  visit(Column{"estimate_error_ns", "What such a difference likely is wrong by."},
        row.estimate_error_ns);
  visit(Column{"timeline", "Times of different timelines cannot be compared."}, row.timeline);
}

}  // namespace proftrace
