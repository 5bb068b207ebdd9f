/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which slot of the ring a thread of the job has (patch_memory.h). A part of job_helpers.h.
 */
#ifndef PROFTRACE_BPF_JOB_SLOTS_H
#define PROFTRACE_BPF_JOB_SLOTS_H

static __always_inline char *next_slot(char *ring, char *slot)
{
	char *table = ring + PATCH_RING_HEADER_BYTES;

	return table + (((slot - table) + (1 << PATCH_SLOT_SHIFT)) &
			((PATCH_SLOTS << PATCH_SLOT_SHIFT) - 1));
}

static __always_inline bool take_slot(char *slot, __u64 before, __u64 owner)
{
	return __atomic_compare_exchange_n((__u64 *)(slot + PATCH_SLOT_OWNER), &before, owner,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Returns the thread's slot among its places, of which `slot` is the first; NULL: none before
 * `end`, which may be NULL. */
static __always_inline char *slot_of(char *ring, char *slot, const char *end, __u64 owner)
{
	for (int i = 0; i < PATCH_SLOT_PROBES && slot != end; ++i) {
		__u64 has = *(volatile __u64 *)(slot + PATCH_SLOT_OWNER);

		if (has == owner)
			return slot;
		if (!has)
			break;
		if (has == (owner | PATCH_SLOT_RETIRED) &&
		    (take_slot(slot, has, owner) ||
		     *(volatile __u64 *)(slot + PATCH_SLOT_OWNER) == owner))
			return slot;
		slot = next_slot(ring, slot);
	}
	return NULL;
}

static __noinline void count_unslotted(char *ring, __u64 owner)
{
	__u64 bit = owner * PATCH_SLOT_SPREAD >> (64 - PATCH_RING_UNSLOTTED_BITS);
	__u64 *word = (__u64 *)(ring + PATCH_RING_UNSLOTTED_THREADS) + bit / 64;

	__atomic_fetch_or(word, 1ULL << bit % 64, __ATOMIC_RELAXED);
	__atomic_fetch_add((__u64 *)(ring + PATCH_RING_UNSLOTTED), 1, __ATOMIC_RELAXED);
}

/* Returns the thread's slot, which is its own once it has one, or NULL. The reader frees slots of
 * threads that have ended: before one is taken, all places are looked at for the thread's own. */
__attribute__((visibility("hidden"))) char *proftrace_find_slot(char *ring, char *first,
								__u64 owner)
{
	char *slot = slot_of(ring, first, NULL, owner);
	char *other;

	if (slot)
		return slot;
	slot = first;
	for (int i = 0; i < PATCH_SLOT_PROBES; ++i) {
		__u64 has = *(volatile __u64 *)(slot + PATCH_SLOT_OWNER);

		if (has == owner)
			return slot; /* a signal handler has taken it */
		if ((has == 0 || has == PATCH_SLOT_FREED) && take_slot(slot, has, owner)) {
			/* The thread may also have a place behind this one, freed unnoticed
			 * before. */
			other = slot_of(ring, first, slot, owner);
			if (!other)
				return slot;
			*(volatile __u64 *)(slot + PATCH_SLOT_OWNER) = PATCH_SLOT_FREED;
			return other;
		}
		/* Another thread has taken it in this moment, or a handler. */
		if (*(volatile __u64 *)(slot + PATCH_SLOT_OWNER) == owner)
			return slot;
		slot = next_slot(ring, slot);
	}
	count_unslotted(ring, owner);
	return NULL;
}

static __always_inline char *own_slot(char *ring)
{
	__u64 owner = thread_pointer();
	__u64 index = owner * PATCH_SLOT_SPREAD >> (64 - PATCH_SLOT_BITS);
	char *slot = ring + PATCH_RING_HEADER_BYTES + (index << PATCH_SLOT_SHIFT);

	if (likely(FIELD(__u64, slot, PATCH_SLOT_OWNER) == owner))
		return slot;
	return proftrace_find_slot(ring, slot, owner);
}

#endif
