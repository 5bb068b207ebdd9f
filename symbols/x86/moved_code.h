// Instructions made anew for another address: what a jump that is put over them leads to.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "symbols/x86/instruction.h"

namespace proftrace {

// More than MoveCode makes of any window: 19 bytes of instructions, all of them short jumps, and
// the jump back.
inline constexpr size_t kMostMovedBytes = 96;

// Whether straight code ends with the instruction, as control never comes behind it, or only by a
// return: a jump, a call, a return. Only the last instruction of a window may be such.
bool EndsStraightCode(const Instruction& instruction);

// Returns why the instruction cannot run at another address; empty where it can. Refuses what is no
// plain user code (system calls, traps, port and privileged instructions, transactions, far jumps),
// loop and jrcxz, which have no long form, endbr64, which something jumps to, and a call of the
// next instruction, which reads the instruction pointer.
std::string_view WhyNotMovable(const Instruction& instruction);

enum class MovedEnd : uint8_t {
  kJumpBack,     // to what is behind the original code
  kFallThrough,  // to what is put behind the moved code
};

// Returns the bytes that do at `to` what the instructions `code` do at `address`, and then go on.
// Registers, flags and memory are the same, return addresses included: a call, which must be the
// last instruction, pushes the original one and jumps, so unwinding never meets the moved code. A
// processor with shadow stacks (CET) does not let such a callee return: calls may not be moved in
// processes that have one. Behind a return or jump, `code` may hold padding (nop, int3), which is
// left out. Fails where an instruction cannot be moved, or where `to` is further than 2 GiB from
// something that is named relative to the instruction pointer. An empty input gives an empty
// output.
absl::StatusOr<std::vector<uint8_t>> MoveCode(std::span<const uint8_t> code, uint64_t address,
                                              uint64_t to, MovedEnd end = MovedEnd::kJumpBack);

}  // namespace proftrace
