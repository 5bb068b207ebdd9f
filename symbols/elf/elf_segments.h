// Where the bytes of an ELF file lie in memory: its segments that are loaded from the file
// (IsLoadedFromFile), in the order of its program headers.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/process/process_maps.h"

namespace proftrace {

// Whether a segment is loaded, has bytes in the file, and ends after it begins.
bool IsLoadedFromFile(const Elf64_Phdr& segment);

// Returns the file offset of a virtual address that lies in the file's part of a segment.
std::optional<uint64_t> FileOffsetIn(const std::vector<Elf64_Phdr>& segments, uint64_t address);
// Returns the address, before relocation, at which the mapping of this file with file offset
// `file_offset` begins.
std::optional<uint64_t> AddressOfOffsetIn(const std::vector<Elf64_Phdr>& segments,
                                          uint64_t file_offset);

// Where the dynamic linker, or the kernel, has put a file. A job may have mapped it as data too.
struct LoadedPlace {
  uint64_t bias = 0;  // address in the process less address in the file
  // The mappings that lie as the bias says, ascending by address after the first one, which has
  // code.
  std::vector<Mapping> mappings;
};

// Finds where the file is loaded by its mappings of code; of several places the one where most of
// its segments lie, then the lowest. nullopt: no mapping fits the file.
std::optional<LoadedPlace> FindLoadedPlace(const std::vector<Elf64_Phdr>& segments,
                                           const MappedFile& mapped);

// Returns the bias of that place.
std::optional<uint64_t> LoadBias(const std::vector<Elf64_Phdr>& segments, const MappedFile& mapped);

// Whether [address, address + size) of the file lies at `bias` as code of a private mapping of it.
// Nothing may be written elsewhere: whoever restores the code later puts back what the file has,
// and what is written to a shared mapping is everybody's.
bool IsOwnCodeOfFile(const std::vector<Elf64_Phdr>& segments, const MappedFile& mapped,
                     uint64_t address, uint64_t size, uint64_t bias);

}  // namespace proftrace
