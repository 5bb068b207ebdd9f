/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records ranges that a job marks for other profilers, through ITT or NVTX, whether or not another
 * profiler listens. Ranges are annotations; each thread ends the range first that it began last.
 */
#ifndef PROFTRACE_BPF_RANGES_H
#define PROFTRACE_BPF_RANGES_H

#include "bpf/shared/guards.bpf.h"

static __noinline int write_range_handle(struct pt_regs *ctx, __u8 kind)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, PT_REGS_SP(ctx), 0, kind, sizeof(*record));
	record->value = PT_RANGE_HANDLE(record->head.tid);
	submit(record);
	return 0;
}

static __noinline int on_range_push(struct pt_regs *ctx, __u16 site)
{
	struct pt_place place = {.base = 7 /* rdi */, .count = 1, .form = PT_PLACE_C_STRING};
	struct long_name *name = take_name();
	struct pt_text_record *record;
	__u64 characters = 0;
	__u32 length;

	length = name ? read_name(ctx, &place, name, &characters) : PT_TEXT_READ_FAILED;
	record = reserve(sizeof(*record));
	if (!record) {
		give_name_back(name);
		return 0;
	}
	fill_head(&record->head, PT_REGS_SP(ctx), site, PT_ANNOTATION_BEGIN, sizeof(*record));
	record->length = length;
	record->reserved = 0;
	if (name && length != PT_TEXT_READ_FAILED)
		put_name(record->text, name, characters, length);
	submit(record);
	give_name_back(name);
	if (length == PT_TEXT_READ_FAILED) {
		count_drop(PT_DROP_READ_FAILED);
	} else {
		write_more_text(PT_REGS_SP(ctx), characters, length, PT_TEXT_BYTES);
		write_more_text(PT_REGS_SP(ctx), characters, length,
				PT_TEXT_BYTES + PT_TEXT_MORE_BYTES);
	}
	return write_range_handle(ctx, PT_ANNOTATION_HANDLE);
}

static __noinline int on_range(struct pt_regs *ctx, __u64 cookie)
{
	__u8 role = cookie >> 16;

	if (role != PT_ROLE_RANGE_POP)
		on_range_push(ctx, cookie);
	if (role != PT_ROLE_RANGE_PUSH)
		write_range_handle(ctx, PT_ANNOTATION_END);
	return 0;
}

#endif
