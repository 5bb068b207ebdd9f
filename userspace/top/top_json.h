// Writes one refresh of `proftrace top` as a JSON object; docs/reference/top.md has its keys.
#pragma once

#include <string>

#include "userspace/top/top_model.h"
#include "userspace/top/top_screen.h"

namespace proftrace {

// Returns the object on one line, with its line end. `most_rows`: the most rows of each table.
std::string TopJson(const TopModel& model, const TopStatus& status, size_t most_rows);

}  // namespace proftrace
