// Finds the registers whose values a function no longer needs at one place, so that other code may
// overwrite them there.
#pragma once

#include "symbols/x86/function_code.h"

namespace proftrace {

struct DeadRegisters {
  // General registers whose value no path from here reads. Never has rsp, or registers that a
  // function must keep for its caller.
  RegisterSet registers = 0;
  bool flags_are_live = true;  // a path reads arithmetic flags before all of them are written
};

// Finds the dead registers right before the instruction at `address` of `code`. Follows every jump,
// also out of the function; code that cannot be followed counts as reading everything. By the
// System V ABI for x86-64, calls read the registers of arguments, and flags do not survive a call.
// Registers may survive a direct call, because GCC's -fipa-ra keeps values in registers that a
// callee of the same file is known not to change, and `call *(%rax)` (that of a TLS descriptor),
// but not a call through the PLT or another pointer. For the same reason, in a function without
// calls of the latter kind only the registers that it writes itself can be dead.
DeadRegisters FindDeadRegisters(const CodeImage& image, const FunctionCode& code, uint64_t address);

}  // namespace proftrace
