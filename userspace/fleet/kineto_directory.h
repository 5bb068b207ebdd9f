// A directory of Kineto files, one a rank, whose times are on one clock: for HTA, TraceLens and all
// that read one file a rank. Numbers and texts of events are as they were.
#pragma once

#include <memory>

#include "exporters/sinks/output_file.h"
#include "userspace/fleet/merge_writer.h"

namespace proftrace {

// Writes "rank0.json.gz" and so on. `directory` must outlive the writer.
std::unique_ptr<MergeWriter> NewKinetoDirectory(const OutputDirectory& directory);

}  // namespace proftrace
