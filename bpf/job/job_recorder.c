/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The functions that trampolines call for records that hold more than the time, made from the
 * sources of the BPF programs. They run in the job (patch_memory.h), are position independent and
 * have no data of their own.
 */
#include "bpf/job/job_helpers.h"
#include "bpf/job/job_inputs.h"
#include "bpf/job/job_stacks.h"

#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/guards.bpf.h"
#include "bpf/shared/inputs.bpf.h"
#include "bpf/shared/boxed.bpf.h"
#include "bpf/shared/memory.bpf.c"
#include "bpf/shared/nodes.bpf.h"
#include "bpf/shared/python_stacks.bpf.h"
#include "bpf/shared/script_stacks.bpf.h"

_Static_assert(sizeof(struct input_buffer) <= PATCH_INPUTS_BYTES, "input_buffer");
_Static_assert(offsetof(struct pt_autograd_layout, sequence) == PATCH_AUTOGRAD_SEQUENCE &&
		   offsetof(struct pt_autograd_layout, grad_mode) == PATCH_AUTOGRAD_GRAD_MODE &&
		   offsetof(struct pt_thread_variable, offset) == 8,
	       "pt_autograd_layout");
_Static_assert(PATCH_BEGIN_INFO == (PT_SPAN_BEGIN << 16 | (sizeof(struct pt_record) / 8) << 24) &&
		   PATCH_NUMBERED_BEGIN_INFO ==
		       (PT_SPAN_BEGIN << 16 | (sizeof(struct pt_pointer_record) / 8) << 24),
	       "begins");

/* Writes that a row has no stack. The row belongs to a signal handler that has interrupted its
 * thread while the thread was reading its stack. */
static __noinline void write_unread_stack(struct job_stacks *stacks)
{
	struct pt_python_stack_record *record = reserve(PT_PYTHON_STACK_HEAD_BYTES);

	stacks->disturbed = 1;
	if (!record)
		return;
	fill_head(&record->head, 0, 0, PT_PYTHON_STACK, PT_PYTHON_STACK_HEAD_BYTES);
	((__u64 *)record)[3] = 0;
	record->flags = PT_PYTHON_STACK_FAILED;
	submit(record);
}

static __noinline void forget_modules(struct job_stacks *stacks)
{
	for (int i = 0; i < JOB_MODULES; ++i)
		*(volatile __u64 *)&stacks->modules[i].address = 0;
}

static __noinline void begin_stacks(const char *ring, struct job_stacks *stacks)
{
	__u32 lost = FIELD(__u32, ring, PATCH_RING_STACKS_LOST);

	if (stacks->tid != current_tid(ring)) {
		/* The slot had another thread before. */
		stacks->tid = current_tid(ring);
		stacks->thread.count[0] = 0;
		stacks->thread.count[1] = 0;
		stacks->thread.flags = 0;
		stacks->thread.open_sp = 0;
		/* Which module lies at an address is recorded by each thread for itself. */
		forget_modules(stacks);
	}
	if (stacks->lost != lost) {
		stacks->lost = lost;
		for (int i = 0; i < JOB_CODES; ++i)
			*(volatile __u64 *)&stacks->codes[i].address = 0;
		forget_modules(stacks);
	}
	stacks->disturbed = 0;
	stacks->thread.generation = python_generation - 1;
}

/* Writes the stack with which a row begins. */
static __noinline void write_stack(char *ring, __u64 sp, __u64 cookie, __u32 holds)
{
	char *slot = own_slot(ring);
	struct job_stacks *stacks;

	stacks = slot ? (struct job_stacks *)FIELD(__u64, slot, PATCH_SLOT_STACKS) : NULL;
	if (!stacks)
		return;
	if (unlikely(__atomic_load_n(&stacks->busy, __ATOMIC_RELAXED))) {
		if (stacks->tid == current_tid(ring)) {
			write_unread_stack(stacks);
			return;
		}
		/* The thread that was reading has ended in the middle of it, and this is another
		 * thread. */
	}
	/* The flag is set before the check (in python_state()) whether Python ends, so that
	 * wait_for_readers() sees it in time. */
	__atomic_exchange_n(&stacks->busy, 1, __ATOMIC_SEQ_CST);
	if (unlikely(stacks->tid != current_tid(ring) || stacks->disturbed ||
		     stacks->lost != FIELD(__u32, ring, PATCH_RING_STACKS_LOST)))
		begin_stacks(ring, stacks);
	stacks->begun = bpf_ktime_get_ns();
	on_python_stack(sp, cookie, holds);
	__atomic_store_n(&stacks->busy, 0, __ATOMIC_RELEASE);
	if (has_script(cookie >> 16))
		on_script_row();
}

/* Sets `number` to the result of sequence_number(0). Returns false if a variable of the thread does
 * not exist yet, or if the thread has not been announced. */
