// Makes one recording of the summaries that a flight recorder has written for one process, one each
// minute.
#pragma once

#include <memory>
#include <vector>

#include "userspace/fleet_tables/input_facts.h"

namespace proftrace {

// Joins the inputs that have an `id` in common and a `window_end_s`; all others stay as they are.
//   - Steps are numbered on through all windows. What lies between two windows counts as many steps
//     as fit into it, of the usual length: a step that a window's end cuts is in neither.
//   - Calls behind a gap are marked, as some may be missing there (CollectiveCall::is_after_loss).
//   - A window that begins before the one before it has ended is left out, with a remark: rows of
//     one time would count twice.
std::vector<std::unique_ptr<InputFacts>> JoinSeries(
    std::vector<std::unique_ptr<InputFacts>> inputs);

}  // namespace proftrace
