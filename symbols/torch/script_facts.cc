#include "symbols/torch/script_facts.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

// The largest offset that is accepted in an interpreter's state or a CodeImpl, in bytes.
constexpr int64_t kMostOffset = 4096;
// How many nodes of moduleHierarchy() are visited. Everything that is needed is near its begin.
constexpr int kMostVisits = 4096;
constexpr uint64_t kMostFrameWords = 512;

// Returns x with x * odd == 1 modulo 2^64, by Newton's method: each round doubles the number of
// correct bits.
uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

// Returns the size of a frame in bytes, by which the code divides the vector's bytes to get its
// size; 0: there is no such division, or there are different ones. Compilers shift by the power of
// two in sizeof(frame) and multiply by the inverse of its odd part. The shift is by 3, because a
// frame is an odd number of words in all known versions.
uint16_t DividedBytes(const FlowGraph& graph) {
  uint64_t found = 0;
  bool shifts_by_3 = false;
  for (size_t i = 0; i < graph.size(); ++i) {
    const Instruction& where = graph.node(i).instruction;
    const uint8_t* bytes = where.bytes.data();
    // sar $3, %register
    shifts_by_3 |= where.size == 4 && (bytes[0] & 0xfe) == 0x48 && bytes[1] == 0xc1 &&
                   (bytes[2] & 0xf8) == 0xf8 && bytes[3] == 3;
    // movabs $constant, %register
    if (where.size != 10 || (bytes[0] & 0xfe) != 0x48 || (bytes[1] & 0xf8) != 0xb8) continue;
    uint64_t constant = 0;
    std::memcpy(&constant, bytes + 2, sizeof(constant));
    const uint64_t words = constant % 2 == 1 ? InverseOf(constant) : 0;
    if (words < 3 || words > kMostFrameWords) continue;
    if (found != 0 && found != words) return 0;
    found = words;
  }
  return shifts_by_3 ? static_cast<uint16_t>(found * 8) : 0;
}

// Returns the offset of a whole word in an object; nullopt: none can be there.
std::optional<uint16_t> OffsetOfWord(int64_t offset) {
  if (offset < 8 || offset > kMostOffset || offset % 8 != 0) return std::nullopt;
  return static_cast<uint16_t>(offset);
}

}  // namespace

std::optional<ScriptState> ReadCurrentModules(const FlowGraph& graph) {
  std::optional<ScriptState> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    const FlowNode& at = graph.node(node);
    // A call that does not return belongs to the stack protector.
    if (!at.is_call || at.is_indirect || IsNoReturn(at.callee)) return true;
    const auto variable = VariableAt(state.reg(kRsi), 1);
    if (!variable) return true;
    is_clear &= !found || (found->variable.index == variable->index &&
                           found->variable.offset == variable->offset &&
                           found->hierarchy_entry == at.instruction.target);
    found = ScriptState{*variable, at.instruction.target};
    return true;
  });
  return is_clear ? found : std::nullopt;
}

std::optional<ScriptFrames> ReadScriptFrames(const FlowGraph& graph) {
  // The offsets of words in *this that the code loads. `this` is in rsi, behind the result's
  // address.
  std::set<int64_t> loaded;
  int visits = 0;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t, const ValueState& state) {
    for (unsigned i = 0; i < 16; ++i) {
      const Value& value = state.reg(i);
      if (value.base == static_cast<int>(kRsi) && value.offsets.size() == 2 &&
          value.offsets[1] == 0) {
        loaded.insert(value.offsets[0]);
      }
    }
    return ++visits < kMostVisits;
  });
  if (loaded.empty() || loaded.size() > 2) return std::nullopt;
  const int64_t first = *loaded.begin();
  if (loaded.size() == 2 && *loaded.rbegin() != first + 8) return std::nullopt;
  const uint16_t bytes = DividedBytes(graph);
  if (first < 16 || first > kMostOffset || first % 8 != 0 || bytes == 0) return std::nullopt;
  return ScriptFrames{static_cast<uint16_t>(first), bytes};
}

std::optional<uint16_t> ReadCodeNodes(const FlowGraph& graph) {
  std::optional<uint16_t> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    if (graph.node(node).end != NodeEnd::kReturn) return true;
    const Value& value = state.reg(kRax);
    const bool is_member = value.base == static_cast<int>(kRdi) && value.offsets.size() == 2 &&
                           value.offsets[0] == 0 && value.offsets[1] >= 8 &&
                           value.offsets[1] <= kMostOffset;
    is_clear &= is_member && (!found || *found == value.offsets[1]);
    if (is_member) found = static_cast<uint16_t>(value.offsets[1]);
    return true;
  });
  return is_clear ? found : std::nullopt;
}

std::optional<uint16_t> ReadReturnedWord(const FlowGraph& graph, bool is_behind_pointer) {
  const size_t place = is_behind_pointer ? 1 : 0;
  std::optional<int64_t> found;
  bool is_clear = true;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    if (graph.node(node).end != NodeEnd::kReturn) return true;
    const Value& value = state.reg(kRax);
    const bool is_member = value.base == static_cast<int>(kRdi) && value.is_whole() &&
                           value.offsets.size() == place + 2 && value.offsets.back() == 0 &&
                           (!is_behind_pointer || value.offsets[0] == 0);
    is_clear &= is_member && (!found || *found == value.offsets[place]);
    if (is_member) found = value.offsets[place];
    return true;
  });
  return is_clear && found ? OffsetOfWord(*found) : std::nullopt;
}

std::optional<uint16_t> ReadCopiedWord(const FlowGraph& graph) {
  std::optional<int64_t> first;
  // `this` is in rsi, behind the result's address.
  const auto see = [&](const Value& value) {
    if (value.base == static_cast<int>(kRsi) && value.is_whole() && value.offsets.size() == 2 &&
        value.offsets[1] == 0) {
      first = std::min(first.value_or(value.offsets[0]), value.offsets[0]);
    }
  };
  int visits = 0;
  ValueWalk walk(graph);
  walk.Run(0, [&](uint32_t, const ValueState& state) {
    for (unsigned i = 0; i < 16; ++i) {
      see(state.reg(i));
      see(state.vector(i));
    }
    return ++visits < kMostVisits;
  });
  return first ? OffsetOfWord(*first) : std::nullopt;
}

}  // namespace proftrace