static __always_inline bool find_sequence(const char *ring, const char *slot, __s64 *number)
{
	const struct pt_autograd_layout *layout = autograd_layout();
	const struct pt_thread_variable *variables[2];
	__u64 addresses[2];
	const __u64 *dtv;

	if (!layout || FIELD(__u32, slot, PATCH_SLOT_ANNOUNCED) != current_tid(ring))
		return false;
	variables[0] = &layout->grad_mode;
	variables[1] = &layout->sequence;
	asm("mov %%fs:8, %0" : "=r"(dtv));
	for (int i = 0; i < 2; ++i) {
		const __u64 *index = (const __u64 *)variables[i]->index;

		if (index[0] > dtv[-2] || dtv[2 * index[0]] + 1 <= 1)
			return false;
		addresses[i] = dtv[2 * index[0]] + index[1] + variables[i]->offset;
	}
	*number = *(const __u8 *)addresses[0] & 1 ? *(const __s64 *)addresses[1] : NO_SEQUENCE;
	return true;
}

/* Returns the sequence number of an operator with the dispatch keys `keys`, or NO_SEQUENCE.
 * `facts`: as in proftrace_on_operator(). */
static __always_inline __s64 find_number(const char *ring, const char *slot, __u64 keys,
					 __u32 facts)
{
	__s64 number = NO_SEQUENCE;

	keys >>= facts >> 16 & 63;
	if (keys & 7 && !(facts >> 24 && keys >> 3) &&
	    unlikely(!find_sequence(ring, slot, &number)))
		number = first_sequence_number(0);
	return number;
}

/* Does what on_operator_begin() does, with facts that the trampoline has worked out already: bits
 * 0..15 of `facts` are the site, bits 16..21 the lowest of the autograd keys, and bit 24 is set if
 * only the highest key counts. */
__attribute__((visibility("hidden"))) void proftrace_on_operator(__u64 keys, __u32 facts, __u64 sp)
{
	char *ring = job_ring();
	struct pt_pointer_record *record;
	__s64 number;
	__u64 position;
	__u32 words;
	__u64 time;
	char *slot;

	if (!ring || is_only_counted(ring, facts))
		return;
	time = bpf_ktime_get_ns();
	if (time > FIELD(__u64, ring, PATCH_RING_DEADLINE))
		return;
	slot = own_slot(ring);
	if (unlikely(!slot))
		return;
	number = find_number(ring, slot, keys, facts);
	if (!has_room(ring, slot))
		return;
	words = number < 0 ? sizeof(record->head) / 8 : sizeof(*record) / 8;
	position = take_words(slot, words);
	record = (struct pt_pointer_record *)record_at(ring, slot, position);
	fill_head_at(&record->head, time, sp, facts, PT_SPAN_BEGIN, words * 8);
	if (number >= 0)
		record->value = number;
	commit(ring, &record->head, position);
}

/* This flag in `facts` says that jumps see the operator's ends, so that a stack holds until
 * then. */
#define STACK_HOLDS (1U << 25)

__attribute__((visibility("hidden"))) void proftrace_on_operator_stack(__u64 keys, __u32 facts,
								       __u64 sp)
{
	char *ring = job_ring();

	if (ring && !demotion_of(ring, facts))
		write_stack(ring, sp, PT_ROLE_BEGIN << 16 | (__u16)facts, facts & STACK_HOLDS);
	proftrace_on_operator(keys, facts & ~STACK_HOLDS, sp);
}

/* Does what write_call() does for inputs that fit into one record. */
static __always_inline void put_call(char *ring, char *slot, const struct input_buffer *buffer,
				     __u64 sp, __u16 site, __s64 number, __u64 time)
{
	__u64 words = buffer->flags ? 0 : buffer->position - INPUT_HEAD_WORDS;
	struct pt_call_record *record;
	__u64 position;

	/* If the process has been forked in the meantime, the child has no ring. */
	if (job_ring() != ring || !has_room(ring, slot))
		return;
	position = take_words(slot, PT_CALL_HEAD_BYTES / 8 + words);
	record = (struct pt_call_record *)record_at(ring, slot, position);
	fill_head_at(&record->head, time, sp, site, PT_OPERATOR_CALL,
		     PT_CALL_HEAD_BYTES + 8 * words);
	record->facts = call_facts(number, buffer->count, buffer->flags);
#pragma GCC unroll 1
	for (__u64 i = 0; i < words; ++i)
		((__u64 *)record)[PT_CALL_HEAD_BYTES / 8 + i] = buffer->words[INPUT_HEAD_WORDS + i];
	commit(ring, &record->head, position);
}

/* Does what on_operator_call() does, with facts that the trampoline has worked out already. `kept`:
 * the values that the registers had where the stack pointer was `point_sp`, in the order in which
 * the signature counts them. */
