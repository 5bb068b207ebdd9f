/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads registers at a probe, and words of the target's memory. */
#ifndef PROFTRACE_BPF_REGISTERS_H
#define PROFTRACE_BPF_REGISTERS_H

#include "bpf/shared/common.bpf.h"

/* The key of maps about an address in a process: the address of an OperatorDef, of a vtable or of a
 * probe. */
struct address_key {
	__u64 address;
	__u64 tgid;
};

/* Loads a register by an instruction of its own, because the verifier refuses a context offset that
 * is computed. */
#define LOAD_REGISTER(value)                                                                       \
	({                                                                                         \
		__u64 loaded = (value);                                                            \
		barrier_var(loaded);                                                               \
		loaded;                                                                            \
	})

static __always_inline __u64 read_register(struct pt_regs *ctx, __u32 reg)
{
	switch (reg) {
	case PT_RDI:
		return LOAD_REGISTER(PT_REGS_PARM1(ctx));
	case PT_RSI:
		return LOAD_REGISTER(PT_REGS_PARM2(ctx));
	case PT_RDX:
		return LOAD_REGISTER(PT_REGS_PARM3(ctx));
	case PT_RCX:
		return LOAD_REGISTER(PT_REGS_PARM4(ctx));
	case PT_R8:
		return LOAD_REGISTER(PT_REGS_PARM5(ctx));
	case PT_R9:
		return LOAD_REGISTER(ctx->r9);
	}
	return 0;
}

/* Reads a register inline, which saves a call for every operator. Other code uses
 * hardware_register(), which keeps it small. */
static __always_inline __u64 hardware_register_here(struct pt_regs *ctx, __u32 number)
{
	switch (number) {
	case 0:
		return LOAD_REGISTER(ctx->ax);
	case 1:
		return LOAD_REGISTER(ctx->cx);
	case 2:
		return LOAD_REGISTER(ctx->dx);
	case 3:
		return LOAD_REGISTER(ctx->bx);
	case 4:
		return LOAD_REGISTER(ctx->sp);
	case 5:
		return LOAD_REGISTER(ctx->bp);
	case 6:
		return LOAD_REGISTER(ctx->si);
	case 7:
		return LOAD_REGISTER(ctx->di);
	case 8:
		return LOAD_REGISTER(ctx->r8);
	case 9:
		return LOAD_REGISTER(ctx->r9);
	case 10:
		return LOAD_REGISTER(ctx->r10);
	case 11:
		return LOAD_REGISTER(ctx->r11);
	case 12:
		return LOAD_REGISTER(ctx->r12);
	case 13:
		return LOAD_REGISTER(ctx->r13);
	case 14:
		return LOAD_REGISTER(ctx->r14);
	case 15:
		return LOAD_REGISTER(ctx->r15);
	}
	return 0;
}

static __noinline __u64 hardware_register(struct pt_regs *ctx, __u32 number)
{
	return hardware_register_here(ctx, number);
}

/* Returns the word at `address`; 0 = it could not be read. This is not inline, because a stack
 * frame below 64 bytes is on the kernel's own stack, and the kernel copies into it without checking
 * which object lies there. */
static __noinline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		count_drop(PT_DROP_READ_FAILED);
	return word;
}

#endif
