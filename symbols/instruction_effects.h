// What an instruction does to registers, flags and the stack pointer, on the safe side.
#pragma once

#include <cstdint>
#include <optional>

#include "symbols/instruction.h"

namespace proftrace {

// Bytes at a general register + an offset.
struct MemoryPlace {
  unsigned base = 0;  // by its hardware number
  int64_t offset = 0;
  unsigned bytes = 0;

  // Both while the register has one value.
  bool IsApartFrom(const MemoryPlace& other) const {
    return base == other.base && (offset + bytes <= other.offset ||
                                  other.offset + static_cast<int64_t>(other.bytes) <= offset);
  }
};

struct InstructionEffects {
  // Set = `reads`, `replaces` and the flags are right: nothing that is not there is read. Else the
  // instruction may read everything.
  bool known = false;
  RegisterSet reads = 0;     // general registers of which any part may be read
  RegisterSet replaces = 0;  // those whose old value is gone, and was not read
  RegisterSet changes = 0;   // those of which any part may be written
  bool reads_flags = false;  // of the arithmetic flags
  bool replaces_flags = false;
  bool writes_memory = false;          // or may
  std::optional<MemoryPlace> written;  // the only memory that it writes, where that is known
  // Only beyond the stack pointer: a push.
  bool writes_below_stack = false;
  bool writes_vectors = false;  // or may
  // What is added to rsp, in bytes; nothing = not known.
  std::optional<int32_t> stack_change = 0;
};

// Of anything but jumps, calls and returns.
InstructionEffects EffectsOf(const Instruction& instruction);

}  // namespace proftrace
