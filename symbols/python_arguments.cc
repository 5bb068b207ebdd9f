#include "symbols/python_arguments.h"

#include <cstring>

#include "symbols/value_walk.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// IValue toTypeInferredIValue(pybind11::handle): rdi has where the value goes.
constexpr std::string_view kConversion = "_ZN5torch3jit20toTypeInferredIValueE";

// The object that `item` is loaded from. pybind11 looks for a list's items, too, which are one load
// further: where it is a tuple, is checked when it is read.
std::optional<Value> ObjectOfItem(Value item) {
  if (!item.known() || item.is_byte || item.offsets.size() < 3 || item.offsets.back() != 0) {
    return std::nullopt;
  }
  item.offsets.pop_back();
  item.offsets.back() = 0;
  return item;
}

}  // namespace

std::optional<RowInputs> FindPythonArguments(const FlowGraph& graph, uint32_t from) {
  std::optional<Value> tuple;
  bool clear = true;
  ValueWalk(graph).Run(from, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (node == from || !call.is_call || !call.callee.starts_with(kConversion)) return true;
    const auto object = ObjectOfItem(state.reg(kRsi));
    if (object && (!tuple || object->offsets.size() < tuple->offsets.size())) {
      tuple = object;
      clear = true;
    } else if (object && object->offsets.size() == tuple->offsets.size()) {
      clear &= *object == *tuple;
    }
    return false;  // the first item: going around would use up the visits of other ways
  });
  if (!tuple || !clear) return std::nullopt;
  const auto place = PlaceOf(*tuple, abi::PT_PLACE_WORD);
  if (!place) return std::nullopt;
  return RowInputs{RowInputKind::kPythonArguments, {*place}};
}

}  // namespace proftrace
