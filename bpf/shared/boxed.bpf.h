/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records operators that are called with a Stack of values, and annotations, whose begin and end
 * are such operators. */
#ifndef PROFTRACE_BPF_BOXED_H
#define PROFTRACE_BPF_BOXED_H

#include "bpf/shared/common.bpf.h"
#include "bpf/shared/ivalue.bpf.h"
#include "bpf/shared/registers.bpf.h"
#include "bpf/shared/text.bpf.h"

/* The operators that begin or end annotations, such as profiler::_record_function_enter. Key: tgid
 * and OperatorDef*; value: enum pt_annotation_step. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct address_key);
	__type(value, __u32);
} annotation_operators SEC(".maps");

/* Code in a job finds these elsewhere (bpf/job/job_helpers.h). */
#ifndef ANNOTATION_STEP
#define ANNOTATION_STEP(key) bpf_map_lookup_elem(&annotation_operators, key)
#endif

/* A call on this thread that enters an annotation and has not returned. When the call returns, its
 * Stack has the annotation's handle. */
struct pending_enter {
	__u64 stack;
	__u64 sp;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct pending_enter);
} pending_enters SEC(".maps");

#ifndef PENDING_ENTER
#define PENDING_ENTER(tid) bpf_map_lookup_elem(&pending_enters, tid)
#define KEEP_PENDING_ENTER(tid, pending) bpf_map_update_elem(&pending_enters, tid, pending, BPF_ANY)
#define DROP_PENDING_ENTER(tid) bpf_map_delete_elem(&pending_enters, tid)
/* A call that threw leaves a stale entry. It is not dropped here: its Stack may be read although it
 * is gone, which does no harm in a BPF program. */
#define DROP_STALE_ENTER() ((void)0)
#endif

static __always_inline void write_annotation_begin(__u64 sp, __u64 stack, bool old_abi)
{
	struct pt_text_record *record;
	__u64 characters = 0;
	__u32 length;
	__u64 top;

	/* The Stack's last two values are the arguments: the name, and an optional string. */
	top = read_word(stack + 8);
	if (config_record_shapes && top && (__u32)read_word(top - 8) != IVALUE_NONE)
		write_annotation_inputs(sp);
	record = reserve(sizeof(*record));
	if (!record)
		return;
	fill_head(&record->head, sp, 0, PT_ANNOTATION_BEGIN, sizeof(*record));
	record->reserved = 0;
	length = PT_TEXT_READ_FAILED;
	if (top)
		length = read_string_ivalue(read_word(top - 2 * IVALUE_BYTES), old_abi,
					    record->text, &characters);
	record->length = length;
	submit(record);
	if (length == PT_TEXT_READ_FAILED) {
		count_drop(PT_DROP_READ_FAILED);
		return;
	}
	write_more_text(sp, characters, length, PT_TEXT_BYTES);
	write_more_text(sp, characters, length, PT_TEXT_BYTES + PT_TEXT_MORE_BYTES);
}

static __always_inline void write_handle(__u64 sp, __u8 kind, __u64 stack)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));
	__u64 top;

	if (!record)
		return;
	fill_head(&record->head, sp, 0, kind, sizeof(*record));
	/* The handle is the last value: the only argument of the exit, or the result of the
	 * enter. */
	top = read_word(stack + 8);
	record->value = top ? read_word(top - IVALUE_BYTES) : 0;
	submit(record);
}

/* Handles Dispatcher::callBoxed(op, stack): records the operator by its OperatorDef*, and
 * annotations by their enter and exit. */
static __noinline int on_boxed_begin(struct pt_regs *ctx, __u64 cookie)
{
	struct address_key key = {.tgid = current_tgid()};
	struct pt_pointer_record *record;
	__u64 sp = PT_REGS_SP(ctx);
	__u64 stack;
	__u32 *step;

	DROP_STALE_ENTER();
	key.address = read_word(read_register(ctx, (cookie >> 24) & 0xff));
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(&record->head, sp, cookie, PT_BOXED_BEGIN, sizeof(*record));
	record->value = key.address;
	submit(record);

	step = ANNOTATION_STEP(&key);
	if (!step)
		return 0;
	stack = read_register(ctx, (cookie >> 32) & 0xff);
	if ((*step & PT_ANNOTATION_STEP_MASK) == PT_ANNOTATION_ENTER) {
		struct pending_enter pending = {.stack = stack, .sp = sp};
		__u32 tid = (__u32)bpf_get_current_pid_tgid();

		write_annotation_begin(sp, stack, *step & PT_ANNOTATION_OLD_STRINGS);
		KEEP_PENDING_ENTER(&tid, &pending);
	} else {
		write_handle(sp, PT_ANNOTATION_END, stack);
	}
	return 0;
}

static __noinline int on_boxed_end(struct pt_regs *ctx, __u64 cookie)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct pending_enter *pending = PENDING_ENTER(&tid);
	__u64 sp = PT_REGS_SP(ctx);
	struct pt_record *record;

	/* This is the exit of the enter itself: the stack pointer is not above that at its
	 * entry, and no other callBoxed has begun in between. */
	if (pending && sp <= pending->sp) {
		write_handle(sp, PT_ANNOTATION_HANDLE, pending->stack);
		DROP_PENDING_ENTER(&tid);
	}
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(record, sp, cookie, PT_SPAN_END, sizeof(*record));
	submit(record);
	return 0;
}

#endif
