// Writes trace.pfw in the format of DFTracer 2.2.0 (github.com/llnl/dftracer), for its tools: one
// JSON object on each line, without a list around them. It has system calls that do I/O, requests
// of io_uring, and ranges that the program marked (record_function, DataLoader).
//
// A row names the function of libc that makes the call where DFTracer shows one under another name;
// the kernel's name then stands in args as "syscall". The file differs from DFTracer's in these
// points: one file holds all processes, each between its own `start` and `end`; it has sockets too;
// args have more members ("errno", and "dur_ns" because microseconds are too coarse for small
// reads).
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Writes the trace. Memory: a hash for each file and path.
absl::Status ExportPfw(const Timeline& timeline, ByteSink& sink);

}  // namespace proftrace
