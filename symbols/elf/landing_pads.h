// Finds landing pads, where exceptions are caught: places to which only the unwinder jumps, so that
// no jump in the code shows them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

// Returns, ascending, the landing pads of a function, from its language-specific data as GCC and
// Clang write them. `record`: the address of the function's record in the unwind table (an FDE of
// .eh_frame). Empty: the function has no such data. Fails where the data have another form.
absl::StatusOr<std::vector<uint64_t>> ReadLandingPads(const ElfFile& file, uint64_t record);

}  // namespace proftrace
