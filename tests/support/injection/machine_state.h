// The registers and the red zone of a thread, shared by C and the assembler (machine_state.S).
#pragma once

#define STATE_FLAGS 120    /* behind rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15 */
#define STATE_RED_ZONE 128 /* 16 words, downwards from the stack pointer */
#define STATE_VECTORS 256  /* an XSAVE area */
#define STATE_VECTOR_BYTES 16384

#ifndef __ASSEMBLER__

#include <stdint.h>

struct machine_state {
  uint64_t registers[15];
  uint64_t flags;
  uint64_t red_zone[16];
  _Alignas(64) uint8_t vectors[STATE_VECTOR_BYTES];
};

// Loads all of `in`, comes by state_point() where `by_the_point` says so, and stores what is there
// then into `out`, whose vectors must be zero.
void pass_state(const struct machine_state* in, struct machine_state* out, long by_the_point);

// Made by the program before its first pass: what C code expects in the vector registers.
extern struct machine_state clean_state __attribute__((visibility("hidden")));

// Adds one to the processor's own count, in a restartable sequence (rseq(2)) of `spins` rounds
// between read and write. `area`: of the thread's struct rseq, from its thread pointer. Returns the
// processor, or -1 where the kernel ended the sequence.
long add_per_processor(uint64_t* counts, long area, long spins);

#endif
