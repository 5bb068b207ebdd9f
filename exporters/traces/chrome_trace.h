// trace.json: Kineto's Chrome trace format (libkineto/src/output_json.cpp), one event a line, for
// Perfetto, HTA, TraceLens and TensorBoard.
//
// The trace differs from Kineto's in these points:
//   - baseTimeNanoseconds is the midnight (UTC) before the window, not a multiple of a quarter of a
//     year: `ts` then needs 37 bits before the point, and readers that hold it in a double keep the
//     nanoseconds. It is still the same for all ranks of a job.
//   - names are exact (Kineto turns \ into / and drops line ends).
//   - rows of one track always nest: a span that is async, or that would stick out of the row
//   around
//     it, is written as a pair of async events (ph b, e), because Perfetto drops "X" events that
//     overlap.
//   - system calls, time off the CPU and page faults are rows of the categories syscall, sched and
//     fault, and the states of threads are rows without a category (chrome_system_rows.h). Kineto
//     has neither.
//   - a span whose end was not seen has "end": "truncated" or "lost" in its args, and one that an
//     exception ended has "exception"; the ledger and the cost stand under "proftrace".
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <span>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/device_idle.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the trace. Memory: the names, and the open rows of each thread. `steps`: further rows
// beside the spans. `rank`: only processes of this rank are written; nullopt: all. `idle`: gaps of
// devices, which become rows of category gpu_idle. `python`: rows of Python's calls. `steps`,
// `idle` and `python` must outlive the call. `cuda_sync_rows`: as in Aggregates.
absl::Status ExportChromeTrace(const Timeline& timeline, ByteSink& sink,
                               const StepRows& steps = StepRows(),
                               std::optional<int> rank = std::nullopt,
                               std::span<const DeviceIdle> idle = {},
                               const PythonRows& python = PythonRows(),
                               bool cuda_sync_rows = false);

}  // namespace proftrace
