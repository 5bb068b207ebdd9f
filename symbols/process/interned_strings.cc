#include "symbols/process/interned_strings.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace proftrace {
namespace {

constexpr size_t kMaxNameBytes = 4096;
constexpr uint64_t kMaxDataBytes = uint64_t{64} << 20;
// Every version has more built-in symbols than this; the upper bound is generous.
constexpr uint64_t kLeastSymbols = 1000;
constexpr uint64_t kMostSymbols = 10'000'000;
// The list of built-in symbols begins with the namespaces themselves, `prim` first
// (FORALL_NS_SYMBOLS in ATen/core/interned_strings.h, 1.13 to 2.15).
constexpr std::string_view kFirstSymbol = "namespaces::prim";

uint64_t EntryBytes(bool old_abi) { return old_abi ? 8 + 2 * 8 : 8 + 2 * 32; }
uint64_t UnqualifiedOffset(bool old_abi) { return old_abi ? 8 + 8 : 8 + 32; }
constexpr uint64_t kQualifiedOffset = 8;

// Whether `words` are those of the std::vector: its begin, its end, and the end of its allocated
// memory.
bool IsVectorOfSymbols(const uint64_t* words, bool old_abi) {
  const uint64_t entry_bytes = EntryBytes(old_abi);
  if (words[0] < 4096 || words[1] < words[0] || words[2] < words[1]) return false;
  const uint64_t bytes = words[1] - words[0];
  const uint64_t count = bytes / entry_bytes;
  return bytes % entry_bytes == 0 && (words[2] - words[0]) % entry_bytes == 0 &&
         count >= kLeastSymbols && count <= kMostSymbols;
}

}  // namespace

std::optional<InternedStrings> InternedStrings::Find(const TargetMemory& memory,
                                                     const MemoryRange& data, bool old_abi) {
  if (data.bytes < 24 || data.bytes > kMaxDataBytes) return std::nullopt;
  std::vector<uint64_t> words(data.bytes / 8);
  if (!memory.Read(data.address, words.data(), words.size() * 8)) return std::nullopt;
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    if (!IsVectorOfSymbols(&words[i], old_abi)) continue;
    if (auto found = At(memory, data.address + i * 8, old_abi)) return found;
  }
  return std::nullopt;
}

std::optional<InternedStrings> InternedStrings::At(const TargetMemory& memory, uint64_t place,
                                                   bool old_abi) {
  uint64_t words[3] = {};
  if (!memory.Read(place, words, sizeof(words)) || !IsVectorOfSymbols(words, old_abi)) {
    return std::nullopt;
  }
  InternedStrings found(memory, place, words[0], (words[1] - words[0]) / EntryBytes(old_abi),
                        old_abi);
  const bool is_it = found.QualifiedName(0) == kFirstSymbol && found.UnqualifiedName(0) == "prim";
  return is_it ? std::optional(found) : std::nullopt;
}

std::optional<std::string> InternedStrings::TextAt(uint32_t symbol, uint64_t offset) const {
  if (symbol >= count_) return std::nullopt;
  return ReadStdString(*memory_, begin_ + symbol * EntryBytes(old_abi_) + offset, old_abi_,
                       kMaxNameBytes);
}

std::optional<std::string> InternedStrings::UnqualifiedName(uint32_t symbol) const {
  return TextAt(symbol, UnqualifiedOffset(old_abi_));
}

std::optional<std::string> InternedStrings::QualifiedName(uint32_t symbol) const {
  return TextAt(symbol, kQualifiedOffset);
}

}  // namespace proftrace
