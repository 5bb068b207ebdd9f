// Finds words of a position-independent file that the loader fills with addresses. By them, data
// without a symbol is found through the addresses in it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

struct RelocatedPointer {
  uint64_t place = 0;
  uint64_t points_to = 0;
};

// Returns all relative relocations, ascending by place.
std::vector<RelocatedPointer> ReadRelocatedPointers(const ElfFile& file);

// Returns the addresses of a NUL-terminated text in the read-only data, at most eight. A NUL, or
// the section's begin, must be right before the text, so that it is not the end of a longer one.
std::vector<uint64_t> FindReadOnlyText(const ElfFile& file, std::string_view text);

// A Python type's methods for the `with` statement: an entry "__enter__" of a PyMethodDef array and
// the "__exit__" that follows it.
struct ContextMethods {
  uint64_t enter = 0;  // the address of each function
  uint64_t exit = 0;
};
std::vector<ContextMethods> FindContextMethods(const ElfFile& file);

}  // namespace proftrace
