#include "symbols/jump_table.h"

#include <algorithm>
#include <cstring>

namespace proftrace {
namespace {

constexpr size_t kMaxEntries = 512;
constexpr size_t kLookBack = 12;

}  // namespace

JumpTable ReadJumpTable(const CodeImage& image, std::span<const Instruction> code) {
  JumpTable out;
  bool has_load = false;
  uint64_t table = 0;
  size_t limit = kMaxEntries;
  for (size_t steps = 1; steps <= kLookBack && steps < code.size(); ++steps) {
    const Instruction& at = code[code.size() - 1 - steps];
    const auto& bytes = at.bytes;
    const bool rex_w = (bytes[0] & 0xf8) == 0x48;
    if (rex_w && at.size >= 3 && bytes[1] == 0x63) has_load = true;
    if (table == 0 && rex_w && at.size == 7 && bytes[1] == 0x8d && (bytes[2] & 0xc7) == 0x05) {
      int32_t displacement;
      std::memcpy(&displacement, bytes.data() + 3, sizeof(displacement));
      table = at.next() + static_cast<int64_t>(displacement);
    }
    // cmp reg, imm8; ja default: the number of entries less one.
    const size_t op = (bytes[0] & 0xf0) == 0x40 ? 1 : 0;
    if (at.size == op + 3 && bytes[op] == 0x83 && (bytes[op + 1] & 0xf8) == 0xf8) {
      limit = std::min<size_t>(limit, size_t{bytes[op + 2]} + 1);
      break;
    }
    if (at.size == 2 && bytes[0] == 0x3c) {
      limit = std::min<size_t>(limit, size_t{bytes[1]} + 1);
      break;
    }
  }
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
