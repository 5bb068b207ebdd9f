/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the slot of the ring that a thread of the job has (patch_memory.h). This is a part of
 * job_helpers.h.
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

/* Returns the thread's own slot. Searches the slots that the thread may have, of which `slot` is
 * the first, up to `end` (which may be NULL). NULL: the thread has no slot there. */
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

/* Returns the thread's slot, which stays its own once it has one, or NULL. Because the reader
 * frees slots of ended threads, all places of the thread are searched for its own slot before
 * another one is taken. */
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
			return slot; /* a signal handler has taken it for this thread */
		if ((has == 0 || has == PATCH_SLOT_FREED) && take_slot(slot, has, owner)) {
			/* If the thread also has a slot among the places before this one, that
			 * slot is kept, and this one is freed. */
			other = slot_of(ring, first, slot, owner);
			if (!other)
				return slot;
			*(volatile __u64 *)(slot + PATCH_SLOT_OWNER) = PATCH_SLOT_FREED;
			return other;
		}
		/* Another thread has just taken the slot, or a signal handler of this thread
		 * has. */
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
