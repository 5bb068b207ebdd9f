// The parts of ValueWalk that describe a function's frame by the registers that point into it, and
// that find the results of functions.
#include <cstdint>
#include <optional>
#include <utility>

#include "symbols/x86/value_walk.h"

namespace proftrace {
namespace {

// Whether the value is an address at a fixed distance from the stack pointer.
bool IsInFrame(const Value& value) {
  return value.base == static_cast<int>(kRsp) && value.offsets.size() == 1 && value.is_whole();
}

}  // namespace

ValueState ValueWalk::FrameAt(uint32_t start) {
  std::optional<ValueState> agreed;
  Run(0, [&](uint32_t node, const ValueState& state) {
    if (node != start) return true;
    if (!agreed) agreed = state;
    for (size_t i = 0; i < state.registers_.size(); ++i) {
      if (agreed->registers_[i] != state.registers_[i]) agreed->registers_[i] = Value();
    }
    std::erase_if(agreed->memory_, [&state](const auto& word) {
      const auto found = state.memory_.find(word.first);
      return found == state.memory_.end() || found->second != word.second;
    });
    return false;
  });
  ValueState frame;
  if (!agreed) return frame;
  const Value stack = agreed->reg(kRsp);
  if (!IsInFrame(stack)) return frame;
  const auto by_stack = [&stack](int64_t offset) {
    return Value{stack.base, {offset - stack.offsets[0]}};
  };
  for (size_t i = 0; i < frame.registers_.size(); ++i) {
    const Value& value = agreed->registers_[i];
    if (IsInFrame(value)) frame.registers_[i] = by_stack(value.offsets[0]);
  }
  for (const auto& [word, value] : agreed->memory_) {
    if (word.first != stack.base || word.second < stack.offsets[0] || !IsInFrame(value)) continue;
    frame.Store(by_stack(word.second), 0, by_stack(value.offsets[0]));
  }
  return frame;
}

void ValueWalk::RunCalled(const FlowGraph& callee, ValueState state, const Visitor& visitor) const {
  constexpr int64_t kReturnAddress = 8;
  const auto move_stack = [](ValueState* moved, int64_t bytes) {
    Value& stack = moved->registers_[kRsp];
    if (stack.known()) stack.offsets.back() += bytes;
  };
  ValueWalk walk(callee);
  walk.tells_numbers_ = tells_numbers_;
  walk.follows_names_ = follows_names_;
  walk.sums_ = sums_;
  walk.callee_names_ = callee_names_;
  move_stack(&state, -kReturnAddress);
  walk.Run(0, std::move(state), [&](uint32_t node, const ValueState& at) {
    if (callee.node(node).end != NodeEnd::kTailCall) return visitor(node, at);
    ValueState left = at;
    move_stack(&left, kReturnAddress);
    return visitor(node, left);
  });
}

Value ValueWalk::ReturnValue() {
  std::optional<Value> returned;
  bool clear = true;
  Run(0, [&](uint32_t node, const ValueState& state) {
    const NodeEnd end = graph_.node(node).end;
    if (end == NodeEnd::kNone) return true;
    if (end == NodeEnd::kDead) return false;
    clear &= end == NodeEnd::kReturn && (!returned || *returned == state.reg(kRax));
    returned = state.reg(kRax);
    return false;
  });
  return clear ? returned.value_or(Value()) : Value();
}

// The callee must be a word of the table to which the first word of the object in rdi points.
Value ValueWalk::VirtuallyReturnedBy(uint32_t node, const ValueState& state) {
  Value called = CalledAt(node, state);
  if (!called.is_whole() || called.offsets.size() < 3 || called.offsets.back() != 0) {
    return Value();
  }
  called.offsets.pop_back();
  const int64_t slot = called.offsets.back();
  called.offsets.pop_back();
  if (called != state.reg(kRdi)) return Value();
  const std::optional<Value> returned = virtual_return_(slot);
  if (!returned || returned->base != static_cast<int>(kRdi)) return Value();
  Value value = called;
  for (size_t i = 0; i < returned->offsets.size(); ++i) {
    if (i > 0) value = state.Load(value, 0);
    if (!value.known()) return Value();
    value.offsets.back() += returned->offsets[i];
  }
  return value;
}

}  // namespace proftrace
