// Which registers a function has no more use for at one place: what runs there may overwrite them.
#pragma once

#include "symbols/x86/function_code.h"

namespace proftrace {

struct DeadRegisters {
  // General registers whose value no path from here reads: never rsp, nor those that a function
  // keeps for its caller.
  RegisterSet registers = 0;
  bool flags_are_live = true;  // a path reads arithmetic flags before all of them are written
};

// Finds the dead registers at the instruction at `address` of `code`, before it runs. Follows every
// jump, also out of the function; what it cannot follow counts as reading everything. By the System
// V ABI for x86-64 calls read the registers of arguments and flags survive no call. Registers
// survive a direct call (GCC's -fipa-ra keeps values in those that it knows a callee of the same
// file to leave alone) and `call *(%rax)` (a TLS descriptor's), but not a call through the PLT or
// another pointer. For the same reason a function without such a call has no dead registers but
// those that it writes itself.
DeadRegisters FindDeadRegisters(const CodeImage& image, const FunctionCode& code, uint64_t address);

}  // namespace proftrace
