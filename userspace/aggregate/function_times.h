// Sums up what each function of Python did: its calls, and how long they took.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The times of calls are those of Python's rows: from the begin of the first span in a call to the
// end of the last one. Time before the first span and after the last one is not known.
struct FunctionTimes {
  uint32_t code = 0;     // an index into Timeline::python_codes()
  uint64_t calls = 0;    // rows that began; see PythonRows on calls that cannot be told apart
  int64_t total_ns = 0;  // a call within a call of the same function is not counted again
  int64_t self_ns = 0;   // less the time of functions that it calls
};

// Returns the functions that have a row in `stretch` (CLOCK_MONOTONIC, without its end), in the
// order of their codes. If a row lies across an end of the stretch, the part within counts; a
// function that was called before the stretch may have no calls. One pass over the rows. `threads`:
// by ThreadIndex, whether the thread's rows count; nullptr: all count.
std::vector<FunctionTimes> SumFunctions(const Timeline& timeline, const PythonRows& rows,
                                        const std::pair<int64_t, int64_t>& stretch,
                                        const std::vector<bool>* threads = nullptr);

}  // namespace proftrace
