// Reads the Python frames of one thread in the form that samples have. The tracer does this for a
// thread that does not run; bpf/kernel/samples.bpf.c does the same for a thread that runs.
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

// Returns the address of the thread's innermost frame; 0 = the thread runs no Python; nullopt: this
// could not be read. `state`: the address of its PyThreadState.
std::optional<uint64_t> InnermostPythonFrame(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t state);

// Returns the address of copy number `copy` of a code object's instructions, in a free-threaded
// build (PyCodeObject.co_tlbc); nullopt: there is no such copy.
std::optional<uint64_t> BeginOfCopy(const TargetMemory& memory, const abi::pt_python_layout& layout,
                                    uint64_t code, uint32_t copy);

// Returns the address of a frame's instruction in the code object itself, because in a
// free-threaded build the frame may run its thread's copy of the instructions. `copy`: the number
// of that copy, from the frame. Where the copy cannot be read, returns the address in front of the
// first instruction, as for a frame that has not begun.
uint64_t OwnInstruction(const TargetMemory& memory, const PythonLayout& layout, uint64_t code,
                        uint32_t copy, uint64_t instruction);

// Reads at most PT_SAMPLE_FRAMES frames.
SampledFrames ReadSampledFrames(const TargetMemory& memory, const PythonLayout& layout,
                                uint64_t state);

// Returns the number of the frame's instruction, in units of two bytes, as PythonLines takes it.
// Returns UINT32_MAX, which stands for a frame that has not begun, where the number is impossible.
uint32_t InstructionOf(const PythonLayout& layout, const abi::pt_sampled_frame& frame);

// Returns how many of `frames`, from the innermost on, are run by one call of the interpreter, so
// that one native frame stands for all of them. Frames without code, which only mark the begin of
// such a call, count as well.
size_t FramesOfOneCall(const PythonLayout& layout, const abi::pt_sampled_frame* frames,
                       size_t count);

}  // namespace proftrace
