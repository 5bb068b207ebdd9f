// Writes the args of a device activity's row for the trace and events.csv, with Kineto's keys in
// Kineto's order (libkineto/src/CuptiActivity.h).
#pragma once

#include <string>

#include "exporters/args/device_numbers.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The numbers by which a trace tells several processes apart.
struct TraceNumbers {
  uint64_t first_correlation = 0;          // added to correlation ids
  const DeviceNumbers* devices = nullptr;  // nullptr: a device has the number that its process uses
};

// Returns the inside of a JSON object, without braces and "External id"; empty when there are none.
std::string DeviceArgs(const Timeline& timeline, const DeviceActivity& activity,
                       const TraceNumbers& numbers = {});

}  // namespace proftrace
