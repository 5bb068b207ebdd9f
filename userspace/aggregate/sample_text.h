// Frames of samples as they are shown.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// "file.py(12): f", with the first line of the function, as PythonFunctionText(); "at::mm";
// "[libc.so.6]" where the file has no symbol there; "futex_[k]", FlameGraph's mark for the kernel.
std::string SampleFunctionText(const SampleFunction& function);
// The same, a function of Python with the line that is executed, where that is known.
std::string SampleLineText(const Timeline& timeline, const SampleFrame& frame);

// "running", "runnable", "sleeping", "uninterruptible".
std::string_view SampleStateName(SampleState state);

}  // namespace proftrace
