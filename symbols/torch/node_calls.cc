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
// More than any function of torch has.
constexpr uint64_t kMostPartBytes = 1 << 20;

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

// The instructions of [start, end), one after the other.
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

std::optional<uint16_t> FindNodeSequence(const FlowGraph& graph) {
  constexpr std::string_view kMakes = "_ZN2at14RecordFunctionC";
  constexpr std::string_view kBefore = "_ZN2at14RecordFunction6beforeE";
  // The node comes as the second argument of operator(), behind the place of its result. Where the
  // row is made it has been kept somewhere, as its fields may have changed in what was called.
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
    // before(row, name, number): a name on the stack takes no register.
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
  std::map<uint64_t, FunctionRange> cold;  // by where they begin
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
