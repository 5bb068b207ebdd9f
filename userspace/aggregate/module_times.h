// Sums up the calls of each nn.Module of a recording, and the operators and memory in them.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Times of calls are those of Python's rows: from the first span in a call to the end of the last
// one. The work of a module also counts for the modules that call it, except in the `self` times.
struct ModuleTimes {
  uint32_t module = 0;          // an index into Timeline::python_modules(): the first instance
  uint32_t instances = 1;       // see ModuleSums
  uint64_t calls = 0;           // rows; see PythonRows on calls that cannot be told apart
  int64_t forward_ns = 0;       // a call within a call of the same module is not counted again
  int64_t self_forward_ns = 0;  // less the time of modules that it calls
  // The time in backward nodes that were made by forward operators in the module.
  int64_t backward_ns = 0;
  int64_t self_backward_ns = 0;  // only of operators whose innermost module it is
  uint64_t operators = 0;        // operators in its calls, without the backward pass
  int64_t cpu_memory_bytes = 0;  // allocated less freed by all spans in its calls
};

struct ModuleSums {
  // The modules that did anything, in the order in which they were first seen. A module without a
  // path is usually made anew by each forward (a loss): all modules of the same class within one
  // module are one entry.
  std::vector<ModuleTimes> modules;
  // The forward and backward time of modules that no other module called. Shares are parts of this.
  int64_t total_ns = 0;
};

// Sums up the modules in one pass over the spans and one over the rows. With `windows`, also sums
// up what began in each window into `shares`: calls, forward_ns, self_forward_ns and backward_ns.
ModuleSums SumModules(const Timeline& timeline, const PythonRows& rows,
                      const StepWindows* windows = nullptr,
                      std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
