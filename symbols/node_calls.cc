#include "symbols/node_calls.h"

#include <cstring>

#include "symbols/instruction.h"
#include "symbols/value_walk.h"
#include "userspace/model/label.h"

namespace proftrace {
namespace {

// Whether all ways to the call lead there with the scope of backward functions as its second
// argument.
bool HasBackwardScope(const FlowGraph& graph, uint32_t call) {
  const Value backward{Value::kConstant, {static_cast<int64_t>(Scope::kBackwardFunction)}};
  bool is_reached = false;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.set_tells_numbers();
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    if (node != call) return true;
    is_reached = true;
    is_clear &= state.reg(kRsi) == backward;
    return false;
  });
  return is_reached && is_clear;
}

// The object whose virtual function `called` is: a word of what its first word points to.
Value ObjectOf(Value called) {
  const size_t count = called.offsets.size();
  if (!called.is_whole() || count < 3 || called.offsets.back() != 0) return Value();
  called.offsets.resize(count - 2);
  return called;
}

bool IsSame(const abi::pt_place& a, const abi::pt_place& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

std::optional<NodeCall> FindCalledNode(const FlowGraph& graph, uint32_t from) {
  if (!HasBackwardScope(graph, from)) return std::nullopt;
  std::optional<NodeCall> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    if (node == from || !graph.node(node).is_call) return true;
    // With callbacks an at::RecordFunction is made first.
    if (!graph.node(node).is_indirect) return false;
    // apply(inputs); rdi: where the result goes.
    const Value object = ObjectOf(walk.CalledAt(node, state));
    const auto place = object.known() && object == state.reg(kRsi)
                           ? PlaceOf(object, abi::PT_PLACE_WORD)
                           : std::nullopt;
    const auto inputs = PlaceOf(state.reg(kRdx), abi::PT_PLACE_WORD);
    is_clear &= place && place->base < abi::PT_PLACE_ADDRESS && inputs;
    if (!is_clear) return false;
    is_clear = !found || (IsSame(found->node, *place) && IsSame(found->inputs.words[0], *inputs));
    found = NodeCall{*place, {RowInputKind::kTensors, {*inputs}}};
    return false;
  });
  return is_clear ? found : std::nullopt;
}

}  // namespace proftrace
