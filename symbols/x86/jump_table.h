// Finds where a jump through a table may lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/instruction.h"

namespace proftrace {

struct JumpTable {
  // The targets in the words at the table's address, as many as were read, whether or not they
  // belong to the table.
  std::vector<uint64_t> targets;
  // How many of them the check before the jump allows; all of them where there is no check.
  size_t count = 0;
};

// Reads the table of the indirect jump that is the last instruction of `code`, as compilers write
// position independent tables:
//   lea base, [rip + table]; movsxd reg, [base + reg * 4]; add reg, base; jmp reg.
// In a loop, the first of these may stand before the loop. The result is empty where the code does
// something else.
JumpTable ReadJumpTable(const CodeImage& image, std::span<const Instruction> code);

}  // namespace proftrace
