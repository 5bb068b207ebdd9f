// The recording as a Perfetto trace of its own format (protocol buffers): what the chrome trace has
// (chrome_trace.h), and what that format has no words for. Threads' states and the CPUs that they
// had are Perfetto's `thread_state` and `sched`; an arrow goes from a waker to the time that the
// thread that it woke waited for a CPU; memory is counters; times are nanoseconds.
//
// Where records of the scheduler were lost no thread has states: what is between two of them would
// be wrong. Only recorded threads have states: a CPU's gaps are no idleness.
#pragma once

#include <absl/status/status.h>

#include "exporters/sinks/output_file.h"
#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

absl::Status ExportPerfettoTrace(const Timeline& timeline, const StepRows& steps,
                                 const PythonRows& python, ByteSink& sink);

}  // namespace proftrace
