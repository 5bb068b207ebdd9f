// trace.pfw: what DFTracer 2.2.0 writes (github.com/llnl/dftracer), for its tools: one JSON object
// a line, without a list around them. System calls that do I/O, requests of io_uring, and ranges
// that the program marked (record_function, DataLoader).
//
// A row names the function of libc that makes the call where DFTracer shows one under another name;
// the kernel's name then stands in args as "syscall". Where we differ: one file holds all
// processes, each between its own `start` and `end`; sockets are there too; args have more
// ("errno", "dur_ns", as microseconds are too coarse for small reads).
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Memory: a hash for each file and path.
absl::Status ExportPfw(const Timeline& timeline, ByteSink& sink);

}  // namespace proftrace
