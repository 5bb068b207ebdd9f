// Finds where a thread keeps the state of TorchScript's interpreter, from the code of a few
// functions of libtorch_cpu. torch's own torch::jit::currentModuleHierarchy() reads the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/torch/thread_variable.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// std::vector<std::string> torch::jit::currentModuleHierarchy(), of the C++11 ABI for strings.
inline constexpr std::string_view kCurrentModules =
    "_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev";
// const std::vector<Node*>& torch::jit::Code::instructions_source() const
inline constexpr std::string_view kCodeNodes = "_ZNK5torch3jit4Code19instructions_sourceEv";

// The interpreter's state of a thread, and the function that currentModuleHierarchy() calls with
// it.
struct ScriptState {
  ThreadVariable variable;       // a pointer to the interpreter's state
  uint64_t hierarchy_entry = 0;  // address of InterpreterStateImpl::moduleHierarchy() const
};

// Reads the code of currentModuleHierarchy(); nullopt: the code is not as expected.
std::optional<ScriptState> ReadCurrentModules(const FlowGraph& graph);

struct ScriptFrames {
  uint16_t offset = 0;  // of the std::vector of frames in the interpreter's state
  uint16_t bytes = 0;   // the size of a frame
};

// Reads the code of moduleHierarchy(), which uses only the frames of the state; nullopt: the code
// is not as expected.
std::optional<ScriptFrames> ReadScriptFrames(const FlowGraph& graph);

// Reads Code::instructions_source() and returns the vector's offset in the CodeImpl to which the
// Code points; nullopt: the code is not as expected.
std::optional<uint16_t> ReadCodeNodes(const FlowGraph& graph);

}  // namespace proftrace
