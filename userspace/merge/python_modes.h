// Annotations under a mode of Python (TorchDispatchMode). The operators that begin and end such an
// annotation are called twice: by the job, and again by the mode's code, which passes its arguments
// on.
#pragma once

#include <span>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns whether `event`, the begin or the end of an annotation, only goes to Python, where its
// operator is called again or not at all. The next row on its thread in `later` is then torch's own
// row for this (torch/csrc/autograd: "PythonDispatchMode"), before anything else. Where there is no
// such row, the call itself tells, if the mode's code calls such an operator again before that call
// is over: 1.13 makes none, and while Python is the dispatcher, as torch.compile has it, none is
// made for an operator that is called with an object of C++, as ends are (torch/_ops.py,
// TorchBindOpOverload).
bool GoesToPython(const Event& event, std::span<const Event> later,
                  const std::vector<Label>& labels);

}  // namespace proftrace
