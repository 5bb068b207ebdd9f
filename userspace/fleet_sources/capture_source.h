// Makes inputs of a merge from a capture. The rows are exactly those of `export --format chrome`,
// on CLOCK_MONOTONIC.
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

// Returns the choices of processes that become one input each: one choice of all processes where
// the capture has one rank at most; else one for each rank and each process without a rank.
std::vector<ProcessChoice> ChoicesOf(const CaptureMetadata& metadata);

// Sets the facts that the recording tells about its host and its process: the one with a rank, else
// the first one.
void TakeRecordingFacts(const RecordingInfo& info, SourceFacts* facts);

// Opens a result directory or a capture file. A capture of several ranks gives one input for each
// rank, with the processes that it has forked, and one for each process without a rank. The
// timeline is not kept: it is built anew for the facts and for the events. `scratch_directory`: for
// rows that do not fit in memory; empty: /tmp.
absl::StatusOr<std::vector<std::unique_ptr<SourceInput>>> OpenCaptureSources(
    const std::string& path, bool salvage, const std::string& scratch_directory);

}  // namespace proftrace
