// Finds jumps and calls from anywhere in a file into a few places, by one pass over its code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

struct AddressRange {
  uint64_t first = 0;
  uint64_t last = 0;  // the address behind the range
};

struct Branch {
  uint64_t address = 0;
  uint64_t target = 0;
};

// Finds everything that looks like a jmp, jcc or call with a 4-byte distance into one of `places`
// (ascending, without overlaps). It looks at every byte, so that a match may lie in the middle of
// another instruction: users must decode the code around. Short jumps are not found, because they
// stay in their function. nullopt: the file has more code, or more branches, than any real one.
std::optional<std::vector<Branch>> FindBranchesInto(const ElfFile& file,
                                                    const std::vector<AddressRange>& places);

}  // namespace proftrace
