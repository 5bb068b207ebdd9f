// The code that runs in jobs: recorder_code.S and bpf/job/job_recorder.c.
#pragma once

#include <cstdint>
#include <span>

namespace proftrace {

// What trampolines call, position independent, to be put right behind a control page
// (bpf/abi/patch_memory.h). In: r11 = the stack pointer that is recorded.
//   at the begin: a plain record. r10d = site | kind << 16 | words << 24 (as in struct pt_record).
//     Writes rax, rcx, rdx, r8, r10, r11 and the flags.
//   proftrace_recorder_full: what the BPF program writes for a probe whose cookie is r10. What r10
//     and r11 were before lies on the stack, r10 on top. Writes r10, r11 and the flags.
//   proftrace_recorder_operator: an operator's begin. rdi = its dispatch key set, r10d = its site |
//     lowest key << 16 | 1 << 24 where only the highest key counts (records.h). Writes rax, rcx,
//     rdx, rdi, r8, r10, r11 and the flags.
//   proftrace_on_operator: the same, called by the ABI. Its arguments are the key set, what r10d
//     has, and the stack pointer (not in r11).
//   proftrace_recorder_call: the same with inputs, called by the ABI. Two more arguments are the
//     address of the operator's signature, and the stack pointer that this counts from.
// Where stacks of Python's are recorded, these take their places, by the same rules:
//   proftrace_recorder_end at an operator's end and at a catch, proftrace_on_operator_stack,
//   proftrace_recorder_stack_call; the site | 1 << 25 where the operator's ends have jumps.
extern "C" const uint8_t proftrace_recorder_code[];
extern "C" const uint8_t proftrace_recorder_full[];
extern "C" const uint8_t proftrace_recorder_call[];
extern "C" const uint8_t proftrace_recorder_operator[];
extern "C" const uint8_t proftrace_on_operator[];
extern "C" const uint8_t proftrace_recorder_end[];
extern "C" const uint8_t proftrace_on_operator_stack[];
extern "C" const uint8_t proftrace_recorder_stack_call[];
// The end of the recorder's code; the linker makes the name.
extern "C" const uint8_t __stop_proftrace_in_job[];  // NOLINT(bugprone-reserved-identifier)

// Returns the whole code of the recorder.
inline std::span<const uint8_t> RecorderCode() {
  return {proftrace_recorder_code, __stop_proftrace_in_job};
}

}  // namespace proftrace
