/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * An array, by thread number, in which a program finds the addresses of most threads' variables
 * without a call of the kernel. A thread whose place is in use by another thread is only in the map
 * `autograd_threads`.
 */
#ifndef PROFTRACE_BPF_AUTOGRAD_PLACES_H
#define PROFTRACE_BPF_AUTOGRAD_PLACES_H

#include "bpf/shared/pid_namespace.bpf.h"

#define AUTOGRAD_PLACES 8192 /* a power of two */
#define AUTOGRAD_PLACE_BUSY 0xffffffffU

/* The places. Only a thread that has all of its variables, and whose number has been recorded, gets
 * one. */
struct {
	__u64 sequence;
	__u64 grad_mode;
	__u32 tid; /* 0 = free; written last, and cleared first */
	__u32 unused[3];
} autograd_places[AUTOGRAD_PLACES] __attribute__((aligned(32))) = {};

static __always_inline volatile __typeof__(*autograd_places) *autograd_place(__u32 tid)
{
	return &autograd_places[tid & (AUTOGRAD_PLACES - 1)];
}

/* Reads a thread's place. Returns false if the thread has none. Another thread may take the place
 * at any time once it is free, so the tid is checked again after the rest has been read. */
static __always_inline bool read_autograd_place(__u32 tid, __u64 *sequence, __u64 *grad_mode)
{
	volatile __typeof__(*autograd_places) *place = autograd_place(tid);

	if (unlikely(place->tid != tid))
		return false;
	*sequence = place->sequence;
	*grad_mode = place->grad_mode;
	return likely(place->tid == tid);
}

static __always_inline void take_autograd_place(__u32 tid, __u64 sequence, __u64 grad_mode)
{
	volatile __typeof__(*autograd_places) *place = autograd_place(tid);

	if (place->tid || __sync_val_compare_and_swap(&place->tid, 0, AUTOGRAD_PLACE_BUSY))
		return;
	place->sequence = sequence;
	place->grad_mode = grad_mode;
	place->tid = tid;
}

static __always_inline void free_autograd_place(__u32 tid)
{
	volatile __typeof__(*autograd_places) *place = autograd_place(tid);

	if (place->tid == tid)
		place->tid = 0;
}

#endif
