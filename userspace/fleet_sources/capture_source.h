// A capture as an input of a merge: its rows are exactly those of `export --format chrome`, on
// CLOCK_MONOTONIC.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/fleet/source_input.h"

namespace proftrace {

// Opens a result directory or a capture file. A capture of several ranks gives one input a rank,
// with the processes that each has forked, and one a process that belongs to no rank. The timeline
// is built while facts are read and while events are, and not kept. `scratch_directory`: for rows
// that do not fit in memory; empty: /tmp.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenCaptureSources(
    const std::string& path, bool salvage, const std::string& scratch_directory);

}  // namespace proftrace
