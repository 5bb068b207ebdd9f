#include "exporters/tables/clock_rows.h"

namespace proftrace {

void ForEachClockRow(const Timeline& timeline, absl::FunctionRef<bool(const ClockRow&)> add) {
  for (const ClockSnapshot& clocks : timeline.info().clocks) {
    ClockRow row;
    row.monotonic_ns = clocks.monotonic_ns;
    row.monotonic_raw_ns = clocks.monotonic_raw_ns;
    row.boottime_ns = clocks.boottime_ns;
    row.realtime_ns = clocks.realtime_ns;
    row.tai_ns = clocks.tai_ns;
    row.gap_ns = clocks.gap_ns;
    if (clocks.ntp.has_value()) {
      row.ntp_synchronised = clocks.ntp->is_synchronised;
      row.ntp_max_error_ns = clocks.ntp->max_error_ns;
      row.ntp_estimated_error_ns = clocks.ntp->estimated_error_ns;
      row.ntp_offset_ns = clocks.ntp->offset_ns;
      row.ntp_frequency_ppb = clocks.ntp->frequency_ppb;
    }
    if (!add(row)) return;
  }
}

}  // namespace proftrace
