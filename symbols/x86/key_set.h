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
  // Called with: the address of the result, if it has one, the functor, the keys, the arguments
  kUnboxed,
  kByWrapper,  // c10::callUnboxedKernelFunction: the kernel's function comes before the functor
  kBoxed,      // called with: the functor, the operator, the keys, a Stack*
};

struct KernelCall {
  Value keys;
  KernelForm form;
  unsigned first_argument;  // how many argument registers come before the operator's arguments
};

// Recognises a call of a kernel's function at `state`; nullopt: it is another call. `called`: the
// function of an indirect call.
std::optional<KernelCall> KernelCallAt(const FlowNode& call, const Value& called,
                                       const ValueState& state);

// Whether `callee` is Dispatcher::callWithDispatchKeySlowPath. Where there are callbacks, the
// dispatcher's code calls it with the same kernel and keys (Dispatcher.h).
bool IsSlowPath(std::string_view callee);
struct SlowCall {
  Value kernel;  // the address of the c10::KernelFunction, if it is known
  Value keys;
  unsigned first_argument;  // as in KernelCall
};

// Recognises a call of the slow path at `state`. `frame`: the result of ValueWalk::FrameAt at the
// node that asks for the callbacks.
std::optional<SlowCall> SlowCallAt(const FlowNode& call, const ValueState& frame,
                                   const ValueState& state);

// Returns the facts about calls of the slow path on which all paths from node `from`, which asks
// for the callbacks, agree: at least the keys.
std::optional<SlowCall> FindSlowCall(const FlowGraph& graph, uint32_t from,
                                     const ValueState& frame);

// Recognises a call of a kernel's function like KernelCallAt(), in code that does not load the
// function from beside its functor, but for example through an index into the operator's table.
std::optional<KernelCall> KernelCallBeside(const SlowCall& slow_call, const FlowNode& call,
                                           const ValueState& state);

struct KeySetPlace {
  uint8_t reg = 0;  // a register's hardware number, with the flag PT_KEY_SET_IN_MEMORY
  int16_t offset = 0;
};

// Finds the key set at node `from`, which asks for the callbacks. nullopt: the code after that is
// not clear.
std::optional<KeySetPlace> FindKeySet(const FlowGraph& graph, uint32_t from);

// Finds the function's only call of one of `targets` (ascending), if the kernel emulates it.
std::optional<uint32_t> FindOnlyCall(const FlowGraph& graph, const std::vector<uint64_t>& targets);

// Returns how many words the stack pointer at `node` is below that of the entry.
std::optional<uint32_t> FrameWordsAt(const FlowGraph& graph, uint32_t node);

}  // namespace proftrace
