// Frames of Python in torch.profiler's words: the names of its python_function rows, which are the
// entries of FunctionEvent.stack.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// "file.py(12): f"
std::string PythonPlaceText(const std::string& file, int32_t line, const std::string& name);
// Returns that text for a function, with the first line of the function.
std::string PythonFunctionText(const PythonCode& code);
// "Linear_0": an nn.Module as torch's traces call it.
std::string PythonModuleText(const PythonModule& module);
// "nn.Module: Linear_0".
std::string PythonModuleCallText(const PythonModule& module);

// Returns the text of a frame: the call of its nn.Module where it is one, else its function.
std::string PythonFrameText(const Timeline& timeline, StackId frame);
// Returns the text of a frame, its function with the line that is executed, where that is known.
std::string PythonLineText(const Timeline& timeline, StackId frame);

}  // namespace proftrace
