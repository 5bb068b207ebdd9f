// The columns of a fleet's table `clocks`. A row is a knot of a boot's clock; between two knots the
// offset changes linearly.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "exporters/tables/column.h"

namespace proftrace {

struct ClockKnotRow {
  std::string_view boot_id;
  bool is_reference = false;
  int64_t timeline = 0;
  int64_t local_ns = 0;
  int64_t offset_ns = 0;
  std::optional<int64_t> low_ns;
  std::optional<int64_t> high_ns;
  std::optional<int64_t> estimate_error_ns;
  std::string_view method;
};

template <typename Visit>
void ForEachCell(const ClockKnotRow& row, Visit&& visit) {
  visit(Column{"boot_id", "The boot of the host."}, row.boot_id);
  visit(Column{"is_reference", "1 for the boot whose clock is the common one; else 0."},
        row.is_reference);
  visit(Column{"timeline", "Times of different timelines cannot be compared; the first one is 0."},
        row.timeline);
  visit(
      Column{"local_ns",
             "The boot's own clock: CLOCK_MONOTONIC where proftrace recorded on it, else its wall "
             "clock."},
      row.local_ns);
  visit(Column{"offset_ns", "What must be added to get common time."}, row.offset_ns);
  visit(Column{"low_ns", "The offset is no less than this, proved; empty: nothing is."},
        row.low_ns);
  visit(Column{"high_ns", "The offset is no more than this, proved."}, row.high_ns);
  visit(Column{"estimate_error_ns", "What the offset likely is wrong by."}, row.estimate_error_ns);
  visit(Column{"method", "As `clock_method` of `captures`."}, row.method);
}

}  // namespace proftrace
