// Writes the tables of `report --by-file`, `--by-syscall`, `--waits` and `--gpu-idle`.
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

// Returns "file", "directory", "device", "pipe", "socket" or "anonymous"; empty: not known.
std::string_view FileKindName(SystemFileKind kind);

// Returns all known facts of a wait's place, the outermost first: names from the root, the line of
// Python, the system call: "worker/step | train.py(12): main | futex".
std::string PlaceOfWaitText(const Timeline& timeline, const WaitPlace& place);

// Writes a table. Fails with ExitCode::kUsage, and says with which option to record, where the
// recording does not have its data.
absl::Status ExportSystemView(const Timeline& timeline, const SystemViewOptions& options,
                              ByteSink& sink);

}  // namespace proftrace
