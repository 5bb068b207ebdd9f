#include "symbols/interned_strings.h"

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

}  // namespace

std::optional<InternedStrings> InternedStrings::Find(const TargetMemory& memory,
                                                     const MemoryRange& data, bool old_abi) {
  if (data.bytes < 24 || data.bytes > kMaxDataBytes) return std::nullopt;
  std::vector<uint64_t> words(data.bytes / 8);
  if (!memory.Read(data.address, words.data(), words.size() * 8)) return std::nullopt;
  const uint64_t entry_bytes = EntryBytes(old_abi);
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const uint64_t begin = words[i];
    const uint64_t bytes = words[i + 1] - begin;
    if (begin < 4096 || words[i + 1] < begin || words[i + 2] < words[i + 1]) continue;
    if (bytes % entry_bytes != 0 || (words[i + 2] - begin) % entry_bytes != 0) continue;
    const uint64_t count = bytes / entry_bytes;
    if (count < kLeastSymbols || count > kMostSymbols) continue;
    const auto first = ReadStdString(memory, begin + 8, old_abi, kMaxNameBytes);
    if (first != kFirstSymbol) continue;
    InternedStrings found(memory, begin, count, old_abi);
    if (found.UnqualifiedName(0) == "prim") return found;
  }
  return std::nullopt;
}

std::optional<std::string> InternedStrings::UnqualifiedName(uint32_t symbol) const {
  if (symbol >= count_) return std::nullopt;
  return ReadStdString(*memory_,
                       begin_ + symbol * EntryBytes(old_abi_) + UnqualifiedOffset(old_abi_),
                       old_abi_, kMaxNameBytes);
}

}  // namespace proftrace
