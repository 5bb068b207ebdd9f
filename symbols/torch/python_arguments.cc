#include "symbols/torch/python_arguments.h"

#include <cstring>
#include <map>

#include "symbols/x86/value_walk.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// IValue toTypeInferredIValue(pybind11::handle). rdi holds the address of the result.
constexpr std::string_view kConversion = "_ZN5torch3jit20toTypeInferredIValueE";
// The function that the conversion calls. It serves to find the conversion in a file without local
// symbols, where the conversion itself has no name.
constexpr std::string_view kTypedConversion = "_ZN5torch3jit8toIValueE";
constexpr uint64_t kMostBytes = 4096;

// Tells whether a call converts a Python object into a value.
class Conversions {
 public:
  explicit Conversions(const CodeImage& image) : image_(image) {}

  bool IsOne(const FlowNode& call) {
    if (!call.callee.empty()) return call.callee.starts_with(kConversion);
    if (call.is_indirect) return false;
    const auto [found, is_new] = nameless_.try_emplace(call.instruction.target, false);
    if (is_new) found->second = CallsTypedConversion(call.instruction.target);
    return found->second;
  }

 private:
  bool CallsTypedConversion(uint64_t address) const {
    const auto range = image_.FunctionAt(address);
    if (!range || range->start != address || !range->name.empty() ||
        range->end - address > kMostBytes) {
      return false;
    }
    const auto function = FlowGraph::Build(image_, range->start, range->end);
    return function.ok() && CallsAny(*function, [](std::string_view callee) {
             return callee.starts_with(kTypedConversion);
           });
  }

  const CodeImage& image_;
  std::map<uint64_t, bool> nameless_;  // by address
};

// Returns the object that `item` is loaded from. pybind11's code also handles lists, whose items
// are one load further. Whether the object is a tuple is checked when it is read.
std::optional<Value> ObjectOfItem(Value item) {
  const bool in_frame = item.base == static_cast<int>(kRsp) && item.offsets.size() == 2;
  if (!item.known() || item.is_byte || item.offsets.size() < 2 || item.offsets.back() != 0 ||
      in_frame) {
    return std::nullopt;
  }
  item.offsets.pop_back();
  item.offsets.back() = 0;
  return item;
}

}  // namespace

std::optional<RowInputs> FindPythonArguments(const CodeImage& image, const FlowGraph& graph,
                                             uint32_t from) {
  std::optional<Value> tuple;
  bool clear = true;
  Conversions conversions(image);
  ValueWalk(graph).Run(from, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (node == from || !call.is_call || !conversions.IsOne(call)) return true;
    const auto object = ObjectOfItem(state.reg(kRsi));
    if (object && (!tuple || object->offsets.size() < tuple->offsets.size())) {
      tuple = object;
      clear = true;
    } else if (object && object->offsets.size() == tuple->offsets.size()) {
      clear &= *object == *tuple;
    }
    // The first item is enough: following the loop would use up the visits of other paths
    return false;
  });
  if (!tuple || !clear) return std::nullopt;
  const auto place = PlaceOf(*tuple, abi::PT_PLACE_WORD);
  if (!place) return std::nullopt;
  return RowInputs{RowInputKind::kPythonArguments, {*place}};
}

}  // namespace proftrace
