// Names of rows of CUDA calls and of device activity, as Kineto writes them
// (libkineto/src/cupti_strings.cpp, CuptiActivity.h), and which calls are rows.
#pragma once

#include <string>
#include <string_view>

#include "userspace/model/device_activity.h"

namespace proftrace {

// Returns CUPTI's name of a call without a version of the Runtime: "cudaLaunchKernel" for
// "cudaLaunchKernel_v7000". "cuMemcpyHtoDAsync_v2" stays as it is.
std::string_view CallName(std::string_view cupti_name);

// Returns whether the call is a row. Calls that Kineto leaves out are no rows: those that ask for
// the device or the last error, or make and destroy events. The Driver's calls are rows only where
// they give a device work, wait for a device, or map memory.
bool IsShownCall(std::string_view name, bool is_driver);

// Names an activity. Kernels and markers are called `text`, which is empty where the record with
// the name was lost.
std::string DeviceActivityName(const DeviceActivity& activity, const std::string& text);

}  // namespace proftrace