__attribute__((visibility("hidden"))) void proftrace_on_call(__u64 keys, __u32 facts, __u64 sp,
							     struct pt_signature *signature,
							     __u64 point_sp, const __u64 *kept)
{
	__u64 time = bpf_ktime_get_ns();
	char *ring = job_ring();
	struct input_buffer *buffer;
	__s64 number;
	char *slot;

	if (!ring || is_only_counted(ring, facts) || time > FIELD(__u64, ring, PATCH_RING_DEADLINE))
		return;
	slot = own_slot(ring);
	if (unlikely(!slot))
		return;
	number = find_number(ring, slot, keys, facts);
	buffer = slot_buffer(ring, slot);
	if (unlikely(!buffer)) {
		write_call_without_inputs(sp, facts, number);
		return;
	}
	for (int i = 0; i < PT_ARGUMENT_STACK; ++i)
		buffer->arguments[i] = kept[i];
	read_inputs(buffer, signature, point_sp);
	if (likely(buffer->position <= INPUT_HEAD_WORDS + MOST_RECORD_WORDS))
		put_call(ring, slot, buffer, sp, facts, number, time);
	else
		write_call(buffer, sp, facts, number, time);
	*(volatile __u64 *)&buffer->busy = 0;
}

__attribute__((visibility("hidden"))) void
proftrace_on_call_stack(__u64 keys, __u32 facts, __u64 sp, struct pt_signature *signature,
			__u64 point_sp, const __u64 *kept)
{
	char *ring = job_ring();

	if (ring && !demotion_of(ring, facts))
		write_stack(ring, sp, PT_ROLE_BEGIN << 16 | (__u16)facts, facts & STACK_HOLDS);
	proftrace_on_call(keys, facts & ~STACK_HOLDS, sp, signature, point_sp, kept);
}

static __always_inline void write_plain(struct pt_regs *ctx, __u64 cookie, __u8 kind)
{
	struct pt_record *record = reserve(sizeof(*record));

	if (!record)
		return;
	fill_head(record, PT_REGS_SP(ctx), cookie, kind, sizeof(*record));
	submit(record);
}

__attribute__((visibility("hidden"))) void proftrace_on_point(struct pt_regs *ctx)
{
	__u64 cookie = ctx->orig_ax;
	char *ring = job_ring();

	if (unlikely((cookie >> 16 & 0xff) == PT_ROLE_PYTHON_END)) {
		wait_for_readers();
		return;
	}
	if (!ring)
		return;
	if (unlikely(FIELD(__u32, ring, PATCH_RING_PYTHON_STATE)) &&
	    (begins_row(cookie >> 16) || tells_of_memory(cookie >> 16)) &&
	    !demotion_of(ring, cookie))
		write_stack(ring, PT_REGS_SP(ctx), cookie, false);
	switch (cookie >> 16 & 0xff) {
	/* These two kinds of rows come here only if stacks are recorded; otherwise the trampolines
	 * call the recorder of plain records for them. */
	case PT_ROLE_BEGIN:
		if (!is_only_counted(ring, cookie))
			write_plain(ctx, cookie, PT_SPAN_BEGIN);
		break;
	case PT_ROLE_LITERAL_BEGIN:
		write_plain(ctx, cookie, PT_LITERAL_BEGIN);
		break;
	case PT_ROLE_INPUTS_BEGIN:
		if (is_only_counted(ring, cookie))
			break;
		write_inputs_before(ctx, cookie);
		write_operator_begin(PT_REGS_SP(ctx), cookie, NO_SEQUENCE, 0);
		break;
	case PT_ROLE_SPILLED_INPUTS:
		if (!demotion_of(ring, cookie))
			write_inputs_before(ctx, cookie);
		break;
	case PT_ROLE_SEQUENCE:
		if (!demotion_of(ring, cookie))
			write_sequence(entry_sp(ctx, cookie), operator_sequence(ctx, cookie));
		break;
	case PT_ROLE_NODE_BEGIN:
		if (config_record_shapes)
			write_inputs_before(ctx, cookie);
		on_node_begin(ctx, cookie);
		break;
	case PT_ROLE_PLACED_NODE:
		on_placed_node(ctx, cookie);
		break;
	case PT_ROLE_BOXED_BEGIN:
		if (config_record_shapes)
			write_inputs_before(ctx, cookie);
		on_boxed_begin(ctx, cookie);
		break;
	case PT_ROLE_BOXED_END:
		on_boxed_end(ctx, cookie);
		break;
	case PT_ROLE_SIZED_BEGIN:
		write_pointer(PT_REGS_SP(ctx), cookie, PT_SIZED_BEGIN,
			      read_register(ctx, (cookie >> 24) & 0xff));
		break;
	case PT_ROLE_ALLOCATION:
		on_allocation(ctx);
		break;
	case PT_ROLE_FREE:
		on_free(ctx);
		break;
	case PT_ROLE_CPU_OUT_OF_MEMORY:
		on_cpu_out_of_memory(ctx);
		break;
	case PT_ROLE_DEVICE_MEMORY:
		on_device_memory(ctx);
		break;
	case PT_ROLE_DEVICE_OUT_OF_MEMORY:
		on_device_out_of_memory(ctx);
		break;
	default:
		on_guard(ctx, cookie);
		break;
	}
}
