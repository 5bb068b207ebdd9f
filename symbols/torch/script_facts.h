// Finds where a thread keeps the state of TorchScript's interpreter, from the code of a few
// functions of libtorch_cpu. torch's own torch::jit::currentModuleHierarchy() reads the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/torch/thread_variable.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// std::vector<std::string> torch::jit::currentModuleHierarchy(), with the strings of C++11 and
// those of before.
inline constexpr std::string_view kCurrentModules =
    "_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev";
inline constexpr std::string_view kCurrentModulesOldStrings =
    "_ZN5torch3jit22currentModuleHierarchyEv";
// const std::vector<Node*>& torch::jit::Code::instructions_source() const
inline constexpr std::string_view kCodeNodes = "_ZNK5torch3jit4Code19instructions_sourceEv";

// Accessors of members of a graph's objects.
// size_t torch::jit::Code::num_inputs() const
inline constexpr std::string_view kInputsOfCode = "_ZNK5torch3jit4Code10num_inputsEv";
// Function* torch::jit::InlinedCallStack::function() const
inline constexpr std::string_view kFunctionOfStack = "_ZNK5torch3jit16InlinedCallStack8functionEv";
// std::optional<InlinedCallStackPtr> torch::jit::InlinedCallStack::callee() const
inline constexpr std::string_view kCalleeOfStack = "_ZNK5torch3jit16InlinedCallStack6calleeEv";
// std::optional<ModuleInstanceInfo> torch::jit::InlinedCallStack::module_instance() const
inline constexpr std::string_view kModuleOfStack =
    "_ZNK5torch3jit16InlinedCallStack15module_instanceEv";

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

// Reads an accessor that returns a word, and returns the word's offset in *this, or, with
// `is_behind_pointer`, in the object to which the first word of *this points. nullopt: the code is
// not as expected.
std::optional<uint16_t> ReadReturnedWord(const FlowGraph& graph, bool is_behind_pointer);

// Reads an accessor that copies a member of *this into its result, which is too large for a
// register. Returns the offset of the first word that it copies; nullopt: it copies none.
std::optional<uint16_t> ReadCopiedWord(const FlowGraph& graph);

}  // namespace proftrace
