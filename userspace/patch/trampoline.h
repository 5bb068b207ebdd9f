// A trampoline is the code that a jump over running code leads to. It calls the recorder, runs the
// instructions that the jump has replaced, and continues behind them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbols/x86/patch_windows.h"

namespace proftrace {

// A place in a process at which a jump is written.
struct PatchSpot {
  uint64_t bias = 0;              // an address in the process minus its address in the file
  PatchWindow window;             // with addresses as in the file
  std::vector<uint8_t> original;  // the window's bytes in the file
  uint32_t info = 0;              // for plain records: site | kind << 16 | words << 24
  uint64_t cookie = 0;         // not 0: the spot's records are those of the probe with this cookie
  bool has_stack = false;      // Python stacks are recorded
  bool ends_are_seen = false;  // at an operator's begin: all ends of the operator have jumps, too
  uint16_t signature = 0;      // of PT_ROLE_OPERATOR_CALL: number in RecorderTables, from 1 on
  size_t module = 0;           // index into ProbePlan::modules
  size_t point = 0;            // index into ModulePlan::points
  uint32_t group = 0;          // not 0: the spot gets a jump only if all spots of its group do

  uint64_t address() const { return bias + window.address; }
};

// Returns the bytes of the jump: `jmp rel32` to `target`. Fails if the target is too far away, or
// at a distance that no jump must have (userspace/inject/jump_distance.h).
absl::StatusOr<std::vector<uint8_t>> JumpBytes(const PatchSpot& spot, uint64_t target);

// Returns the trampoline of `spot` for the address `to`. `recorder`: the recorder's address
// (patch_memory.h). `signature`: the address of the spot's signature, if it has one. Fails if an
// instruction cannot be moved there.
absl::StatusOr<std::vector<uint8_t>> MakeTrampoline(const PatchSpot& spot, uint64_t to,
                                                    uint64_t recorder, uint64_t signature = 0);

// Returns the trampoline's length, which is the same at every address within reach of the jump.
size_t TrampolineBytes(const PatchSpot& spot);

// An upper bound for the length of any trampoline, in bytes.
inline constexpr size_t kMostTrampolineBytes = 320;
inline constexpr uint64_t kTrampolineAlignment = 16;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace proftrace
