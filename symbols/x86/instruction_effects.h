// Tells the effects of an instruction on registers, flags and the stack pointer. Where they are not
// certain, the result states more effects than the instruction has.
#pragma once

#include <cstdint>
#include <optional>

#include "symbols/x86/instruction.h"

namespace proftrace {

// Bytes at a general register plus an offset.
struct MemoryPlace {
  unsigned base = 0;  // by its hardware number
  int64_t offset = 0;
  unsigned bytes = 0;

  // Whether the two do not overlap, as long as the register keeps its value.
  bool IsApartFrom(const MemoryPlace& other) const {
    return base == other.base && (offset + bytes <= other.offset ||
                                  other.offset + static_cast<int64_t>(other.bytes) <= offset);
  }
};

struct InstructionEffects {
  // True: `reads`, `replaces` and the flags are right, and nothing else is read. False: the
  // instruction may read everything.
  bool known = false;
  RegisterSet reads = 0;     // general registers of which any part may be read
  RegisterSet replaces = 0;  // those whose whole old value is replaced, and was not read
  RegisterSet changes = 0;   // those of which any part may be written
  bool reads_flags = false;  // whether arithmetic flags may be read
  bool replaces_flags = false;
  bool writes_memory = false;  // or it may
  // The only memory that the instruction writes, where that is known
  std::optional<MemoryPlace> written;
  // Whether the instruction writes only below the stack pointer, as a push does.
  bool writes_below_stack = false;
  bool writes_vectors = false;  // or it may
  // The bytes that are added to rsp; nullopt: not known.
  std::optional<int32_t> stack_change = 0;
};

// Returns the effects of an instruction that is no jump, call or return.
InstructionEffects EffectsOf(const Instruction& instruction);

}  // namespace proftrace
