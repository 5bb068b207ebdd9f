// Calls of autograd nodes with torch::autograd::Node::operator() inlined into the caller, as the
// wheels for some versions of Python have it in torch's binding.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/module_image.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

struct NodeCall {
  abi::pt_place node;  // a torch::autograd::Node*
  RowInputs inputs;
};

// Finds the node whose row begins at the call `from` to getStepCallbacksUnlessEmpty, and what it is
// called with: both as they are there. It is the object whose virtual function (apply) is called
// where there are no callbacks. nullopt: the caller asks for callbacks of another scope.
std::optional<NodeCall> FindCalledNode(const FlowGraph& graph, uint32_t from);

// Finds where a copy of Node::operator() reads the node's sequence number, counted from the node:
// it gives that number to the row that it makes where a profiler runs. nullopt: not clear.
std::optional<uint16_t> FindNodeSequence(const FlowGraph& graph);

// Finds the function's own calls of __cxa_begin_catch, ascending: in its code, and in parts of it
// elsewhere to which its jumps and landing pads lead (a function that it tail-calls may be among
// them, which does no harm). A row that began in the middle of the function is over there: at the
// entry of __cxa_begin_catch, where rows of callees end, the stack pointer is below that of its
// begin.
std::vector<uint64_t> FindCatches(const ModuleImage& image, const FunctionRange& function);

}  // namespace proftrace
