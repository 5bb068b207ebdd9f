// Tells which distances are allowed for a jump that is written over a file's code.
//
// A jump's four bytes of distance replace bytes of instructions, and in another process anybody may
// have a probe of the kernel at those instructions. When such a probe is taken away, the kernel
// looks at its place in every process that maps the file and has ever had a probe. If it finds 0xcc
// (int3) there, it takes that byte for the probe's breakpoint and writes the file's byte in its
// place (kernel/events/uprobes.c, verify_opcode() by is_swbp_insn(); on x86 no other byte counts).
// The jump would then lead into the middle of other code. So no byte of a distance is 0xcc, and
// none is 0xcd (int), because debuggers and emulators that look for traps know both.
#pragma once

#include <cstdint>

namespace proftrace {

// Whether a jump may have this distance from its end to its target.
bool IsSafeDistance(int32_t distance);

// Returns the lowest target at or above `target` to which a jump that ends at `jump_end` has a safe
// distance, and which lies a multiple of `alignment` (a power of 2) behind `target`. The result may
// be out of the jump's reach.
uint64_t NextSafeTarget(uint64_t jump_end, uint64_t target, uint64_t alignment);

// The distances [kUnsafeFrom, kUnsafeUntil) are not safe, whatever their lower bytes are, because
// their uppermost byte is 0xcc or 0xcd.
inline constexpr int64_t kUnsafeFrom = -0x3400'0000;
inline constexpr int64_t kUnsafeUntil = -0x3200'0000;

}  // namespace proftrace
