// Finds where exceptions are caught: places that the unwinder jumps to, in no code's sight.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

// Returns, ascending, the landing pads of the function whose record in the unwind table (an FDE of
// .eh_frame) is at address `record`: from its language-specific data, as GCC and Clang write it.
// Empty: it has no such data. Fails where that is written another way.
absl::StatusOr<std::vector<uint64_t>> ReadLandingPads(const ElfFile& file, uint64_t record);

}  // namespace proftrace
