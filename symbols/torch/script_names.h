// Reads the names of the nn.Modules and functions around a node of a TorchScript graph from a live
// process: the part of torch's own Module Hierarchy for one frame of the interpreter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/process/process_memory.h"

namespace proftrace {

// The layout of torch's graphs in memory. Offsets in bytes; 0 = the field does not exist.
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
  uint16_t string_bytes = 0;      // of a std::string: 32, or 8 as before C++11
};

// Where torch's own code finds a few members, in bytes from the begin of their objects (torch's
// accessors, symbols/torch/script_facts.h).
struct ScriptObjects {
  uint16_t stack_callee = 0;    // in an InlinedCallStack: the pointer in callee_
  uint16_t stack_function = 0;  // fn_
  uint16_t stack_module = 0;    // the pointer in module_instance_info_
  uint16_t code_inputs = 0;     // in a CodeImpl: n_inputs
};

// Returns the layout of a version ("2.11.0+cu130"), whose members are in the order that the headers
// of 1.13 and of 2.0 to 2.15 have: what lies between them follows from `found`. `old_strings`:
// strings are those of before C++11. nullopt: the version is not known, or `found` contradicts it.
std::optional<ScriptLayout> ScriptLayoutOf(std::string_view torch_version, bool old_strings,
                                           const ScriptObjects& found);

// Vtables and numbers by which objects of torch's classes, and nodes of the kinds that matter, are
// recognised in one process.
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
  uint32_t name = 0;  // the symbol of the attribute "name"
};

// The part of one frame in a hierarchy. The whole is "TOP", then for each frame its `text` and the
// `prefix` of the next frame.
struct ScriptNames {
  std::string text;    // "(Net)::forward.fc1(Linear)::forward."
  std::string prefix;  // "fc1" where the frame calls a method of an instance; mostly empty
};

// Reads the names for the node that a frame with that code runs. Every object is recognised by its
// vtable, or by a pointer back to it. nullopt: an object is not as expected, or no longer exists.
std::optional<ScriptNames> ReadScriptNames(const TargetMemory& memory, const ScriptLayout& layout,
                                           const ScriptKinds& kinds, uint64_t code, uint64_t node);

}  // namespace proftrace
