// Jumps over a file's code of which somebody else has put bytes of the file back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "userspace/inject/writable_memory.h"

namespace proftrace {

using JumpPlace = std::array<uint8_t, 5>;  // jmp rel32, or what the file has there

// Whether `now`, the bytes at `address`, are a jump into [begin, end), or what is left of one after
// bytes of the file or breakpoints (0xcc) were written into it. False for the file's own bytes,
// also with breakpoints in them.
bool MayBeJumpInto(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                   const JumpPlace& file);

// Whether each byte is the file's, or a breakpoint.
bool IsOfFile(const uint8_t* now, const uint8_t* file, size_t bytes);

// `now` without what is left of our jump: breakpoints of others stay where they are.
JumpPlace WithoutJump(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                      const JumpPlace& file);

// Has the place at `address`, which lies in one page and is as in `before`, as in `after`. In one
// write, for a tracer that is killed between two of them leaves a jump to nowhere. Where somebody
// else's breakpoint stays, around it: the kernel may take it out at any moment.
bool WriteAround(const WritableMemory& memory, uint64_t address, std::span<const uint8_t> before,
                 std::span<const uint8_t> after);

}  // namespace proftrace
