#include "symbols/relocated_pointers.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace proftrace {
namespace {

constexpr uint64_t kMaxReadOnlyBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxRelocations = 8'000'000;
constexpr size_t kMaxContexts = 64;
// struct PyMethodDef: name, function, flags, documentation.
constexpr uint64_t kMethodBytes = 32;

}  // namespace

std::vector<uint64_t> FindReadOnlyText(const ElfFile& file, std::string_view text) {
  std::string pattern(1, '\0');
  pattern.append(text).push_back('\0');
  std::vector<uint64_t> found;
  const ElfSection* section = file.FindSection(".rodata");
  if (section == nullptr || section->size > kMaxReadOnlyBytes) return found;
  const std::vector<uint8_t> bytes = file.ReadSection(*section);
  auto at = bytes.begin();
  while (found.size() < 8) {
    at = std::search(at, bytes.end(), pattern.begin(), pattern.end(),
                     [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
    if (at == bytes.end()) break;
    found.push_back(section->address + static_cast<uint64_t>(at - bytes.begin()) + 1);
    ++at;
  }
  return found;
}

std::vector<RelocatedPointer> ReadRelocatedPointers(const ElfFile& file) {
  std::vector<RelocatedPointer> pointers;
  for (const ElfSection& section : file.sections()) {
    if (section.type != SHT_RELA || section.size / sizeof(Elf64_Rela) > kMaxRelocations) continue;
    const std::vector<uint8_t> bytes = file.ReadSection(section);
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size(); at += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      std::memcpy(&entry, bytes.data() + at, sizeof(entry));
      if (ELF64_R_TYPE(entry.r_info) != R_X86_64_RELATIVE) continue;
      pointers.push_back({entry.r_offset, static_cast<uint64_t>(entry.r_addend)});
    }
  }
  std::sort(pointers.begin(), pointers.end(),
            [](const RelocatedPointer& a, const RelocatedPointer& b) { return a.place < b.place; });
  return pointers;
}

std::vector<ContextMethods> FindContextMethods(const ElfFile& file) {
  std::vector<ContextMethods> found;
  const std::vector<uint64_t> enters = FindReadOnlyText(file, "__enter__");
  const std::vector<uint64_t> exits = FindReadOnlyText(file, "__exit__");
  if (enters.empty() || exits.empty()) return found;
  const std::vector<RelocatedPointer> pointers = ReadRelocatedPointers(file);
  const auto word = [&](uint64_t place) -> uint64_t {
    const auto at =
        std::lower_bound(pointers.begin(), pointers.end(), place,
                         [](const RelocatedPointer& p, uint64_t a) { return p.place < a; });
    return at == pointers.end() || at->place != place ? 0 : at->points_to;
  };
  const auto is_one_of = [](const std::vector<uint64_t>& list, uint64_t address) {
    return std::find(list.begin(), list.end(), address) != list.end();
  };
  for (const RelocatedPointer& pointer : pointers) {
    if (found.size() >= kMaxContexts) break;
    if (!is_one_of(enters, pointer.points_to)) continue;
    const uint64_t next = pointer.place + kMethodBytes;
    const ContextMethods methods{word(pointer.place + 8), word(next + 8)};
    if (is_one_of(exits, word(next)) && methods.enter != 0 && methods.exit != 0) {
      found.push_back(methods);
    }
  }
  return found;
}

}  // namespace proftrace
