// Which distances a jump that is written over a file's code may have.
//
// A jump's four bytes of distance lie where the file has instructions, so where anybody may have a
// probe of the kernel in another process. When such a probe is taken away, the kernel looks at its
// place in every process that maps the file and has ever had a probe. Where it finds 0xcc (int3)
// it takes that for the probe's breakpoint and writes the file's byte there
// (kernel/events/uprobes.c, verify_opcode() by is_swbp_insn(); on x86 no other byte counts).
// The jump then leads into the middle of something else. So no byte of a distance is 0xcc.
// None is 0xcd (int) either: debuggers and emulators that look for traps know both.
#pragma once

#include <cstdint>

namespace proftrace {

// Whether a jump may have this distance from its end to its target.
bool IsSafeDistance(int32_t distance);

// Returns the lowest target at or above `target`, a multiple of `alignment` (a power of 2) away
// from it, that a jump which ends at `jump_end` has a safe distance to. The result may be out of
// the jump's reach.
uint64_t NextSafeTarget(uint64_t jump_end, uint64_t target, uint64_t alignment);

// Targets at these distances, [kUnsafeFrom, kUnsafeUntil), cannot be reached safely, whatever the
// lower bytes of the distance are: the uppermost one is 0xcc or 0xcd.
inline constexpr int64_t kUnsafeFrom = -0x3400'0000;
inline constexpr int64_t kUnsafeUntil = -0x3200'0000;

}  // namespace proftrace
