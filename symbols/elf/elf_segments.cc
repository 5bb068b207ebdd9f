#include "symbols/elf/elf_segments.h"

#include <algorithm>
#include <utility>

#include "symbols/process/read_budget.h"

namespace proftrace {

bool IsLoadedFromFile(const Elf64_Phdr& segment) {
  return segment.p_type == PT_LOAD && segment.p_filesz != 0 &&
         segment.p_filesz <= UINT64_MAX - segment.p_offset;
}

std::optional<uint64_t> FileOffsetIn(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside < segment.p_filesz) return segment.p_offset + inside;
  }
  return std::nullopt;
}

std::optional<uint64_t> AddressOfOffsetIn(const std::vector<Elf64_Phdr>& segments,
                                          uint64_t file_offset) {
  constexpr uint64_t kPage = 4096;
  for (const Elf64_Phdr& segment : segments) {
    // The kernel maps whole pages, so that a mapping may begin before the segment.
    const uint64_t first = segment.p_offset & ~(kPage - 1);
    if (file_offset < first || file_offset >= segment.p_offset + segment.p_filesz) continue;
    return segment.p_vaddr + (file_offset - segment.p_offset);
  }
  return std::nullopt;
}

namespace {

// Returns the bias that follows from `mapping` if it belongs to `segment`; nullopt: it does not. A
// page may belong to two segments, because whole pages are mapped.
std::optional<uint64_t> BiasOf(const Mapping& mapping, const Elf64_Phdr& segment) {
  constexpr uint64_t kPage = 4096;
  if (mapping.file_offset < (segment.p_offset & ~(kPage - 1)) ||
      mapping.file_offset >= segment.p_offset + segment.p_filesz) {
    return std::nullopt;
  }
  return mapping.start - (segment.p_vaddr + (mapping.file_offset - segment.p_offset));
}

// Returns the place with that bias, and how many segments lie there.
std::pair<LoadedPlace, size_t> PlaceWith(uint64_t bias, const std::vector<Elf64_Phdr>& segments,
                                         const MappedFile& mapped) {
  std::pair<LoadedPlace, size_t> place{{bias, {}}, 0};
  std::vector<bool> is_there(segments.size());
  for (const Mapping& mapping : mapped.mappings) {
    bool fits = false;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (BiasOf(mapping, segments[i]) != bias) continue;
      fits = true;
      is_there[i] = true;
    }
    if (fits) place.first.mappings.push_back(mapping);
  }
  place.second = static_cast<size_t>(std::count(is_there.begin(), is_there.end(), true));
  return place;
}

}  // namespace

std::optional<LoadedPlace> FindLoadedPlace(const std::vector<Elf64_Phdr>& segments,
                                           const MappedFile& mapped) {
  constexpr size_t kMostPlaces = 64;  // a file that is mapped as code more often is no library
  std::optional<LoadedPlace> best;
  size_t most = 0;
  std::vector<uint64_t> seen;
  for (const Mapping& mapping : mapped.mappings) {
    if (seen.size() >= kMostPlaces || !ReadBudget::MayGoOn()) break;
    if (!mapping.executable) continue;
    for (const Elf64_Phdr& segment : segments) {
      const auto bias = (segment.p_flags & PF_X) != 0 ? BiasOf(mapping, segment) : std::nullopt;
      if (!bias || seen.size() >= kMostPlaces ||
          std::find(seen.begin(), seen.end(), *bias) != seen.end()) {
        continue;
      }
      seen.push_back(*bias);
      auto [place, count] = PlaceWith(*bias, segments, mapped);
      if (count <= most) continue;
      most = count;
      const auto code = std::find(place.mappings.begin(), place.mappings.end(), mapping);
      std::rotate(place.mappings.begin(), code, code + 1);
      best = std::move(place);
    }
  }
  return best;
}

std::optional<uint64_t> LoadBias(const std::vector<Elf64_Phdr>& segments,
                                 const MappedFile& mapped) {
  const auto place = FindLoadedPlace(segments, mapped);
  return place ? std::optional(place->bias) : std::nullopt;
}

bool IsOwnCodeOfFile(const std::vector<Elf64_Phdr>& segments, const MappedFile& mapped,
                     uint64_t address, uint64_t size, uint64_t bias) {
  const std::optional<uint64_t> offset = FileOffsetIn(segments, address);
  if (!offset.has_value()) return false;
  const uint64_t place = address + bias;
  return std::any_of(mapped.mappings.begin(), mapped.mappings.end(), [&](const Mapping& mapping) {
    return mapping.executable && !mapping.shared && mapping.start <= place &&
           place <= mapping.end && size <= mapping.end - place &&
           place - mapping.start + mapping.file_offset == *offset;
  });
}

}  // namespace proftrace
