// The code that runs in jobs: recorder_code.S and bpf/job/job_recorder.c.
#pragma once

#include <cstdint>
#include <span>

namespace proftrace {

// The code that trampolines call. It is position independent, and is put right behind a control
// page (bpf/abi/patch_memory.h). In: r11 = the stack pointer that is recorded. Its entry points:
//   proftrace_recorder_code: makes a plain record. r10d = site | kind << 16 | words << 24 (as in
//     struct pt_record). Writes rax, rcx, rdx, r8, r10, r11 and the flags.
//   proftrace_recorder_full: makes the record that the BPF program writes for a probe whose cookie
//     is r10. The earlier values of r10 and r11 lie on the stack, r10 on top. Writes r10, r11 and
//     the flags.
//   proftrace_recorder_operator: records an operator's begin. rdi = its dispatch key set, r10d =
//     its site | lowest key << 16 | 1 << 24 if only the highest key counts (records.h). Writes rax,
//     rcx, rdx, rdi, r8, r10, r11 and the flags.
//   proftrace_on_operator: the same, as a function of the ABI. Its arguments are the key set, the
//     value of r10d, and the stack pointer (which is not in r11).
//   proftrace_recorder_call: the same with inputs, as a function of the ABI. Its two further
//     arguments are the address of the operator's signature, and the stack pointer that the
//     signature counts from.
// If Python stacks are recorded, these take the places of those above, by the same rules:
//   proftrace_recorder_end at an operator's end and at a catch, proftrace_on_operator_stack,
//     proftrace_recorder_stack_call; the site | 1 << 25 if the operator's ends have jumps.
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
