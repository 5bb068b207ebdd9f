#include "symbols/x86/key_set.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "bpf/abi/records.h"
#include "symbols/x86/instruction.h"
#include "symbols/x86/value_walk.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// rbx, rbp, r12 to r15: a call does not change them. rsp is left out, because no value is kept in
// it.
constexpr RegisterSet kKeptRegisters = 0xf028;
constexpr RegisterSet kFrameRegisters = 1u << kRsp | 1u << 5;
// The offset of the boxed function in a c10::KernelFunction, from its functor. The unboxed ones
// come after it.
constexpr int64_t kBoxedAfterFunctor = 8;
constexpr int64_t kLastAfterFunctor = 32;
constexpr std::string_view kSlowPath = "10Dispatcher27callWithDispatchKeySlowPath";

// Returns the nodes that are reached from `from` without a call in between. Calls are among them,
// but the code behind them is not.
std::vector<bool> NodesBeforeCalls(const FlowGraph& graph, uint32_t from) {
  std::vector<bool> reached(graph.size());
  std::vector<uint32_t> work = {from};
  reached[from] = true;
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (node != from && graph.node(node).is_call) continue;
    for (const uint32_t next : graph.successors(node)) {
      if (reached[next]) continue;
      reached[next] = true;
      work.push_back(next);
    }
  }
  return reached;
}

// Returns the offset of the word `other` in the object whose first word is `first`; nullopt:
// `other` is not a word of that object.
std::optional<int64_t> DistanceInObject(const Value& first, const Value& other) {
  const size_t size = first.offsets.size();
  if (!first.known() || first.base != other.base || size < 2 || other.offsets.size() != size ||
      first.offsets[size - 2] != 0) {
    return std::nullopt;
  }
  for (size_t i = 0; i < size; ++i) {
    if (i != size - 2 && first.offsets[i] != other.offsets[i]) return std::nullopt;
  }
  return other.offsets[size - 2];
}

// Whether `value` is the address of the callbacks in the optional at `optional`. A std::optional
// begins with the value, a c10::optional (before 2.2) with a word that holds the flag.
bool IsOfCallbacksIn(const Value& value, Value optional) {
  if (value == optional) return true;
  if (optional.offsets.size() != 1) return false;
  optional.offsets[0] += 8;
  return value == optional;
}

}  // namespace

bool IsSlowPath(std::string_view callee) { return Contains(callee, kSlowPath); }

std::optional<KernelCall> KernelCallAt(const FlowNode& call, const Value& called,
                                       const ValueState& state) {
  if (!call.is_indirect) {
    for (const auto& [function, functor, keys, first] :
         {std::array{kRdi, kRsi, kRdx, 3u}, {kRsi, kRdx, kRcx, 4u}}) {
      const auto after = DistanceInObject(state.reg(functor), state.reg(function));
      if (after && *after > kBoxedAfterFunctor && *after <= kLastAfterFunctor) {
        return KernelCall{state.reg(keys), KernelForm::kByWrapper, first};
      }
    }
    return std::nullopt;
  }
  if (const auto after = DistanceInObject(state.reg(kRdi), called)) {
    if (*after == kBoxedAfterFunctor) return KernelCall{state.reg(kRdx), KernelForm::kBoxed, 3};
    return KernelCall{state.reg(kRsi), KernelForm::kUnboxed, 2};
  }
  if (DistanceInObject(state.reg(kRsi), called)) {
    return KernelCall{state.reg(kRdx), KernelForm::kUnboxed, 3};
  }
  return std::nullopt;
}

std::optional<SlowCall> SlowCallAt(const FlowNode& call, const ValueState& frame,
                                   const ValueState& state) {
  if (!call.is_call || !IsSlowPath(call.callee) || !frame.reg(kRdi).known()) return {};
  // The arguments are: the address of the result, if it has one, the operator, the callbacks, the
  // keys, the kernel.
  for (const auto& [callbacks, keys, kernel, first] :
       {std::array{kRsi, kRdx, kRcx, 4u}, {kRdx, kRcx, kR8, 5u}}) {
    if (IsOfCallbacksIn(state.reg(callbacks), frame.reg(kRdi))) {
      return SlowCall{state.reg(kernel), state.reg(keys), first};
    }
  }
  return std::nullopt;
}

std::optional<SlowCall> FindSlowCall(const FlowGraph& graph, uint32_t from,
                                     const ValueState& frame) {
  const std::vector<bool> leading = NodesLeadingToCalls(graph, IsSlowPath);
  std::optional<SlowCall> found;
  bool clear = true;
  ValueWalk(graph).Run(from, frame, [&](uint32_t node, const ValueState& state) {
    if (!leading[node]) return false;
    const FlowNode& call = graph.node(node);
    if (node == from || !call.is_call || !IsSlowPath(call.callee)) return true;
    const auto one = SlowCallAt(call, frame, state);
    if (!one) return false;
    clear &= one->keys.known() && (!found || found->keys == one->keys);
    const bool is_same_kernel = !found || found->kernel == one->kernel;
    found = one;
    if (!is_same_kernel) found->kernel = Value();
    return false;
  });
  return clear ? found : std::nullopt;
}

