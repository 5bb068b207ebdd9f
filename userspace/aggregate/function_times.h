// Sums up what each function of Python did: its calls, and how long they took.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Times of calls are those of Python's rows: from the first span in a call to the end of the last
// one. The time that a function spends before its first span and after its last one is not in it.
struct FunctionTimes {
  uint32_t code = 0;     // an index into Timeline::python_codes()
  uint64_t calls = 0;    // rows; see PythonRows on calls that cannot be told apart
  int64_t total_ns = 0;  // a call in a call of the same function counts once
  int64_t self_ns = 0;   // less that of functions that it calls
};

// Returns the functions that were called, in the order of their codes. One pass over the rows.
// `threads`: by ThreadIndex, whether its rows count; nullptr: all do.
// `windows`: also sums up what began in each into `shares`: calls, total_ns and self_ns.
std::vector<FunctionTimes> SumFunctions(const Timeline& timeline, const PythonRows& rows,
                                        const std::vector<bool>* threads = nullptr,
                                        const StepWindows* windows = nullptr,
                                        std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
