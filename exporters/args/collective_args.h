// Writes the facts of a collective under the names that they have in Kineto's traces.
#pragma once

#include <string>
#include <string_view>

#include "exporters/args/args_text.h"
#include "userspace/aggregate/collectives.h"

namespace proftrace {

// Adds all known facts, in Kineto's order (output_json.cpp).
void AddCollectiveArgs(const Collective& collective, ArgsText* args);

// Returns the members (`"key": value, …`) for the keyword values among the row's inputs and for the
// collective that the row stands for.
std::string RowKeywordArgs(const Timeline& timeline, SpanId row, const OperatorInputs& inputs);

}  // namespace proftrace
