// What torch says of a collective, under the names that it has in Kineto's traces.
#pragma once

#include <string>
#include <string_view>

#include "exporters/args/args_text.h"
#include "userspace/aggregate/collectives.h"

namespace proftrace {

// Adds all that is known, in Kineto's order (output_json.cpp).
void AddCollectiveArgs(const Collective& collective, ArgsText* args);

// Returns ", KEY: VALUE…" of what the row was called with as keyword values, and of the collective
// that it stands for.
std::string RowKeywordArgs(const Timeline& timeline, SpanId row, const OperatorInputs& inputs);

}  // namespace proftrace
