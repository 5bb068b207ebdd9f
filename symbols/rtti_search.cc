#include "symbols/rtti_search.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace proftrace {
namespace {

constexpr uint64_t kMaxReadOnlyBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxRelocations = 8'000'000;

// A word of the file that the loader fills with the address `points_to`.
struct Pointer {
  uint64_t place;
  uint64_t points_to;
};

// Addresses of the NUL-terminated name in the read-only data.
std::vector<uint64_t> FindText(const ElfFile& file, std::string_view text) {
  // With the ends of its neighbours, so that it is no part of a longer name.
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

std::vector<Pointer> ReadPointers(const ElfFile& file) {
  std::vector<Pointer> pointers;
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
            [](const Pointer& a, const Pointer& b) { return a.place < b.place; });
  return pointers;
}

bool PointsIntoCode(const ElfFile& file, const std::vector<Pointer>& pointers, uint64_t place) {
  const auto at = std::lower_bound(pointers.begin(), pointers.end(), place,
                                   [](const Pointer& p, uint64_t a) { return p.place < a; });
  if (at == pointers.end() || at->place != place) return false;
  for (const ElfSection& section : file.sections()) {
    if ((section.flags & SHF_EXECINSTR) != 0 && at->points_to >= section.address &&
        at->points_to - section.address < section.size) {
      return true;
    }
  }
  return false;
}

bool IsConstantData(const ElfFile& file, uint64_t address) {
  for (const ElfSection& section : file.sections()) {
    if (section.name.starts_with(".data.rel.ro") && address >= section.address &&
        address - section.address < section.size) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<uint64_t> FindVtable(const ElfFile& file, std::string_view type_name) {
  const std::vector<uint64_t> names = FindText(file, type_name);
  if (names.size() != 1) return std::nullopt;
  const std::vector<Pointer> pointers = ReadPointers(file);
  std::optional<uint64_t> type;
  for (const Pointer& pointer : pointers) {
    // typeinfo: vtable of its kind, then the name.
    if (pointer.points_to != names[0]) continue;
    if (type) return std::nullopt;
    type = pointer.place - 8;
  }
  if (!type) return std::nullopt;
  std::optional<uint64_t> vtable;
  for (const Pointer& pointer : pointers) {
    // vtable: offset to top, typeinfo, functions. Other words that point to a typeinfo are followed
    // by none.
    if (pointer.points_to != *type || !IsConstantData(file, pointer.place) ||
        !PointsIntoCode(file, pointers, pointer.place + 8)) {
      continue;
    }
    if (vtable) return std::nullopt;
    vtable = pointer.place + 8;
  }
  return vtable;
}

}  // namespace proftrace
