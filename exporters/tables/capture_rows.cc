#include "exporters/tables/capture_rows.h"

#include <cmath>

namespace proftrace {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

void ForEachCaptureRow(const Timeline& timeline, absl::FunctionRef<bool(const CaptureRow&)> add) {
  const RecordingInfo& info = timeline.info();
  CaptureRow row;
  row.host = info.host.name;
  row.boot_id = info.host.boot_id;
  row.machine_id_hash = info.host.machine_id_hash;
  row.kernel = info.host.kernel;
  row.cpus = info.host.cpus;
  row.trace_name = info.trace_name;
  row.proftrace_version = info.proftrace_version;
  row.tier = info.tier;
  if (info.window.monotonic_to_unix_ns != 0) row.start_ns = timeline.ToUnixNs(info.window.start_ns);
  row.attach_ns = Nanoseconds(info.window.attach_s);
  if (info.has_end) {
    row.duration_ns = info.window.duration_ns;
    row.detach_ns = Nanoseconds(info.window.detach_s);
    row.has_loss = timeline.any_loss();
  }
  (void)add(row);
}

}  // namespace proftrace
