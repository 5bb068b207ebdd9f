// The args of a device activity's row, with Kineto's keys and in its order (libkineto/src/
// CuptiActivity.h): for the trace and for events.csv.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// The inside of a JSON object, without braces and "External id"; empty when there are none.
// `first_correlation`: added to correlation ids, so that those of several processes are apart.
std::string DeviceArgs(const Timeline& timeline, const DeviceActivity& activity,
                       uint64_t first_correlation = 0);

}  // namespace proftrace
