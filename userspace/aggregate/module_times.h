// Sums up what each nn.Module of a recording did: its calls, and what ran in them.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/python_rows.h"
#include "userspace/aggregate/step_windows.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Times of calls are those of Python's rows: from the first span in a call to the end of the last
// one. A module is part of the modules that call it; what it does counts for these, too, but in the
// `self` times.
struct ModuleTimes {
  uint32_t module = 0;          // an index into Timeline::python_modules(): the first instance
  uint32_t instances = 1;       // see ModuleSums
  uint64_t calls = 0;           // rows; see PythonRows on calls that cannot be told apart
  int64_t forward_ns = 0;       // a call in a call of the same module counts once
  int64_t self_forward_ns = 0;  // less that of modules that it calls
  // The time in backward nodes that were made by forward operators in the module.
  int64_t backward_ns = 0;
  int64_t self_backward_ns = 0;  // of operators whose innermost module it is
  uint64_t operators = 0;        // that ran in it, not in the backward pass
  int64_t cpu_memory_bytes = 0;  // allocated less freed by these and other spans in it
};

struct ModuleSums {
  // The modules that did anything, in the order in which they were met. Modules that hang nowhere
  // are made anew by each forward as a rule (a loss): those of one class in one module are one.
  std::vector<ModuleTimes> modules;
  // The forward of modules that no other one called, and their backward: what shares are of.
  int64_t total_ns = 0;
};

// One pass over the spans and one over the rows. `windows`: also sums up what began in each into
// `shares`: calls, forward_ns, self_forward_ns and backward_ns.
ModuleSums SumModules(const Timeline& timeline, const PythonRows& rows,
                      const StepWindows* windows = nullptr,
                      std::vector<WindowShare>* shares = nullptr);

}  // namespace proftrace
