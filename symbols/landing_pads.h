// Where exceptions are caught: places that the unwinder jumps to, in no code's sight.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "symbols/elf_file.h"

namespace proftrace {

// The landing pads of the function that the unwind table's record (an FDE of .eh_frame) at address
// `record` is of, ascending: from its language-specific data, as GCC and Clang write it. None where
// it has no such data. Fails where that is written another way.
absl::StatusOr<std::vector<uint64_t>> ReadLandingPads(const ElfFile& file, uint64_t record);

}  // namespace proftrace
