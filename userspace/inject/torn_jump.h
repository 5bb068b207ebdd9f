// Handles jumps over a file's code that somebody else has overwritten in part with bytes of the
// file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "userspace/inject/writable_memory.h"

namespace proftrace {

using JumpPlace = std::array<uint8_t, 5>;  // jmp rel32, or the file's bytes in its place

// Whether `now`, the bytes at `address`, are a jump into [begin, end), or the rest of one into
// which bytes of the file or breakpoints (0xcc) were written. False for the file's own bytes, with
// or without breakpoints in them.
bool MayBeJumpInto(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                   const JumpPlace& file);

// Whether each byte is the file's byte or a breakpoint.
bool IsOfFile(const uint8_t* now, const uint8_t* file, size_t bytes);

// Returns `now` without the rest of our jump. Breakpoints of others stay where they are.
JumpPlace WithoutJump(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                      const JumpPlace& file);

// Changes the bytes at `address`, which lie in one page, from `before` to `after`. It does so in
// one write, because a tracer that is killed between two writes would leave a jump to nowhere. If
// somebody else's breakpoint stays in the place, the write goes around it, because the kernel may
// take the breakpoint out at any moment.
bool WriteAround(const WritableMemory& memory, uint64_t address, std::span<const uint8_t> before,
                 std::span<const uint8_t> after);

}  // namespace proftrace
