/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Puts records into the ring (bpf/abi/ring.h). A program takes room by one compare-and-swap,
 * without a lock and without a call of the kernel; the loader reads records in the order in which
 * room was taken. If another program interrupts a program that is filling its record, the loader
 * waits for that record.
 */
#ifndef PROFTRACE_BPF_RING_H
#define PROFTRACE_BPF_RING_H

#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/abi/ring.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the number of chunks, a power of two: set by the loader */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, PT_RING_CHUNK_BYTES + PT_RING_SLACK_BYTES);
} ring SEC(".maps");

/* Writing to this map wakes the loader, which ignores the contents. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

/* The variables that each record needs are the first ones, so that they lie in one cache line.
 * ring_reserved: bytes since the beginning for which programs have taken room. ring_consumed: bytes
 * since the beginning that the loader has read. The loader sets the other two. ring_bytes: how far
 * ring_reserved may be ahead of ring_consumed. ring_chunk_mask: the number of chunks minus 1. */
__u64 ring_reserved = 0;
__u64 ring_consumed = 0;
__u64 ring_bytes = 0;
__u32 ring_chunk_mask = 0;

#define RING_FULL (~0ULL)
/* So many tries fail only if very many processors write at once. */
#define RING_TRIES 256

/* Whether a record that ends at the position `end` has no room. The difference is signed, because
 * the loader may have passed the position that a delayed program has read. */
static __always_inline bool is_past_ring(__u64 end)
{
	return (__s64)(end - *(volatile __u64 *)&ring_consumed) > (__s64)ring_bytes;
}

/* Takes room, after others have taken the room that this program had seen. Returns the position of
 * the room, or RING_FULL. This is global, so that it is verified once. */
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

/* Returns room for a record of `bytes` bytes (a multiple of 8), which must be submitted; NULL:
 * there is no room. */
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
		return NULL; /* never, but the verifier asks for it */
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

/* Submits a record that the loader must get at once. */
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
