// Reads from a function's code how it uses its arguments. This tells the makers of rows apart where
// symbols are stripped, and finds arguments whose registers the compiler chose.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// The kinds of functions that call at::getStepCallbacksUnlessEmpty.
enum class CallerKind : uint8_t { kUnknown, kBoxed, kNode };

struct BoxedArguments {
  uint8_t handle =
      0;  // enum pt_register: the OperatorHandle by reference: *(u64*)reg is the OperatorDef*
  uint8_t stack = 0;  // enum pt_register: the Stack*
};

// Finds which registers hold the handle and the stack of a copy of Dispatcher::callBoxed: rdi and
// rsi where the compiler dropped the unused Dispatcher argument (".isra.0", 2.8 and later), rsi and
// rdx in the plain form. The registers are recognised by the words that the code reads through
// them: the bitset of dispatch arguments deep in the OperatorDef, and the end of the stack's
// vector. nullopt: they are not clear (the compiler may pass the OperatorDef itself). The function
// does not guess, because a wrong register would give every boxed row a wrong name.
std::optional<BoxedArguments> FindBoxedArguments(const FlowGraph& graph);

// Classifies a caller that has no name. `callbacks`: addresses of getStepCallbacksUnlessEmpty and
// of its PLT stubs and GOT slots, ascending.
CallerKind ClassifyCaller(const CodeImage& image, const FlowGraph& graph,
                          const std::vector<uint64_t>& callbacks);

}  // namespace proftrace
