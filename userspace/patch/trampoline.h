// A trampoline is what a jump over running code leads to: the recorder is called, the instructions
// that the jump took the place of run, and control goes on behind them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbols/x86/patch_windows.h"

namespace proftrace {

// A place in a process that a jump is put over.
struct PatchSpot {
  uint64_t bias = 0;              // what the file's addresses lie higher by in the process
  PatchWindow window;             // addresses before relocation
  std::vector<uint8_t> original;  // the window's bytes, by the file
  uint32_t info = 0;              // of its plain records: site | kind << 16 | words << 24
  uint64_t cookie = 0;            // not 0: records are what the probe with this cookie writes
  bool has_stack = false;         // stacks of Python's are recorded
  bool ends_are_seen = false;     // of an operator's begin: all of its ends have jumps, too
  uint16_t signature = 0;         // of PT_ROLE_OPERATOR_CALL: counts RecorderTables' from 1 on
  size_t module = 0;              // index into ProbePlan::modules
  size_t point = 0;               // into ModulePlan::points
  uint32_t group = 0;             // not 0: only together with all others of this group

  uint64_t address() const { return bias + window.address; }
};

// Returns the jump's bytes: `jmp rel32` to `target`. Fails when that is too far away, or at a
// distance that no jump must have (userspace/inject/jump_distance.h).
absl::StatusOr<std::vector<uint8_t>> JumpBytes(const PatchSpot& spot, uint64_t target);

// Returns the code for `spot` at the address `to`; `recorder`: where the recorder is
// (patch_memory.h); `signature`: where that of the spot is, if it has one. Fails where an
// instruction cannot be moved there.
absl::StatusOr<std::vector<uint8_t>> MakeTrampoline(const PatchSpot& spot, uint64_t to,
                                                    uint64_t recorder, uint64_t signature = 0);

// Returns how long it is, which does not depend on where it lies, as long as that is within reach.
size_t TrampolineBytes(const PatchSpot& spot);

// No trampoline is longer.
inline constexpr size_t kMostTrampolineBytes = 320;
inline constexpr uint64_t kTrampolineAlignment = 16;

constexpr uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace proftrace
