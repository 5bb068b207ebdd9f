// Finds the arguments of rows that come from Python and become values only while a profiler runs
// (torch.autograd._record_function_with_args_enter).
#pragma once

#include <cstdint>
#include <optional>

#include "symbols/elf/code_image.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Finds the place, at node `from` where the row begins, of the tuple whose items the code later
// converts into values one by one (torch::jit::toTypeInferredIValue). nullopt: the code does not do
// so, or the tuple's place at `from` is not clear.
std::optional<RowInputs> FindPythonArguments(const CodeImage& image, const FlowGraph& graph,
                                             uint32_t from);

}  // namespace proftrace
