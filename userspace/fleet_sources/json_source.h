// Makes an input of a merge from a trace in JSON: Kineto's (torch.profiler), DFTracer's .pfw, and
// others in Chrome's format; plain or gzip.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "userspace/collectives/source_input.h"
#include "userspace/fleet_sources/source_observer.h"

namespace proftrace {

// Opens a trace, and reads the whole file for its facts. `has_events_alone`: the file has events
// one after the other, and no document around them. `salvage`: a damaged file is read up to its
// first wrong place, and a remark says so; without it the result is kInputDamaged. A file whose end
// is cut off is read up to its last whole event in either case. `observer` is shown the events;
// null where nobody needs them.
absl::StatusOr<std::unique_ptr<SourceInput>> OpenJsonSource(const std::string& path,
                                                            bool has_events_alone, bool is_dftracer,
                                                            bool salvage, SourceObserver* observer);

}  // namespace proftrace
