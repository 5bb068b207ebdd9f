// RECORD_FUNCTION with a fixed name, as in VariableTypeManual's `detach`: found by its constructor
// call and its string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/code_image.h"
#include "symbols/flow_graph.h"

namespace proftrace {

// The name of the row that the function makes, when it is one of the fixed names that torch uses
// ("detach", "detach_"): the function loads the address of exactly that string. Nothing for all
// others: a name is never guessed.
std::optional<std::string> FindRowName(const CodeImage& image, const FunctionRange& function);

// Whether each normal return makes exactly one row: one call to a member of `constructors`, passed
// once by every normal path.
bool MakesOneRow(const FlowGraph& graph, const std::vector<uint64_t>& constructors);

}  // namespace proftrace
