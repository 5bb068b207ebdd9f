// The args of a device activity's row, with Kineto's keys and in its order (libkineto/src/
// CuptiActivity.h): for the trace and for events.csv.
#pragma once

#include <string>

#include "exporters/args/device_numbers.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Numbers that tell several processes apart in one trace.
struct TraceNumbers {
  uint64_t first_correlation = 0;          // added to correlation ids
  const DeviceNumbers* devices = nullptr;  // none: devices have their processes' numbers
};

// Returns the inside of a JSON object, without braces and "External id"; empty when there are none.
std::string DeviceArgs(const Timeline& timeline, const DeviceActivity& activity,
                       const TraceNumbers& numbers = {});

}  // namespace proftrace
