// Frames of samples as they are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

// "file.py(12): f", with the first line of the function, as PythonFunctionText(); "at::mm";
// "[libc.so.6]" where the file has no symbol there; "futex_[k]", FlameGraph's mark for the kernel.
std::string SampleFunctionText(const SampleFunction& function);
// Returns that text, with the line that is executed in a function of Python, where it is known.
std::string SampleLineText(const Timeline& timeline, const SampleFrame& frame);

// Returns the functions of a stack, the innermost first: at most `most` of them.
std::vector<std::string> SampleStackTexts(const Timeline& timeline, uint32_t frame, size_t most);

// "running", "runnable", "sleeping", "uninterruptible", "stopped".
std::string_view SampleStateName(SampleState state);

}  // namespace proftrace
