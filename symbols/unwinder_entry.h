// Where libgcc's unwinder enters a frame, on the way of an exception through it.
#pragma once

#include <cstdint>
#include <optional>

#include "symbols/code_image.h"
#include "symbols/module_analysis.h"

namespace proftrace {

// A probe at the begin of `set_ip`, _Unwind_SetIP(context, address): a personality routine calls it
// when the frame of `context` is to go on in code that an exception alone runs, its clean-up or a
// catch (Itanium C++ ABI: Exception Handling, 1.5). All frames below are over by then. Its handle
// is the address of that frame's stack pointer, which `get_cfa`, _Unwind_GetCFA(context), returns.
// Nothing where the two functions' code is not as libgcc has it.
std::optional<RowProbe> FindUnwinderEntry(const CodeImage& image, uint64_t set_ip,
                                          uint64_t get_cfa);

}  // namespace proftrace
