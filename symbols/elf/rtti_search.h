// Finds the vtable of a class without symbols, by the name in its run-time type information.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/elf/elf_file.h"

namespace proftrace {

// Returns the address (before relocation) of the first function of the vtable of the class with
// this mangled name ("N5torch8autograd6PyNodeE"), as objects point to it. Follows the relative
// relocations of a position-independent file: name -> typeinfo -> vtable (Itanium C++ ABI).
// nullopt: there is none, or more than one.
std::optional<uint64_t> FindVtable(const ElfFile& file, std::string_view type_name);

}  // namespace proftrace
