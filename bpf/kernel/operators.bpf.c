// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Records operators, autograd nodes, annotations and catches. There is one program for all uprobes;
 * the attach cookie tells what the probe means (bpf/abi/records.h). The common roles write 24 bytes
 * and read no memory of the target.
 */
#include "bpf/shared/common.bpf.h"
#include "bpf/kernel/cookies.bpf.h"
#include "bpf/kernel/demotions.bpf.h"
#include "bpf/shared/registers.bpf.h"

#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/guards.bpf.h"
#include "bpf/kernel/ranges.bpf.h"
#include "bpf/shared/inputs.bpf.h"
#include "bpf/kernel/row_inputs.bpf.h"
#include "bpf/shared/boxed.bpf.h"
#include "bpf/shared/nodes.bpf.h"
#include "bpf/shared/python_stacks.bpf.h"
#include "bpf/shared/script_stacks.bpf.h"

static __always_inline int on_sized_begin(struct pt_regs *ctx, __u64 cookie)
{
	write_pointer(PT_REGS_SP(ctx), cookie, PT_SIZED_BEGIN,
		      read_register(ctx, (cookie >> 24) & 0xff));
	return 0;
}

static __always_inline int write_plain(struct pt_regs *ctx, __u64 cookie, __u8 kind)
{
	struct pt_record *record = reserve(sizeof(*record));

	if (unlikely(!record))
		return 0;
	fill_head(record, PT_REGS_SP(ctx), cookie, kind, sizeof(*record));
	submit(record);
	return 0;
}

/* This map stays empty. With it, the kernel takes the program for one that may call another
 * program. Linux 6.13 and later put larger stack frames into memory of the CPU, where each read of
 * user memory into them takes longer, but not the frames of programs that may call another one. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} no_program SEC(".maps");

/* The name "/uprobe" has no meaning: libbpf before 0.7 accepts only names of programs with a
 * slash. */
SEC("kprobe/uprobe")
int on_probe(struct pt_regs *ctx)
{
	__u64 cookie = cookie_of(ctx);
	__u8 role = cookie >> 16;

	if (unlikely(stopped)) {
		bpf_tail_call(ctx, &no_program, 0);
		return 0;
	}
	if ((config_cookies_in_table || config_cookies_by_address) && !cookie)
		return 0;
	if (config_has_budget) {
		if (unlikely(handover) && is_second_of_hit(ctx, !!(cookie & PT_COOKIE_GENERATION)))
			return 0;
		cookie &= ~PT_COOKIE_GENERATION;
		if (is_demoted(cookie, role))
			return 0;
	}
	if (config_with_stack) {
		if (begins_row(role) || tells_of_memory(role))
			on_python_stack(PT_REGS_SP(ctx), cookie, is_operator(role));
		else if (role == PT_ROLE_END || role == PT_ROLE_CATCH)
			on_python_row_end(cookie);
	}
	if (config_with_modules && has_script(role))
		on_script_row();
	/* The most frequent roles come first. */
	if (role == PT_ROLE_END)
		return write_plain(ctx, cookie, PT_SPAN_END);
	if (role == PT_ROLE_OPERATOR_BEGIN)
		return on_operator_begin(ctx, cookie);
	if (config_record_shapes && role == PT_ROLE_OPERATOR_CALL)
		return on_operator_call(ctx, cookie);
	if (unlikely(role > PT_ROLE_CATCH)) {
		switch (role) {
		case PT_ROLE_INPUTS_BEGIN:
			if (config_record_shapes)
				write_inputs_before(ctx, cookie);
			return write_plain(ctx, cookie, PT_SPAN_BEGIN);
		case PT_ROLE_SPILLED_INPUTS:
			return config_record_shapes ? write_inputs_before(ctx, cookie) : 0;
		case PT_ROLE_SEQUENCE:
			return write_sequence(entry_sp(ctx, cookie),
					      operator_sequence(ctx, cookie));
		case PT_ROLE_BOXED_BEGIN:
			if (config_record_shapes)
				write_inputs_before(ctx, cookie);
			return on_boxed_begin(ctx, cookie);
		case PT_ROLE_BOXED_END:
			return on_boxed_end(ctx, cookie);
		case PT_ROLE_NODE_BEGIN:
			if (config_record_shapes)
				write_inputs_before(ctx, cookie);
			return on_node_begin(ctx, cookie);
		case PT_ROLE_PLACED_NODE:
			if (config_record_shapes)
				write_row_inputs(ctx, cookie);
			return on_placed_node(ctx, cookie);
		case PT_ROLE_LITERAL_BEGIN:
			role = PT_LITERAL_BEGIN;
			break;
		case PT_ROLE_COST:
			role = PT_COST;
			break;
		case PT_ROLE_COST_AGAIN:
			role = PT_COST_AGAIN;
			break;
		case PT_ROLE_ALLOCATION:
			return on_allocation(ctx);
		case PT_ROLE_FREE:
			return on_free(ctx);
		case PT_ROLE_CPU_OUT_OF_MEMORY:
			return on_cpu_out_of_memory(ctx);
		case PT_ROLE_DEVICE_MEMORY:
			return on_device_memory(ctx);
		case PT_ROLE_DEVICE_OUT_OF_MEMORY:
			return on_device_out_of_memory(ctx);
		case PT_ROLE_SIZED_BEGIN:
			return on_sized_begin(ctx, cookie);
		case PT_ROLE_RANGE_PUSH:
		case PT_ROLE_RANGE_POP:
		case PT_ROLE_RANGE_MARK:
			return on_range(ctx, cookie);
		default:
			/* Only begins have a place with a row's inputs. */
			if (config_record_shapes)
				write_row_inputs(ctx, cookie);
			return on_guard(ctx, cookie);
		}
	}
	return write_plain(ctx, cookie, role);
}

/* Does nothing, and so measures the time that the kernel itself takes for the same probes
 * (tests/bench). */
SEC("kprobe/uprobe")
int on_probe_empty(struct pt_regs *ctx)
{
	return 0;
}
