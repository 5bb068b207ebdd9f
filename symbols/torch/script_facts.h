// Where a thread has what TorchScript's interpreter runs, read from the code of a few functions of
// libtorch_cpu. torch's own torch::jit::currentModuleHierarchy() reads the same words.
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

// What currentModuleHierarchy() calls for a thread whose interpreter runs.
struct ScriptState {
  ThreadVariable variable;       // a pointer to the interpreter's state
  uint64_t hierarchy_entry = 0;  // address of InterpreterStateImpl::moduleHierarchy() const
};

// Reads currentModuleHierarchy(); nullopt: its code is not as it should be.
std::optional<ScriptState> ReadCurrentModules(const FlowGraph& graph);

struct ScriptFrames {
  uint16_t offset = 0;  // in the interpreter's state: std::vector of frames
  uint16_t bytes = 0;   // of a frame
};

// Reads moduleHierarchy(), which looks at nothing of the state but its frames; nullopt as above.
std::optional<ScriptFrames> ReadScriptFrames(const FlowGraph& graph);

// Reads Code::instructions_source(): returns the vector's offset in the code (CodeImpl) that the
// Code points to; nullopt as above.
std::optional<uint16_t> ReadCodeNodes(const FlowGraph& graph);

}  // namespace proftrace
