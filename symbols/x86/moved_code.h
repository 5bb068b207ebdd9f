// Makes instructions anew for another address. A jump that is written over the original
// instructions leads to them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "symbols/x86/instruction.h"

namespace proftrace {

// An upper limit of the bytes that MoveCode() makes of a window: the worst case are 19 bytes of
// instructions that are all short jumps, and the jump back.
inline constexpr size_t kMostMovedBytes = 96;

// Whether straight code ends with the instruction, because control does not go on behind it or does
// so only after a return: a jump, a call, a return. Only the last instruction of a window may be
// one of these.
bool EndsStraightCode(const Instruction& instruction);

// Returns why the instruction cannot run at another address; empty where it can. Refuses
// instructions that are no plain user code (system calls, traps, port and privileged instructions,
// transactions, far jumps), loop and jrcxz, which have no long form, endbr64, to which other code
// jumps, and a call of the next instruction, which reads the instruction pointer.
std::string_view WhyNotMovable(const Instruction& instruction);

enum class MovedEnd : uint8_t {
  kJumpBack,     // jump to the code behind the original
  kFallThrough,  // go on with the code that is put behind the moved code
};

// Returns code that does at `to` the same as the instructions `code` do at `address`, and then goes
// on as `end` says. Registers, flags and memory are the same afterwards, return addresses included:
// a call, which must be the last instruction, pushes the original return address and jumps, so that
// unwinding never meets the moved code. A processor with shadow stacks (CET) does not let such a
// callee return: calls may not be moved in processes that have one. Behind a return or jump, `code`
// may hold padding (nop, int3), which is left out. Fails where an instruction cannot be moved, or
// where `to` is further than 2 GiB from an address that is given relative to the instruction
// pointer. An empty input gives an empty output.
absl::StatusOr<std::vector<uint8_t>> MoveCode(std::span<const uint8_t> code, uint64_t address,
                                              uint64_t to, MovedEnd end = MovedEnd::kJumpBack);

}  // namespace proftrace
