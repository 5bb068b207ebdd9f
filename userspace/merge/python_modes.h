// Annotations under a mode of Python (TorchDispatchMode): the operators that begin and end them are
// called twice then, by the job, and by the mode's own code with what it was given.
#pragma once

#include <span>
#include <vector>

#include "userspace/decode/event.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Whether `event`, the begin or the end of an annotation, only goes to Python, where its operator
// is called again or not at all: what comes `later` on its thread is then torch's own row for that
// (torch/csrc/autograd: "PythonDispatchMode"), before anything else.
bool GoesToPython(const Event& event, std::span<const Event> later,
                  const std::vector<Label>& labels);

}  // namespace proftrace
