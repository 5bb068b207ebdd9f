// Writes frames of Python as torch.profiler does: as the names of its python_function rows, which
// are also the entries of FunctionEvent.stack.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the text of a place in a function: "file.py(12): f".
std::string PythonPlaceText(const std::string& file, int32_t line, const std::string& name);
// Returns that text for a function, with the first line of the function.
std::string PythonFunctionText(const PythonCode& code);
// Returns the name of an nn.Module in torch's traces: "Linear_0".
std::string PythonModuleText(const PythonModule& module);
// Returns the name of a module's call in torch's traces: "nn.Module: Linear_0".
std::string PythonModuleCallText(const PythonModule& module);

// Returns the text of a frame: the call of its nn.Module where it is one, else its function.
std::string PythonFrameText(const Timeline& timeline, StackId frame);
// Returns the text of a frame's function with the running line, where this is known.
std::string PythonLineText(const Timeline& timeline, StackId frame);

}  // namespace proftrace
