// Rows whose arguments come from Python and are made into values only while a profiler runs
// (torch.autograd._record_function_with_args_enter).
#pragma once

#include <cstdint>
#include <optional>

#include "symbols/elf/code_image.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Finds, for a row that begins at node `from`, the tuple whose items the code makes values of
// afterwards, each of them (torch::jit::toTypeInferredIValue). nullopt: the code does not do so, or
// the tuple is not to be found at `from`.
std::optional<RowInputs> FindPythonArguments(const CodeImage& image, const FlowGraph& graph,
                                             uint32_t from);

}  // namespace proftrace
