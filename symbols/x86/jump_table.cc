#include "symbols/x86/jump_table.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace proftrace {
namespace {

constexpr size_t kMaxEntries = 512;
constexpr size_t kLookBack = 12;

struct NamedTable {
  unsigned reg = 0;
  uint64_t address = 0;
};

// Returns the table that an instruction lea reg, [rip + table] names; nullopt: it is another
// instruction.
std::optional<NamedTable> TableNamedBy(const Instruction& at) {
  const auto& bytes = at.bytes;
  const bool rex_w = (bytes[0] & 0xf8) == 0x48;
  if (!rex_w || at.size != 7 || bytes[1] != 0x8d || (bytes[2] & 0xc7) != 0x05) return std::nullopt;
  int32_t displacement;
  std::memcpy(&displacement, bytes.data() + 3, sizeof(displacement));
  return NamedTable{(bytes[2] >> 3 & 7u) | (bytes[0] & 4u) << 1,
                    at.next() + static_cast<int64_t>(displacement)};
}

// Returns the table whose address a loop keeps in `reg`: the only one that the code before puts
// into that register.
uint64_t TableKeptIn(unsigned reg, std::span<const Instruction> code) {
  uint64_t table = 0;
  for (const Instruction& at : code) {
    const auto named = TableNamedBy(at);
    if (!named || named->reg != reg) continue;
    if (table != 0 && table != named->address) return 0;
    table = named->address;
  }
  return table;
}

}  // namespace

JumpTable ReadJumpTable(const CodeImage& image, std::span<const Instruction> code) {
  JumpTable out;
  bool has_load = false;
  std::optional<unsigned> base;  // the register from which the load takes the table's address
  uint64_t table = 0;
  size_t limit = kMaxEntries;
  for (size_t steps = 1; steps <= kLookBack && steps < code.size(); ++steps) {
    const Instruction& at = code[code.size() - 1 - steps];
    const auto& bytes = at.bytes;
    const bool rex_w = (bytes[0] & 0xf8) == 0x48;
    if (rex_w && at.size >= 3 && bytes[1] == 0x63) {
      has_load = true;
      if (at.size >= 4 && (bytes[2] & 7) == 4) base = (bytes[3] & 7u) | (bytes[0] & 1u) << 3;
    }
    const auto named = TableNamedBy(at);
    if (table == 0 && named) table = named->address;
    // The check is cmp reg, imm8; ja default, where imm8 is the number of entries less one.
    const size_t op = (bytes[0] & 0xf0) == 0x40 ? 1 : 0;
    const bool compares = bytes[op] == 0x83 || bytes[op] == 0x80;
    if (at.size == op + 3 && compares && (bytes[op + 1] & 0xf8) == 0xf8) {
      limit = std::min<size_t>(limit, size_t{bytes[op + 2]} + 1);
      break;
    }
    if (at.size == 2 && bytes[0] == 0x3c) {
      limit = std::min<size_t>(limit, size_t{bytes[1]} + 1);
      break;
    }
  }
  if (has_load && table == 0 && base && limit < kMaxEntries) table = TableKeptIn(*base, code);
  if (!has_load || table == 0) return out;
  std::vector<int32_t> distances(kMaxEntries);
  const size_t got = image.ReadCode(table, distances.data(), kMaxEntries * sizeof(int32_t));
  distances.resize(got / sizeof(int32_t));
  for (const int32_t distance : distances) {
    out.targets.push_back(table + static_cast<int64_t>(distance));
  }
  out.count = std::min(limit, distances.size());
  return out;
}

}  // namespace proftrace
