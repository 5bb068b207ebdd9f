// The names of nn.Modules and functions that a node of a TorchScript graph is in, read from a live
// process: what torch's own Module Hierarchy says of one frame of the interpreter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/process/process_memory.h"

namespace proftrace {

// How torch's graphs lie in memory. Offsets in bytes; 0 = none.
struct ScriptLayout {
  uint16_t code_name = 0;         // in a CodeImpl: std::string
  uint16_t code_graph = 0;        // in a CodeImpl: pointer to its Graph
  uint16_t graph_block = 0;       // in a Graph: pointer to its Block
  uint16_t node_callstack = 0;    // in a Node: pointer to an InlinedCallStack, if …
  uint16_t node_is_inlined = 0;   // … this byte is 1
  uint16_t node_attributes = 0;   // in a Node: std::vector of pointers to attributes
  uint16_t stack_callee = 0;      // in an InlinedCallStack: pointer to the next one, if …
  uint16_t stack_has_callee = 0;  // … this byte is 1
  uint16_t stack_function = 0;    // pointer to a Function
  uint16_t stack_module = 0;  // pointer to a ClassType; behind it the instance's std::string, if …
  uint16_t stack_has_module = 0;  // … this byte is 1
  uint16_t class_name = 0;        // in a ClassType: its qualified name, std::string, if …
  uint16_t class_has_name = 0;    // … this byte is 1
};

// Returns the layout of a version ("2.11.0+cu130"), measured with the headers of 1.13, 2.11 and
// 2.15, which agree where they have the same fields; nullopt: it is not known.
std::optional<ScriptLayout> ScriptLayoutOf(std::string_view torch_version);

// What tells objects of torch's classes, and nodes of the kinds that matter, in one process.
struct ScriptKinds {
  // Vtables as objects point to them.
  uint64_t class_type = 0;
  uint64_t function_type = 0;
  uint64_t graph_function = 0;
  uint64_t inlined_stack = 0;
  // Numbers of c10::Symbols.
  uint32_t call_method = 0;
  uint32_t call_function = 0;
  uint32_t get_attribute = 0;
  uint32_t name = 0;  // of an attribute
};

// What one frame adds to a hierarchy. The whole is "TOP" and, for each frame, `text` and the next
// one's `prefix`.
struct ScriptNames {
  std::string text;    // "(Net)::forward.fc1(Linear)::forward."
  std::string prefix;  // "fc1" where the frame calls a method of an instance; mostly empty
};

// Reads the names of the node that a frame with that code runs. Every object is told by its vtable,
// or by what points back to it. nullopt: something is not as it should be, or has gone.
std::optional<ScriptNames> ReadScriptNames(const TargetMemory& memory, const ScriptLayout& layout,
                                           const ScriptKinds& kinds, uint64_t code, uint64_t node);

}  // namespace proftrace
