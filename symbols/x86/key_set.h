// Finds where the dispatcher's code keeps an operator's dispatch key set when it asks for the
// profiler's callbacks (at::getStepCallbacksUnlessEmpty). The set decides whether torch gives the
// operator's row a sequence number; the kernel's function gets it as an argument right after that
// call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "symbols/x86/flow_graph.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {

enum class KernelForm : uint8_t {
  kUnboxed,    // the place for the result, if it has one, the functor, the keys, the arguments
  kByWrapper,  // c10::callUnboxedKernelFunction: the kernel's function comes before the functor
  kBoxed,      // the functor, the operator, the keys, a Stack*
};

struct KernelCall {
  Value keys;
  KernelForm form;
  unsigned first_argument;  // how many registers of arguments come before those of the operator
};

// Recognises a call of a kernel's function at `state`. `called`: what an indirect call calls.
std::optional<KernelCall> KernelCallAt(const FlowNode& call, const Value& called,
                                       const ValueState& state);

// Whether `callee` is Dispatcher::callWithDispatchKeySlowPath. Where there are callbacks, the
// dispatcher's code calls it with the same kernel and keys (Dispatcher.h).
bool IsSlowPath(std::string_view callee);
struct SlowCall {
  Value kernel;  // the address of the c10::KernelFunction, if that is known
  Value keys;
  unsigned first_argument;  // as in KernelCall
};

// Recognises such a call at `state`. `frame`: what ValueWalk::FrameAt gives where the callbacks are
// asked for.
std::optional<SlowCall> SlowCallAt(const FlowNode& call, const ValueState& frame,
                                   const ValueState& state);

// Returns what all paths from node `from`, which asks for the callbacks, to such a call agree on:
// the keys at least.
std::optional<SlowCall> FindSlowCall(const FlowGraph& graph, uint32_t from,
                                     const ValueState& frame);

// Does what KernelCallAt does, for code that reaches the kernel's function by another way than its
// functor, as through an index into the operator's table.
std::optional<KernelCall> KernelCallBeside(const SlowCall& slow_call, const FlowNode& call,
                                           const ValueState& state);

struct KeySetPlace {
  uint8_t reg = 0;  // by its hardware number, and PT_KEY_SET_IN_MEMORY
  int16_t offset = 0;
};

// Finds the key set at node `from`, which makes that call. nullopt: the code after it is not clear.
std::optional<KeySetPlace> FindKeySet(const FlowGraph& graph, uint32_t from);

// Finds the function's only call of one of `targets` (ascending), if the kernel emulates it.
std::optional<uint32_t> FindOnlyCall(const FlowGraph& graph, const std::vector<uint64_t>& targets);

// Returns how far the stack pointer at `node` is below that of the entry, in words.
std::optional<uint32_t> FrameWordsAt(const FlowGraph& graph, uint32_t node);

}  // namespace proftrace
