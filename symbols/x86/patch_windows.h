// Where a jump may be written over running code so that what it leads to sees what a probe would
// see: the static half of patching. Nothing here changes a process.
//
// A jump needs 5 bytes. A point's window is whole instructions that have as many; the jump's target
// records, runs these instructions (moved_code.h), and goes on behind them. It is safe where
// nothing else leads into the window and where the way from its begin to the point is one straight
// line, so that both are passed equally often.
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
  // Where it begins, before relocation. Never a function's first instruction, which is where others
  // (perf, bpftrace, gdb) set their breakpoints, unless that is a jmp rel32 itself.
  uint64_t address = 0;
  // In bytes, padding behind a last return or jump included. The jump takes the first 5, which lie
  // in one page; the bytes behind them must stay as they are.
  uint8_t size = 0;
  // Where the recorder runs: at the begin; or, where that would lose something, at the point, when
  // the instructions before it have run (it may be the window's end).
  uint64_t recorder = 0;
  // The stack pointer at the point = that at the recorder + this.
  int32_t stack_change = 0;
  // What instructions between the recorder and the point, in either order, change: the recorder
  // does not see the value that it has at the point.
  RegisterSet changed = 0;  // general registers
  bool memory_changed = false;
  bool vectors_changed = false;
  bool loses_reads = false;  // the point's record needs some of that
  // The state at the recorder.
  RegisterSet dead = 0;  // general registers that may be overwritten
  bool flags_are_live = true;
  bool red_zone_may_be_used = true;
  // The window ends with a call: the moved one pushes its return address, which a shadow stack
  // refuses, and which the processor's return prediction does not know.
  bool has_call = false;

  uint64_t end() const { return address + size; }
};

// What a point's record takes from the thread beside the stack pointer.
struct PointReads {
  RegisterSet registers = 0;
  bool memory = false;  // of the stack, or of objects that the code may be about to change
  std::optional<MemoryPlace> place;  // only that, while `memory` is not set
  bool vectors = false;
};

struct PatchPoint {
  uint64_t address = 0;
  PointReads reads;
};

struct PointPatch {
  uint64_t point = 0;  // its address, before relocation
  std::optional<PatchWindow> window;
  std::string reason;  // why there is none
};

PointReads ReadsOf(const ProbePoint& point, const ProbePlan& plan);

// The windows of the points of one function, ascending by address, no two equal; `code` knows of
// everything that jumps into it. No two windows overlap, and no window covers another of the
// points, which may have to stay a uprobe: that would be written into the jump. The lower point
// has the first choice.
std::vector<PointPatch> ChooseWindows(const CodeImage& image, const FunctionCode& code,
                                      const std::vector<PatchPoint>& points);

// Finds the windows of one file's points, in their order. Functions are those of the unwind tables;
// what jumps into them is taken from their own code, their landing pads and a scan of the whole
// file. Points of the plan's `cost_points` count as not attached.
std::vector<PointPatch> FindPatchWindows(const ModuleImage& image, const ModulePlan& module,
                                         const ProbePlan& plan);

}  // namespace proftrace
