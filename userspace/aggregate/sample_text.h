// Writes frames of samples as they are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the text of a function: "file.py(12): f" with the function's first line for Python, as
// PythonFunctionText() does; "at::mm" for native code, "[libc.so.6]" where the file has no symbol;
// "futex_[k]" for a system call, with FlameGraph's mark for the kernel.
std::string SampleFunctionText(const SampleFunction& function);
// Returns that text with the running line of a function of Python, where this is known.
std::string SampleLineText(const Timeline& timeline, const SampleFrame& frame);

// Returns the functions of a stack, the innermost first: at most `most` of them.
std::vector<std::string> SampleStackTexts(const Timeline& timeline, uint32_t frame, size_t most);

// Returns "running", "runnable", "sleeping", "uninterruptible" or "stopped".
std::string_view SampleStateName(SampleState state);

}  // namespace proftrace
