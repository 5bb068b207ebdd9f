#include "symbols/elf/rtti_search.h"

#include <algorithm>
#include <vector>

#include "symbols/elf/relocated_pointers.h"
#include "symbols/process/read_budget.h"

namespace proftrace {
namespace {

bool PointsIntoCode(const ElfFile& file, const std::vector<RelocatedPointer>& pointers,
                    uint64_t place) {
  const auto at =
      std::lower_bound(pointers.begin(), pointers.end(), place,
                       [](const RelocatedPointer& p, uint64_t a) { return p.place < a; });
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
  const std::vector<uint64_t> names = FindReadOnlyText(file, type_name);
  if (names.size() != 1) return std::nullopt;
  const std::vector<RelocatedPointer> pointers = ReadRelocatedPointers(file);
  std::optional<uint64_t> type;
  for (const RelocatedPointer& pointer : pointers) {
    // A typeinfo begins with the vtable of its kind, then comes the name.
    if (pointer.points_to != names[0]) continue;
    if (type) return std::nullopt;
    type = pointer.place - 8;
  }
  if (!type) return std::nullopt;
  std::optional<uint64_t> vtable;
  for (const RelocatedPointer& pointer : pointers) {
    // A vtable has the offset to top, the typeinfo, then functions. Other words that point to a
    // typeinfo have no functions behind them.
    if (!ReadBudget::MayGoOn()) return std::nullopt;
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
