// The tree of rows is the call stack of each thread as torch's events() has it
// (torch/autograd/profiler_util.py, _populate_cpu_children): the parent of a row is the innermost
// row of its thread whose times contain it. SpanBuilder knows which row was open when another row
// began. The two differ where a row outlives the row in which it began:
//
//     aten::clone   |------|                     aten::clone |------|
//     my block         |--------------------|    my block       |--------------------|
//     aten::mm                |-----|            aten::mm              |-----|
//
//     began in: clone > block, mm in nothing     events(): clone; block > mm
//
// Asynchronous rows, and rows that events() does not have, are apart: they have no parent, no
// children and no self time.
//
// In each tree the self times of all rows add up to the duration of the root. Two rows that overlap
// without one containing the other (asyncio's tasks) both count the time that they share, as in
// torch. The column `shared_ns` of a row holds the part of its self time that a row which began
// later counts as well. Without `shared_ns`, the self times of a thread add up to the time in which
// any row was open.
#pragma once

#include <absl/status/status.h>

#include "userspace/model/timeline.h"

namespace proftrace {

// Sets parents, depths, paths, numbers of children, self times and self memory of rows, and the
// parents of memory events, on all threads on which a row overlaps another or is apart. To be
// called after SpanBuilder::Finish().
absl::Status BuildCallTree(TimelineBuilder* timeline);

}  // namespace proftrace
