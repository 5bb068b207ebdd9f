// Finds the place where libgcc's unwinder enters a frame when an exception passes through it.
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
// then. The probe's handle is the address, in the context, of that frame's stack pointer: where
// `get_cfa`, _Unwind_GetCFA(context), reads it. nullopt: the code of the two functions is not that
// of libgcc.
std::optional<RowProbe> FindUnwinderEntry(const CodeImage& image, uint64_t set_ip,
                                          uint64_t get_cfa);

// Such a probe in a copy of the unwinder that no symbol names: a library that contains its own C++
// runtime (-static-libgcc, a Rust program) has the unwinder in its code. The unwinder's accessors
// are recognised by the fields of one structure that they use, and because they lie beside each
// other as in libgcc.
struct HiddenUnwinderEntry {
  uint64_t address = 0;
  RowProbe probe;
};
// Finds such copies, ascending by address. Most files have none, which their symbols show at once:
// a file with such a copy asks the dynamic linker for the tables of all libraries, and does not
// import the unwinder.
std::vector<HiddenUnwinderEntry> FindHiddenUnwinders(ElfFile& file);

// Finds the copies in `code`, which lies at `address`.
std::vector<HiddenUnwinderEntry> FindUnwindersIn(std::span<const uint8_t> code, uint64_t address);

}  // namespace proftrace
