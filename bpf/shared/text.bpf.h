/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads names of the target and puts them into records. */
#ifndef PROFTRACE_BPF_TEXT_H
#define PROFTRACE_BPF_TEXT_H

#include "bpf/shared/common.bpf.h"

#ifndef NAMES_ARE_READ_IN_PLACE

/* A buffer for a name, which is too large for a program's stack. */
struct long_name {
	__u64 busy;
	char text[PT_NAME_BYTES + 2]; /* one byte more tells that the name is cut */
};

/* There are several buffers for each CPU, because a task may be preempted while it has one. */
#define NAME_BUFFERS 4

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NAME_BUFFERS);
	__type(key, __u32);
	__type(value, struct long_name);
} long_names SEC(".maps");

/* Takes a buffer; NULL: all are in use. */
static __always_inline struct long_name *take_name(void)
{
	for (__u32 i = 0; i < NAME_BUFFERS; ++i) {
		__u32 key = i;
		struct long_name *name = bpf_map_lookup_elem(&long_names, &key);

		if (name && __sync_val_compare_and_swap(&name->busy, 0, 1) == 0)
			return name;
	}
	return NULL;
}

static __always_inline void give_name_back(struct long_name *name)
{
	if (name)
		*(volatile __u64 *)&name->busy = 0;
}

/* Reads the text at `characters` and the NUL behind it. Returns how many bytes were read, 0 or
 * less if it could not be read. If the text is longer than PT_NAME_BYTES, one byte more is read. */
static __always_inline long read_long_name(struct long_name *name, __u64 characters)
{
	return bpf_probe_read_user_str(name->text, sizeof(name->text), (void *)characters);
}

/* Reads the first PT_TEXT_BYTES of `bytes` bytes. Returns 0, or another value if they could not
 * be read. */
static __always_inline long read_name_bytes(struct long_name *name, __u64 characters, __u64 bytes)
{
	barrier_var(bytes);
	if (bytes > PT_TEXT_BYTES)
		bytes = PT_TEXT_BYTES;
	return bpf_probe_read_user(name->text, bytes, (void *)characters);
}

/* Puts the name's first PT_TEXT_BYTES into `text`, after read_long_name() or read_name_bytes(). */
static __always_inline void put_name(char *text, const struct long_name *name, __u64 characters,
				     __u32 length)
{
	(void)characters, (void)length;
	__builtin_memcpy(text, name->text, PT_TEXT_BYTES);
}

#endif

static __always_inline void write_text_part(__u64 sp, __u64 characters, __u32 bytes, __u32 offset)
{
	struct pt_text_more_record *record = reserve(sizeof(*record));

	if (!record)
		return;
	fill_head(&record->head, sp, 0, PT_TEXT_MORE, sizeof(*record));
	barrier_var(bytes);
	if (bytes > PT_TEXT_MORE_BYTES)
		bytes = PT_TEXT_MORE_BYTES;
	record->offset = offset;
	record->bytes = bytes;
	if (bpf_probe_read_user(record->text, bytes, (void *)(characters + offset))) {
		record->bytes = 0;
		count_drop(PT_DROP_READ_FAILED);
	}
	submit(record);
}

/* Writes a name's bytes from `offset` on. Two such records hold the bytes that the first record
 * leaves of a name of PT_NAME_BYTES. */
static __always_inline void write_more_text(__u64 sp, __u64 characters, __u32 length, __u32 offset)
{
	if (length > offset)
		write_text_part(sp, characters, length - offset, offset);
}

#endif
