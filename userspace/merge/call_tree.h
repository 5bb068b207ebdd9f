// The tree of rows is the call stack of each thread as torch's events() has it
// (torch/autograd/profiler_util.py, _populate_cpu_children): a row lies in the innermost one of its
// thread that contains it, by their times. SpanBuilder knows which row was open when another began;
// that differs where a row outlives what it began in:
//
//     aten::clone   |------|                     aten::clone |------|
//     my block         |--------------------|    my block       |--------------------|
//     aten::mm                |-----|            aten::mm              |-----|
//
//     began in: clone > block, mm in nothing     events(): clone; block > mm
//
// Asynchronous rows, and rows that events() does not have, are apart: they have no parent, no
// children and no time of their own.
//
// In each tree the rows' own times add up to the root's. Rows that overlap without one containing
// the other (asyncio's tasks) each have the time that they share, as in torch; how much of a row's
// own time a row that began later has as well is in the column `shared_ns`: less that, own times of
// a thread add up to the time in which anything was open.
#pragma once

#include <absl/status/status.h>

#include "userspace/model/timeline.h"

namespace proftrace {

// Sets parents, depths, paths, numbers of children, own times and own memory of the rows of all
// threads on which a row overlaps another or is apart, and the parents of memory events there.
// After SpanBuilder::Finish().
absl::Status BuildCallTree(TimelineBuilder* timeline);

}  // namespace proftrace
