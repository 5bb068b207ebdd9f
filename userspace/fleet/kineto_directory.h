// Writes a directory of Kineto files, one per rank, whose times are on one clock. It is meant for
// HTA, TraceLens and other tools that read one file per rank. Numbers and texts of events stay as
// they were.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"
#include "userspace/fleet/merge_writer.h"

namespace proftrace {

// Writes "rank0.json.gz" and so on. `directory` must outlive the writer.
std::unique_ptr<MergeWriter> NewKinetoDirectory(const OutputDirectory& directory);

}  // namespace proftrace
