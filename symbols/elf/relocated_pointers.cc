#include "symbols/elf/relocated_pointers.h"

#include <algorithm>
#include <string>

#include "symbols/process/read_budget.h"
#include "userspace/base/byte_view.h"

namespace proftrace {
namespace {

constexpr uint64_t kMaxReadOnlyBytes = uint64_t{64} << 20;
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr size_t kMaxTexts = 8;
constexpr uint64_t kMaxRelocations = 8'000'000;
constexpr size_t kMaxContexts = 64;
// The size of a struct PyMethodDef: name, function, flags, documentation.
constexpr uint64_t kMethodBytes = 32;

}  // namespace

std::vector<uint64_t> FindReadOnlyText(const ElfFile& file, std::string_view text) {
  std::string pattern(1, '\0');
  pattern.append(text).push_back('\0');
  std::vector<uint64_t> found;
  const ElfSection* section = file.FindSection(".rodata");
  if (section == nullptr || section->size > kMaxReadOnlyBytes) return found;
  // The section is read in pieces, because a libtorch's has 18 MB. Each piece is longer by the
  // length of the text, for a text that begins in it and ends behind it.
  std::string piece(kPieceBytes + pattern.size() - 1, '\0');
  for (uint64_t begin = 0; begin < section->size; begin += kPieceBytes) {
    const size_t want = std::min<uint64_t>(piece.size(), section->size - begin);
    const size_t got = file.ReadOffset(section->file_offset + begin, piece.data(), want);
    const std::string_view bytes(piece.data(), got);
    // No NUL lies before the section's first text.
    if (begin == 0 && bytes.starts_with(std::string_view(pattern).substr(1))) {
      found.push_back(section->address);
    }
    for (size_t at = bytes.find(pattern); at != std::string_view::npos;
         at = bytes.find(pattern, at + 1)) {
      if (found.size() == kMaxTexts) return found;
      found.push_back(section->address + begin + at + 1);
    }
    if (got != want) break;
  }
  return found;
}

std::vector<RelocatedPointer> ReadRelocatedPointers(const ElfFile& file) {
  std::vector<RelocatedPointer> pointers;
  for (const ElfSection& section : file.sections()) {
    if (section.type != SHT_RELA || section.size / sizeof(Elf64_Rela) > kMaxRelocations) continue;
    const std::vector<uint8_t> bytes = file.ReadSection(section);
    const ByteView view(bytes);
    if (!ReadBudget::MayGoOn()) return {};
    for (size_t at = 0; view.Holds(at, sizeof(Elf64_Rela)); at += sizeof(Elf64_Rela)) {
      const auto entry = view.Get<Elf64_Rela>(at);
      if (ELF64_R_TYPE(entry->r_info) != R_X86_64_RELATIVE) continue;
      if (pointers.size() >= kMaxRelocations) return {};
      pointers.push_back({entry->r_offset, static_cast<uint64_t>(entry->r_addend)});
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
    if (found.size() >= kMaxContexts || !ReadBudget::MayGoOn()) break;
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
