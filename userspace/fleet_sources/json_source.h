// A trace in JSON as an input of a merge: Kineto's (torch.profiler), DFTracer's .pfw, and others in
// Chrome's format; plain or gzip.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "userspace/collectives/source_input.h"

namespace proftrace {

// Reads the whole file for its facts. `has_events_alone`: one after the other, in no document.
// `salvage`: what is whole before the first place that is wrong is taken, and that is said; else
// kInputDamaged. A file whose end is cut off is taken up to its last whole event in either case.
absl::StatusOr<std::unique_ptr<SourceInput>> OpenJsonSource(const std::string& path,
                                                            bool has_events_alone, bool is_dftracer,
                                                            bool salvage);

}  // namespace proftrace
