#include "symbols/x86/saved_doubles.h"

#include <cstring>
#include <limits>
#include <optional>

#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

constexpr size_t kArgumentRegisters = 8;

struct Store {
  unsigned reg = 0;
  SavedDouble place;
};

// Decodes a store (movsd, movlpd, movups, movaps, movq) of a vector register to a word relative to
// rsp or rbp; nullopt: it is another instruction.
std::optional<Store> DecodeStore(const uint8_t* bytes, size_t count) {
  size_t at = 0;
  uint8_t prefix = 0;
  if (at < count && (bytes[at] == 0xf2 || bytes[at] == 0x66)) prefix = bytes[at++];
  uint8_t rex = 0;
  if (at < count && (bytes[at] & 0xf0) == 0x40) rex = bytes[at++];
  if (at + 3 > count || bytes[at] != 0x0f) return std::nullopt;
  const uint8_t opcode = bytes[at + 1];
  const uint8_t modrm = bytes[at + 2];
  at += 3;
  const bool is_store =
      opcode == 0x11 || (opcode == 0x29 && prefix != 0xf2) || (opcode == 0xd6 && prefix == 0x66);
  // REX.R and REX.B mean other registers, REX.X an index.
  if (!is_store || (rex & 0x07) != 0) return std::nullopt;
  const unsigned mode = modrm >> 6;
  const unsigned base = modrm & 7;
  if (mode == 3 || (base != kRsp && base != kRbp) || (base == kRbp && mode == 0)) {
    return std::nullopt;
  }
  if (base == kRsp && (at >= count || bytes[at++] != 0x24)) return std::nullopt;  // SIB: no index
  int32_t offset = 0;
  if (mode == 1) {
    if (at + 1 > count) return std::nullopt;
    offset = static_cast<int8_t>(bytes[at]);
  } else if (mode == 2) {
    if (at + 4 > count) return std::nullopt;
    std::memcpy(&offset, bytes + at, sizeof(offset));
  }
  if (offset < std::numeric_limits<int16_t>::min() ||
      offset > std::numeric_limits<int16_t>::max()) {
    return std::nullopt;
  }
  Store store;
  store.reg = (modrm >> 3) & 7;
  store.place = SavedDouble{true, base == kRbp, static_cast<int16_t>(offset)};
  return store;
}

}  // namespace

SavedDoubles FindSavedDoubles(const FlowGraph& graph) {
  std::vector<uint32_t> incoming(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    for (const uint32_t to : graph.successors(i)) ++incoming[to];
  }
  SavedDoubles result;
  std::vector<SavedDouble> saved(kArgumentRegisters);
  bool any = false;
  uint32_t node = 0;
  for (size_t steps = 0; steps < graph.size(); ++steps) {
    const Instruction& instruction = graph.node(node).instruction;
    if (incoming[node] != (node == 0 ? 0u : 1u)) break;
    if (instruction.size == 0) break;
    // A probe sees the registers as they are before the instruction.
    if (instruction.emulated && any) {
      result.address = instruction.address;
      result.saved = saved;
    }
    if (const auto store = DecodeStore(instruction.bytes.data(), instruction.size)) {
      // The first store of a register has the argument. Later stores may have other values.
      if (!saved[store->reg].is_saved) saved[store->reg] = store->place;
      any = true;
    }
    const RegisterSet written = WrittenRegisters(instruction);
    for (SavedDouble& place : saved) {
      if ((written >> (place.by_frame_pointer ? kRbp : kRsp) & 1) != 0) place.is_saved = false;
    }
    const auto next = graph.successors(node);
    if (next.last - next.first != 1 || graph.node(node).is_call) break;
    node = *next.begin();
  }
  return result;
}

}  // namespace proftrace
