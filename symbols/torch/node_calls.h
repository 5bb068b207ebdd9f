// Finds calls of autograd nodes where torch::autograd::Node::operator() is inlined into the caller,
// as in torch's binding in the wheels for some versions of Python.
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

// Finds the node whose row begins at the call `from` to getStepCallbacksUnlessEmpty, and its
// inputs; both are places at that call. The node is the object whose virtual function apply() is
// called where there are no callbacks. nullopt: the caller asks for callbacks of another scope.
std::optional<NodeCall> FindCalledNode(const FlowGraph& graph, uint32_t from);

// Finds the offset at which a copy of Node::operator() reads the node's sequence number, which it
// gives to the row that it makes while a profiler runs. nullopt: the offset is not clear.
std::optional<uint16_t> FindNodeSequence(const FlowGraph& graph);

// Finds the function's own calls of __cxa_begin_catch, ascending: in its code, and in its parts
// elsewhere to which jumps and landing pads lead (a function that it tail-calls may be among them,
// which does no harm). A row that began in the middle of the function ends at these calls. It
// cannot end at the entry of __cxa_begin_catch, as rows of callees do, because the stack pointer
// there is below that of the row's begin.
std::vector<uint64_t> FindCatches(const ModuleImage& image, const FunctionRange& function);

}  // namespace proftrace
