/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How records get to the loader (bpf/abi/ring.h): room is taken by one compare-and-swap, without a
 * lock and without a call of the kernel's, in the order of which the loader reads. A program may be
 * interrupted by another one while it fills its record: the loader waits for it there.
 */
#ifndef PROFTRACE_BPF_RING_H
#define PROFTRACE_BPF_RING_H

#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/abi/ring.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* chunks, a power of two: set by the loader */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, PT_RING_CHUNK_BYTES + PT_RING_SLACK_BYTES);
} ring SEC(".maps");

/* Nothing is ever in this one: writing to it wakes the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

/* What each record needs lies in one line of the cache: these are the first variables. Bytes since
 * the beginning, of which programs have taken the room, and which the loader has read; and, set by
 * the loader, how many there may be between both, and the number of chunks less 1. */
__u64 ring_reserved = 0;
__u64 ring_consumed = 0;
__u64 ring_bytes = 0;
__u32 ring_chunk_mask = 0;

#define RING_FULL (~0ULL)
/* Other writers come first so often only where very many processors write at once. */
#define RING_TRIES 256

/* The difference is signed: a delayed program may find that the loader is past what it read. */
static __always_inline bool is_past_ring(__u64 end)
{
	return (__s64)(end - *(volatile __u64 *)&ring_consumed) > (__s64)ring_bytes;
}

/* Takes room again where others have taken the room that this program saw. Global: verified
 * once. */
__noinline __u64 take_ring_room(__u64 bytes)
{
	for (int i = 0; i < RING_TRIES; ++i) {
		__u64 position = *(volatile __u64 *)&ring_reserved;

		if (is_past_ring(position + bytes))
			return RING_FULL;
		if (__sync_val_compare_and_swap(&ring_reserved, position, position + bytes) ==
		    position)
			return position;
	}
	return RING_FULL;
}

/* Returns room for a record of so many bytes (a multiple of 8), to be submitted; NULL: there is
 * none. */
static __always_inline void *reserve_room(__u64 bytes)
{
	__u64 position = *(volatile __u64 *)&ring_reserved;
	__u64 size = bytes + PT_RING_HEAD_BYTES;
	__u32 chunk;
	__u32 *head;
	char *place;

	if (unlikely(is_past_ring(position + size)))
		return NULL;
	if (unlikely(__sync_val_compare_and_swap(&ring_reserved, position, position + size) !=
		     position)) {
		position = take_ring_room(size);
		if (position == RING_FULL)
			return NULL;
	}
	chunk = position / PT_RING_CHUNK_BYTES & ring_chunk_mask;
	place = bpf_map_lookup_elem(&ring, &chunk);
	if (!place)
		return NULL; /* never: there are so many */
	head = (__u32 *)(place + (position & (PT_RING_CHUNK_BYTES - 1)));
	head[1] = bytes;
	return head + 2;
}

static __always_inline void submit(void *record)
{
	asm volatile("" ::: "memory");
	*((volatile __u32 *)record - 2) = PT_RING_WHOLE;
}

static __always_inline void wake_loader(void)
{
	__u64 nothing = 0;

	bpf_ringbuf_output(&doorbell, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

/* Submits what the loader must hear of at once. */
static __always_inline void submit_and_wake(void *record)
{
	submit(record);
	wake_loader();
}

/* Copies a record that lies elsewhere into the ring. Returns whether there was room. */
static __always_inline bool copy_record(const void *record, __u64 bytes)
{
	char *copy;

	barrier_var(bytes);
	if (bytes > PT_RING_MOST_RECORD_BYTES)
		return false;
	copy = reserve_room(bytes);
	if (!copy)
		return false;
	bpf_probe_read_kernel(copy, bytes, record);
	submit(copy);
	return true;
}

#endif
