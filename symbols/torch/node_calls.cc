#include "symbols/torch/node_calls.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "symbols/elf/landing_pads.h"
#include "symbols/x86/instruction.h"
#include "symbols/x86/value_walk.h"
#include "userspace/model/label.h"

namespace proftrace {
namespace {

constexpr std::string_view kBeginCatch = "__cxa_begin_catch";
// The most bytes of a function's part; no function of torch has as many.
constexpr uint64_t kMostPartBytes = 1 << 20;

// Whether the call's argument is the scope of backward functions on all paths to it.
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

// Returns the object whose virtual function `called` is: `called` is a word of the table to which
// the object's first word points.
Value ObjectOf(Value called) {
  const size_t count = called.offsets.size();
  if (!called.is_whole() || count < 3 || called.offsets.back() != 0) return Value();
  called.offsets.resize(count - 2);
  return called;
}

bool IsSame(const abi::pt_place& a, const abi::pt_place& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Returns the instructions of [start, end), one after the other.
std::vector<Instruction> InstructionsOf(const CodeImage& image, const FunctionRange& part) {
  if (part.end <= part.start || part.end - part.start > kMostPartBytes) return {};
  std::vector<uint8_t> bytes(part.end - part.start);
  const size_t got = image.ReadCode(part.start, bytes.data(), bytes.size());
  return DecodeAll(bytes.data(), got, part.start);
}

bool IsCatch(const CodeImage& image, const Instruction& instruction) {
  if (instruction.target == 0) return false;
  if (instruction.kind == InstructionKind::kCall) {
    return image.CalleeName(instruction.target) == kBeginCatch;
  }
  return instruction.kind == InstructionKind::kIndirectCall &&
         image.SlotName(instruction.target) == kBeginCatch;
}

bool IsJump(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kJump ||
         instruction.kind == InstructionKind::kConditionalJump;
}

}  // namespace

std::optional<NodeCall> FindCalledNode(const FlowGraph& graph, uint32_t from) {
  if (!HasBackwardScope(graph, from)) return std::nullopt;
  std::optional<NodeCall> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    if (node == from || !graph.node(node).is_call) return true;
    // On the path with callbacks, an at::RecordFunction is made before apply() is called.
    if (!graph.node(node).is_indirect) return false;
    // This is apply(inputs). rdi holds the address of the result.
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

std::optional<uint16_t> FindNodeSequence(const FlowGraph& graph) {
  constexpr std::string_view kMakes = "_ZN2at14RecordFunctionC";
  constexpr std::string_view kBefore = "_ZN2at14RecordFunction6beforeE";
  // The node is the second argument of operator(), behind the address of the result. Where the row
  // is made, the code has kept the node's address somewhere. The second walk starts there, because
  // functions that were called before may have changed the node's fields.
  std::optional<uint32_t> made;
  std::optional<Value> kept;
  ValueWalk(graph).Run(0, [&](uint32_t node, const ValueState& state) {
    if (made || !graph.node(node).is_call || !graph.node(node).callee.starts_with(kMakes)) {
      return !made;
    }
    made = node;
    kept = state.Find(Value{static_cast<int>(kRsi), {0}});
    return false;
  });
  if (!made || !kept || kept->offsets.empty() || kept->offsets.back() != 0) return std::nullopt;
  std::optional<int64_t> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(*made, walk.FrameAt(*made), [&](uint32_t node, const ValueState& state) {
    if (!graph.node(node).is_call || !graph.node(node).callee.starts_with(kBefore)) return true;
    // In before(row, name, number), the number is in rdx or, where the name is on the stack, in
    // rsi.
    for (const unsigned argument : {kRdx, kRsi}) {
      Value number = state.reg(argument);
      if (!number.is_whole() || number.offsets.size() != kept->offsets.size() + 1) continue;
      if (number.offsets.back() != 0) continue;
      number.offsets.pop_back();
      const int64_t offset = std::exchange(number.offsets.back(), 0);
      if (number != *kept) continue;
      is_clear &= !found || *found == offset;
      found = offset;
      break;
    }
    return true;
  });
  const bool is_known = is_clear && found && *found > 0 && *found < UINT16_MAX;
  return is_known ? std::optional(static_cast<uint16_t>(*found)) : std::nullopt;
}

std::vector<uint64_t> FindCatches(const ModuleImage& image, const FunctionRange& function) {
  std::set<uint64_t> catches;
  std::map<uint64_t, FunctionRange> cold;  // by their first addresses
  const auto add_part = [&](uint64_t address) {
    if (address >= function.start && address < function.end) return;
    if (address == 0 || image.IsPltStub(address)) return;
    if (const auto part = image.UnwindRangeAt(address)) cold.emplace(part->start, *part);
  };
  for (const Instruction& instruction : InstructionsOf(image, function)) {
    if (IsCatch(image, instruction)) catches.insert(instruction.address);
    if (IsJump(instruction)) add_part(instruction.target);
  }
  const auto record = image.UnwindRecordAt(function.start);
  const auto pads = ReadLandingPads(image.file(), record.value_or(0));
  if (pads.ok()) std::for_each(pads->begin(), pads->end(), add_part);
  for (const auto& [start, part] : cold) {
    for (const Instruction& instruction : InstructionsOf(image, part)) {
      if (IsCatch(image, instruction)) catches.insert(instruction.address);
    }
  }
  return {catches.begin(), catches.end()};
}

}  // namespace proftrace
