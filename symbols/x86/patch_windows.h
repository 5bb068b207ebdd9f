// Finds where a jump may be written over running code, so that the code at the jump's target sees
// the same state as a probe would: the static half of patching. Nothing here changes a process.
//
// A jump needs 5 bytes. A point's window consists of whole instructions with at least as many. The
// code at the jump's target records, runs these instructions (moved_code.h), and goes on behind
// them. This is safe where no other code leads into the window, and where the code from the
// window's begin to the point is straight, so that both are passed equally often.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/elf/module_image.h"
#include "symbols/probe_plan.h"
#include "symbols/x86/function_code.h"
#include "symbols/x86/instruction_effects.h"

namespace proftrace {

inline constexpr size_t kWindowBytes = 5;  // jmp rel32

struct PatchWindow {
  // The address where the window begins, before relocation. Never a function's first instruction,
  // unless that is itself a jmp rel32, because other tools (perf, bpftrace, gdb) set their
  // breakpoints there.
  uint64_t address = 0;
  // In bytes, padding behind a last return or jump included. The jump takes the first 5, which lie
  // in one page; the bytes behind them must stay as they are.
  uint8_t size = 0;
  // The address before whose instruction the recorder runs: the window's begin, or, where it would
  // lose something there, the point, after the instructions before it have run (the point may be
  // the window's end).
  uint64_t recorder = 0;
  // The stack pointer at the point, less the stack pointer at the recorder.
  int32_t stack_change = 0;
  // The registers and memory that instructions between the recorder and the point change, whichever
  // comes first. The recorder does not see the values that these have at the point.
  RegisterSet changed = 0;  // general registers
  bool memory_changed = false;
  bool vectors_changed = false;
  bool loses_reads = false;  // the point's record needs something that is changed
  // The state at the recorder.
  RegisterSet dead = 0;  // general registers that may be overwritten
  bool flags_are_live = true;
  bool red_zone_may_be_used = true;
  // Whether the window ends with a call. The moved call pushes its return address by ordinary
  // stores, which a shadow stack does not accept and which the processor's return prediction does
  // not know.
  bool has_call = false;

  uint64_t end() const { return address + size; }
};

// What a point's record reads from the thread besides the stack pointer.
struct PointReads {
  RegisterSet registers = 0;
  // Whether the stack is read, or objects that the code may be about to change
  bool memory = false;
  std::optional<MemoryPlace> place;  // the only memory that is read, where `memory` is not set
  bool vectors = false;
};

struct PatchPoint {
  uint64_t address = 0;
  PointReads reads;
};

struct PointPatch {
  uint64_t point = 0;  // the point's address, before relocation
  std::optional<PatchWindow> window;
  std::string reason;  // why there is no window
};

PointReads ReadsOf(const ProbePoint& point, const ProbePlan& plan);

// Returns the windows of the points of one function. `points` are ascending by address, without
// equal ones, and `code` must know all places to which other code jumps. No two windows overlap. No
// window covers another of the points, because that may have to stay a uprobe, whose breakpoint
// would be written into the jump. The lower point has the first choice.
std::vector<PointPatch> ChooseWindows(const CodeImage& image, const FunctionCode& code,
                                      const std::vector<PatchPoint>& points);

// Finds the windows of one file's points, in their order. Functions are those of the unwind tables.
// The places to which code jumps are taken from the functions' own code, their landing pads and a
// scan of the whole file. The points in `cost_points` of the plan are assumed not to be attached.
std::vector<PointPatch> FindPatchWindows(const ModuleImage& image, const ModulePlan& module,
                                         const ProbePlan& plan);

}  // namespace proftrace
