// The rows and columns of the table `clocks`: one row a reading of the kernel's clocks.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/tables/column.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct ClockRow {
  int64_t monotonic_ns = 0;
  std::optional<int64_t> monotonic_raw_ns;
  std::optional<int64_t> boottime_ns;
  std::optional<int64_t> realtime_ns;
  std::optional<int64_t> tai_ns;
  int64_t gap_ns = 0;
  std::optional<bool> ntp_synchronised;
  std::optional<int64_t> ntp_max_error_ns;
  std::optional<int64_t> ntp_estimated_error_ns;
  std::optional<int64_t> ntp_offset_ns;
  std::optional<int64_t> ntp_frequency_ppb;
};

template <typename Visit>
void ForEachCell(const ClockRow& row, Visit&& visit) {
  visit(Column{"monotonic_ns", "CLOCK_MONOTONIC when the clocks were read."}, row.monotonic_ns);
  visit(Column{"monotonic_raw_ns", "CLOCK_MONOTONIC_RAW: not slewed by NTP."},
        row.monotonic_raw_ns);
  visit(Column{"boottime_ns", "CLOCK_BOOTTIME: goes on during a suspend."}, row.boottime_ns);
  visit(Column{"realtime_ns", "CLOCK_REALTIME."}, row.realtime_ns);
  visit(Column{"tai_ns", "CLOCK_TAI."}, row.tai_ns);
  visit(
      Column{"gap_ns", "How long the reading took: the clocks were as told to within half of it."},
      row.gap_ns);
  visit(Column{"ntp_synchronised", "1 where the kernel held its clock for synchronised; else 0."},
        row.ntp_synchronised);
  visit(Column{"ntp_max_error_ns", "NTP's bound of the clock's error."}, row.ntp_max_error_ns);
  visit(Column{"ntp_estimated_error_ns", "NTP's estimate of it."}, row.ntp_estimated_error_ns);
  visit(Column{"ntp_offset_ns", "By how much the clock was still to be slewed."},
        row.ntp_offset_ns);
  visit(Column{"ntp_frequency_ppb", "By how much its rate was corrected."}, row.ntp_frequency_ppb);
}

// Gives the rows to `add`, until it returns false.
void ForEachClockRow(const Timeline& timeline, absl::FunctionRef<bool(const ClockRow&)> add);

}  // namespace proftrace