std::optional<KernelCall> KernelCallBeside(const SlowCall& slow_call, const FlowNode& call,
                                           const ValueState& state) {
  if (!call.is_indirect || !slow_call.kernel.known()) return std::nullopt;
  Value functor = slow_call.kernel;
  functor.offsets.push_back(0);
  if (state.reg(kRdi) == functor && state.reg(kRsi) == slow_call.keys) {
    return KernelCall{slow_call.keys, KernelForm::kUnboxed, 2};
  }
  if (state.reg(kRsi) == functor && state.reg(kRdx) == slow_call.keys) {
    return KernelCall{slow_call.keys, KernelForm::kUnboxed, 3};
  }
  return std::nullopt;
}

namespace {

std::optional<KeySetPlace> PlaceOfKeySet(const Value& value) {
  if (value.base < 0 || value.base > 15) return std::nullopt;
  const RegisterSet base = RegisterSet{1} << value.base;
  KeySetPlace place;
  place.reg = static_cast<uint8_t>(value.base);
  if ((base & kKeptRegisters) != 0 && value.offsets == std::vector<int64_t>{0}) return place;
  const bool in_frame = (base & kFrameRegisters) != 0 && value.offsets.size() == 2 &&
                        value.offsets[1] == 0 &&
                        value.offsets[0] >= std::numeric_limits<int16_t>::min() &&
                        value.offsets[0] <= std::numeric_limits<int16_t>::max();
  if (!in_frame) return std::nullopt;
  place.reg |= PT_KEY_SET_IN_MEMORY;
  place.offset = static_cast<int16_t>(value.offsets[0]);
  return place;
}

// Returns by how many words an instruction moves the stack pointer down; nullopt: not clear.
std::optional<int64_t> WordsPushed(const FlowNode& node) {
  const Instruction& where = node.instruction;
  if (node.is_call) return 0;
  if (where.kind == InstructionKind::kPush) return 1;
  if (where.size == 0) return std::nullopt;
  const auto& bytes = where.bytes;
  const bool is_pop = (where.size == 1 && (bytes[0] & 0xf8) == 0x58) ||
                      (where.size == 2 && bytes[0] == 0x41 && (bytes[1] & 0xf8) == 0x58);
  if (is_pop) return -1;
  if ((WrittenRegisters(where) >> kRsp & 1) == 0) return 0;
  const bool is_sub = bytes[2] == 0xec;
  if (bytes[0] != 0x48 || (!is_sub && bytes[2] != 0xc4)) return std::nullopt;
  int64_t amount = 0;
  if (bytes[1] == 0x83 && where.size == 4) {
    amount = static_cast<int8_t>(bytes[3]);
  } else if (bytes[1] == 0x81 && where.size == 7) {
    for (int i = 3; i >= 0; --i) amount = amount << 8 | bytes[3 + i];
    amount = static_cast<int32_t>(amount);
  } else {
    return std::nullopt;
  }
  if (amount % 8 != 0) return std::nullopt;
  return (is_sub ? amount : -amount) / 8;
}

}  // namespace

namespace {

// Finds the key set by a kernel's call among the nodes `near`.
std::optional<KeySetPlace> FindKeySetNear(const FlowGraph& graph, uint32_t from,
                                          const std::vector<bool>& near) {
  std::optional<Value> found;
  bool clear = true;
  ValueWalk walk(graph);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (!near[node]) return false;
    if (node == from || !call.is_call) return true;
    const Value called = call.is_indirect ? walk.CalledAt(node, state) : Value();
    const std::optional<KernelCall> kernel = KernelCallAt(call, called, state);
    if (!kernel || !kernel->keys.known()) return true;
    clear &= !found || *found == kernel->keys;
    found = kernel->keys;
    return false;
  });
  return found && clear ? PlaceOfKeySet(*found) : std::nullopt;
}

}  // namespace

std::optional<KeySetPlace> FindKeySet(const FlowGraph& graph, uint32_t from) {
  // Mostly the first call is that of the kernel. Where arguments are copied first, the search must
  // go further.
  const auto place = FindKeySetNear(graph, from, NodesBeforeCalls(graph, from));
  if (place) return place;
  const auto far = FindKeySetNear(graph, from, std::vector<bool>(graph.size(), true));
  if (far) return far;
  const auto slow_call = FindSlowCall(graph, from, ValueWalk(graph).FrameAt(from));
  return slow_call ? PlaceOfKeySet(slow_call->keys) : std::nullopt;
}

std::optional<uint32_t> FindOnlyCall(const FlowGraph& graph, const std::vector<uint64_t>& targets) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Instruction& where = graph.node(i).instruction;
    if (!graph.node(i).is_call || where.target == 0 ||
        !std::binary_search(targets.begin(), targets.end(), where.target)) {
      continue;
    }
    if (found || where.kind != InstructionKind::kCall || !where.emulated) return std::nullopt;
    found = i;
  }
  return found;
}

std::optional<uint32_t> FrameWordsAt(const FlowGraph& graph, uint32_t node) {
  // One path is enough, because the frame is the same on all paths.
  std::vector<std::optional<int64_t>> words(graph.size());
  std::vector<uint32_t> work = {0};
  words[0] = 0;
  while (!work.empty() && !words[node]) {
    const uint32_t at = work.back();
    work.pop_back();
    const auto pushed = WordsPushed(graph.node(at));
    if (!pushed) continue;
    for (const uint32_t next : graph.successors(at)) {
      if (words[next]) continue;
      words[next] = *words[at] + *pushed;
      work.push_back(next);
    }
  }
  if (!words[node] || *words[node] < 0 || *words[node] >= PT_FRAME_WORDS_LIMIT) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(*words[node]);
}

}  // namespace proftrace
