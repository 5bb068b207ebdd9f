// Prints what `report --by-file`, `--by-syscall`, `--waits` and `--gpu-idle` show.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/model/system_event.h"
#include "userspace/model/timeline.h"

namespace proftrace {

enum class SystemView { kByFile, kBySystemCall, kWaits, kGpuIdle };

struct SystemViewOptions {
  SystemView view = SystemView::kByFile;
  int64_t row_limit = 100;  // negative = no limit
  bool json = false;        // {"rows": [{…}], "rows_left_out": 0}; times in nanoseconds
};

// "file", "directory", "device", "pipe", "socket", "anonymous"; empty where it is not known.
std::string_view FileKindName(SystemFileKind kind);

// "worker/step | train.py(12): main | futex": all that is known of a wait's place, in the order in
// which it is nested: names from the root, the line of Python, the system call.
std::string PlaceOfWaitText(const Timeline& timeline, const WaitPlace& place);

// Fails with ExitCode::kUsage, and what to record with, where the recording does not have it.
absl::Status ExportSystemView(const Timeline& timeline, const SystemViewOptions& options,
                              ByteSink& sink);

}  // namespace proftrace
