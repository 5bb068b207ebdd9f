// Finds where the bytes of an ELF file lie in memory. `segments` are those that are loaded from the
// file (IsLoadedFromFile), in the order of the program headers.
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

// The place where the dynamic linker, or the kernel, has loaded a file. A job may have mapped the
// file as data too.
struct LoadedPlace {
  uint64_t bias = 0;  // address in the process less address in the file
  // The mappings that belong to this place. The first one has code; the others follow ascending by
  // address.
  std::vector<Mapping> mappings;
};

// Finds where the file is loaded, by its mappings of code. Where there are several places, takes
// the one with the most segments, or else the lowest. nullopt: no mapping fits the file.
std::optional<LoadedPlace> FindLoadedPlace(const std::vector<Elf64_Phdr>& segments,
                                           const MappedFile& mapped);

// Returns the bias of that place; nullopt: there is no such place.
std::optional<uint64_t> LoadBias(const std::vector<Elf64_Phdr>& segments, const MappedFile& mapped);

// Whether [address, address + size) of the file lies at `bias` in a private mapping of its code.
// Code may be changed nowhere else, because the code is later restored from the file, and because
// writes to a shared mapping would reach all processes.
bool IsOwnCodeOfFile(const std::vector<Elf64_Phdr>& segments, const MappedFile& mapped,
                     uint64_t address, uint64_t size, uint64_t bias);

}  // namespace proftrace
