// Frames of Python in torch.profiler's words.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// The name of torch's python_function row and the entry of FunctionEvent.stack: "file.py(12): f"
// with the first line of the function, or "nn.Module: Linear_0".
std::string PythonFunctionText(const Timeline& timeline, StackId frame);

// The same with the line that is executed, where it is known.
std::string PythonLineText(const Timeline& timeline, StackId frame);

// "Linear_0": an nn.Module as torch's traces call it.
std::string PythonModuleText(const PythonModule& module);

// The nn.Module whose call the frame is; nothing where it is none.
const PythonModule* PythonModuleOf(const Timeline& timeline, StackId frame);

}  // namespace proftrace
