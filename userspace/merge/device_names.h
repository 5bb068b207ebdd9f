// Names of rows of CUDA calls and of device activity, as Kineto writes them
// (libkineto/src/cupti_strings.cpp, CuptiActivity.h), and which calls are rows.
#pragma once

#include <string>
#include <string_view>

#include "userspace/model/device_activity.h"

namespace proftrace {

// "cudaLaunchKernel" of "cudaLaunchKernel_v7000"; "cuMemcpyHtoDAsync_v2" stays.
std::string_view CallName(std::string_view cupti_name);

// Whether the call is a row. Calls that Kineto leaves out are none (which device, the last error,
// making and destroying events); of the Driver's calls only those are rows that give a device work,
// wait for it, or map memory.
bool IsShownCall(std::string_view name, bool is_driver);

// Names an activity. A kernel's or a marker's name is its own: `text`, which is empty where it did
// not come.
std::string DeviceActivityName(const DeviceActivity& activity, const std::string& text);

}  // namespace proftrace
