// The Python frames of one thread, as samples have them: the tracer's reading of a thread that does
// not run, equal to what bpf/kernel/samples.bpf.c does in one that does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

struct SampledFrames {
  std::vector<abi::pt_sampled_frame> frames;  // innermost first
  uint32_t flags = 0;                         // of enum pt_python_stack_flag
};

// Returns the address of the thread's innermost frame; 0 = it runs no Python. nullopt: that could
// not be read. `state`: the address of its PyThreadState.
std::optional<uint64_t> InnermostPythonFrame(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t state);

// Returns where copy number `copy` of a code object's instructions begins, in a free-threaded build
// (PyCodeObject.co_tlbc); nullopt: there is no such copy.
std::optional<uint64_t> BeginOfCopy(const TargetMemory& memory, const abi::pt_python_layout& layout,
                                    uint64_t code, uint32_t copy);

// Returns the address that a frame's instruction has in its code object itself: in a free-threaded
// build a frame may run its thread's copy of it. `copy`: which one, as the frame has it. Where that
// cannot be read, the one in front of the first, as of a frame that has not begun.
uint64_t OwnInstruction(const TargetMemory& memory, const PythonLayout& layout, uint64_t code,
                        uint32_t copy, uint64_t instruction);

// Reads at most PT_SAMPLE_FRAMES frames.
SampledFrames ReadSampledFrames(const TargetMemory& memory, const PythonLayout& layout,
                                uint64_t state);

// Returns the number of the frame's instruction, in units of two bytes, as PythonLines takes it.
// UINT32_MAX, which stands for a frame that has not begun: the number cannot be one.
uint32_t InstructionOf(const PythonLayout& layout, const abi::pt_sampled_frame& frame);

// Returns how many of `frames`, innermost first, one call of the interpreter runs: one frame of C
// stands for all of them. Frames without code (they only mark where such a call begins) count as
// well.
size_t FramesOfOneCall(const PythonLayout& layout, const abi::pt_sampled_frame* frames,
                       size_t count);

}  // namespace proftrace
