// Writes the recording in Perfetto's own format (protocol buffers). It has everything that the
// chrome trace has (chrome_trace.h), and facts for which that format has no form. Threads' states
// and the CPUs that they had are Perfetto's `thread_state` and `sched`; an arrow goes from a waker
// to the time in which the woken thread waited for a CPU; memory is shown as counters; times are
// nanoseconds.
//
// Where records of the scheduler were lost no thread has states, because the state between two
// records would be wrong. Only recorded threads have states, so a gap on a CPU does not mean that
// the CPU was idle.
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
