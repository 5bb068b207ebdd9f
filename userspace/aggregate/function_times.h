// Sums up what each function of Python did: its calls, and how long they took.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The times of calls are those of Python's rows: from the begin of the first span in a call to the
// end of the last one. Time before the first span and after the last one is not known.
struct FunctionTimes {
  uint32_t code = 0;     // an index into Timeline::python_codes()
  uint64_t calls = 0;    // rows; see PythonRows on calls that cannot be told apart
  int64_t total_ns = 0;  // a call within a call of the same function is not counted again
  int64_t self_ns = 0;   // less the time of functions that it calls
};

// Returns the functions that were called, in the order of their codes. One pass over the rows.
// `threads`: by ThreadIndex, whether the thread's rows count; nullptr: all count. With `windows`,
// also sums up the rows that began in each window into `shares`: calls, total_ns and self_ns.
std::vector<FunctionTimes> SumFunctions(const Timeline& timeline, const PythonRows& rows,
                                        const std::vector<bool>* threads = nullptr,
                                        const StepWindows* windows = nullptr,
                                        std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
