// A capture as an input of a merge: its rows are exactly those of `export --format chrome`, on
// CLOCK_MONOTONIC.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "userspace/collectives/source_input.h"
#include "userspace/model/recording.h"
#include "userspace/pipeline/process_choice.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// Returns what to open of a capture, one by one: everything where there is one rank at most; else
// each rank, and each process that belongs to none.
std::vector<ProcessChoice> ChoicesOf(const CaptureMetadata& metadata);

// Sets what the recording tells of the process with a rank, or of its first one, and of its host.
void TakeRecordingFacts(const RecordingInfo& info, SourceFacts* facts);

// Opens a result directory or a capture file. A capture of several ranks gives one input a rank,
// with the processes that each has forked, and one a process that belongs to no rank. The timeline
// is built while facts are read and while events are, and not kept. `scratch_directory`: for rows
// that do not fit in memory; empty: /tmp.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenCaptureSources(
    const std::string& path, bool salvage, const std::string& scratch_directory);

}  // namespace proftrace
