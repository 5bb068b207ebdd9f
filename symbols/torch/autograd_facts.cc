#include "symbols/torch/autograd_facts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "symbols/x86/value_walk.h"

namespace proftrace {
namespace {

struct KnownFunction {
  std::string_view symbol;
  AutogradFunction function;
};
constexpr KnownFunction kFunctions[] = {
    {"_ZN2at15sequence_number4peekEv", AutogradFunction::kPeek},
    {"_ZN2at14RecordFunction15currentThreadIdEv", AutogradFunction::kThreadNumber},
    {"_ZN3c1013AutogradState13get_tls_stateEv", AutogradFunction::kState},
    {"_ZN3c108GradMode10is_enabledEv", AutogradFunction::kGradMode},
    {"_ZN3c1010Dispatcher38sequenceNumberForRunningRecordFunctionENS_11DispatchKeyE",
     AutogradFunction::kRuleByKey},
    {"_ZN3c1010Dispatcher38sequenceNumberForRunningRecordFunctionENS_11DispatchKeyE"
     "NS_14DispatchKeySetE",
     AutogradFunction::kRuleBySet},
    {"_ZN3c1024runtimeDispatchKeySetHasENS_11DispatchKeyES0_", AutogradFunction::kAlias},
};
// Lower keys are those of backends.
constexpr int kLeastKey = 32;
constexpr int kMostKey = 60;

// Returns the variable whose value (`loads` 1) or address (`loads` 0) the function returns. All
// paths on which this is clear must agree.
ThreadVariable ReturnedVariable(const FlowGraph& graph, size_t loads, ThreadVariable* compared) {
  ThreadVariable found;
  bool clear = true;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    if (const auto byte = walk.ComparedByteAt(node, state); byte && compared != nullptr) {
      const auto flag = VariableAt(byte->object, 0);
      if (flag) *compared = {flag->index, flag->offset + byte->offset};
    }
    if (graph.node(node).end != NodeEnd::kReturn) return true;
    const auto variable = VariableAt(state.reg(kRax), loads);
    if (!variable) return true;
    clear &= !found.known() || (found.index == variable->index && found.offset == variable->offset);
    found = *variable;
    return true;
  });
  return clear ? found : ThreadVariable();
}

using Bytes = std::span<const uint8_t>;

Bytes BytesOf(const Instruction& where) { return {where.bytes.data(), where.size}; }

// `movzx r32, byte [rax + offset]`
std::optional<uint8_t> ByteLoadOffset(Bytes bytes) {
  if (bytes.size() < 3 || bytes[0] != 0x0f || bytes[1] != 0xb6 || (bytes[2] & 7) != 0) {
    return std::nullopt;
  }
  if (bytes.size() == 3 && bytes[2] >> 6 == 0) return 0;
  if (bytes.size() == 4 && bytes[2] >> 6 == 1 && bytes[3] < 0x80) return bytes[3];
  return std::nullopt;
}

// Returns the offset of the one byte that the function loads and takes bit 0 of.
std::optional<uint8_t> GradModeOffset(const FlowGraph& graph) {
  static constexpr uint8_t kAndOne[] = {0x83, 0xe0, 0x01};  // and $1, %eax
  std::optional<uint8_t> found;
  bool takes_lowest_bit = false;
  for (size_t i = 0; i < graph.size(); ++i) {
    const Bytes bytes = BytesOf(graph.node(i).instruction);
    takes_lowest_bit |= std::ranges::equal(bytes, kAndOne);
    const auto offset = ByteLoadOffset(bytes);
    if (!offset) continue;
    if (found) return std::nullopt;
    found = offset;
  }
  return takes_lowest_bit ? found : std::nullopt;
}

// Returns the number of the lowest bit, where exactly three bits of `bits` from kLeastKey on are
// set, side by side; 0 = this is not so.
uint8_t LowestOfThree(uint64_t bits) {
  bits = bits >> kLeastKey << kLeastKey;
  if (bits == 0) return 0;
  const int lowest = std::countr_zero(bits);
  return bits >> lowest == 7 && lowest <= kMostKey ? static_cast<uint8_t>(lowest) : 0;
}

// Returns the lowest key by the constants in the function's code, or by their complements; 0: there
// is none, or more than one.
uint8_t LowestKeyInConstants(const FlowGraph& graph) {
  uint8_t found = 0;
  for (size_t i = 0; i < graph.size(); ++i) {
    const Bytes bytes = BytesOf(graph.node(i).instruction);
    // movabs $constant, %register
    if (bytes.size() != 10 || (bytes[0] & 0xfe) != 0x48 || (bytes[1] & 0xf8) != 0xb8) continue;
    uint64_t constant = 0;
    std::memcpy(&constant, bytes.data() + 2, sizeof(constant));
    for (const uint64_t bits : {constant, ~constant}) {
      const uint8_t lowest = LowestOfThree(bits);
      if (lowest == 0) continue;
      if (found != 0 && found != lowest) return 0;
      found = lowest;
    }
  }
  return found;
}

}  // namespace

AutogradFunction FindAutogradFunction(std::string_view symbol) {
  for (const KnownFunction& known : kFunctions) {
    if (symbol == known.symbol) return known.function;
  }
  return AutogradFunction::kNone;
}

void ReadAutogradFunction(AutogradFunction function, const FlowGraph& graph, AutogradFacts* facts) {
  switch (function) {
    case AutogradFunction::kNone:
      return;
    case AutogradFunction::kPeek:
      facts->sequence = ReturnedVariable(graph, 1, nullptr);
      return;
    case AutogradFunction::kThreadNumber:
      facts->thread_number = ReturnedVariable(graph, 1, nullptr);
      return;
    case AutogradFunction::kState:
      facts->state = ReturnedVariable(graph, 0, &facts->state_set);
      return;
    case AutogradFunction::kGradMode:
      facts->grad_mode_offset = GradModeOffset(graph);
      return;
    case AutogradFunction::kRuleByKey:
    case AutogradFunction::kRuleBySet:
      facts->has_rule = true;
      facts->highest_only = function == AutogradFunction::kRuleByKey;
      facts->lowest_key = LowestKeyInConstants(graph);
      return;
    case AutogradFunction::kAlias:
      facts->lowest_key_of_alias = LowestKeyInConstants(graph);
      return;
  }
}

}  // namespace proftrace
