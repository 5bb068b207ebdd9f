// Where libgcc's unwinder enters a frame, on the way of an exception through it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/elf/elf_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {

// Returns a probe at the begin of `set_ip`, _Unwind_SetIP(context, address): a personality routine
// calls it when the frame of `context` is to go on in code that an exception alone runs, its
// clean-up or a catch (Itanium C++ ABI: Exception Handling, 1.5). All frames below are over by
// then. Its handle is the address of that frame's stack pointer, which `get_cfa`,
// _Unwind_GetCFA(context), returns. nullopt: the two functions' code is not as libgcc has it.
std::optional<RowProbe> FindUnwinderEntry(const CodeImage& image, uint64_t set_ip,
                                          uint64_t get_cfa);

// Such a probe in a copy that no symbol names: a library that brings its C++ runtime along
// (-static-libgcc, a Rust program) has the unwinder in its own code. Its accessors are told by what
// they do with one structure, and by lying beside each other as in libgcc.
struct HiddenUnwinderEntry {
  uint64_t address = 0;
  RowProbe probe;
};
// Finds them, ascending. Empty for most files, which is known at once: a file with such a copy asks
// the dynamic linker for the tables of all libraries, and does not import the unwinder.
std::vector<HiddenUnwinderEntry> FindHiddenUnwinders(ElfFile& file);

// Finds those in `code`, which lies at `address`.
std::vector<HiddenUnwinderEntry> FindUnwindersIn(std::span<const uint8_t> code, uint64_t address);

}  // namespace proftrace
