#include "exporters/tables/io_rows.h"

#include "exporters/text/system_views.h"
#include "userspace/aggregate/file_io.h"

namespace proftrace {

void ForEachIoRow(const Timeline& timeline, absl::FunctionRef<bool(const IoRow&)> add) {
  const SystemActivities& recorded = timeline.info().system;
  if (!recorded.calls && !recorded.io) return;
  for (const FileIo& file : SumFileIo(timeline)) {
    IoRow row;
    row.file = file.name;
    row.kind = FileKindName(file.kind);
    row.opens = file.opens;
    row.reads = file.reads;
    row.writes = file.writes;
    row.calls = file.calls;
    row.errors = file.errors;
    row.bytes_read = file.bytes_read;
    row.bytes_written = file.bytes_written;
    row.time_ns = file.time_ns;
    if (timeline.has_sched()) row.off_cpu_ns = file.off_cpu_ns;
    row.longest_ns = file.longest_ns;
    row.page_ins = file.page_ins;
    row.page_in_ns = file.page_in_ns;
    if (!add(row)) return;
  }
}

}  // namespace proftrace
