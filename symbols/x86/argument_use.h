// What a function does with its arguments, read from its code: tells the makers of rows apart where
// symbols are stripped, and finds arguments whose registers the compiler chose.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// What kind of function calls at::getStepCallbacksUnlessEmpty.
enum class CallerKind : uint8_t { kUnknown, kBoxed, kNode };

struct BoxedArguments {
  uint8_t handle =
      0;  // enum pt_register: the OperatorHandle by reference: *(u64*)reg is the OperatorDef*
  uint8_t stack = 0;  // enum pt_register: the Stack*
};

// Finds which registers hold the handle and the stack of a copy of Dispatcher::callBoxed: rdi and
// rsi where the compiler dropped the unused Dispatcher argument (".isra.0", 2.8 and later), rsi and
// rdx in the plain form. The code shows it by what it reads through them: the bitset of dispatch
// arguments deep in the OperatorDef, and the end of the stack's vector. nullopt: that is not clear
// (the compiler may pass the OperatorDef itself), and a wrong register would name every boxed row
// wrongly.
std::optional<BoxedArguments> FindBoxedArguments(const FlowGraph& graph);

// Classifies a caller that has no name. `callbacks`: ascending addresses of
// getStepCallbacksUnlessEmpty, of its stubs and slots.
CallerKind ClassifyCaller(const CodeImage& image, const FlowGraph& graph,
                          const std::vector<uint64_t>& callbacks);

}  // namespace proftrace
