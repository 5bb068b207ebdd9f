/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The additions to job_helpers.h that inputs.bpf.h needs in a job's own threads: a buffer for each
 * thread, the signatures in the region that this code is in, and checks of addresses. The arguments
 * of a call that has just begun are alive, and so is everything that they refer to. A word that
 * cannot be the address of such an object is never followed.
 */
#ifndef PROFTRACE_BPF_JOB_INPUTS_H
#define PROFTRACE_BPF_JOB_INPUTS_H

#include "bpf/job/job_helpers.h"

#define BUFFERS_ARE_OF_THREADS
struct input_buffer;

/* Returns the slot's buffer, and marks it as in use by its first word. NULL: inputs are not
 * recorded, or the buffer is in use, because a signal handler has interrupted its thread while the
 * thread was reading inputs. */
static __always_inline struct input_buffer *slot_buffer(const char *ring, const char *slot)
{
	__u64 buffers = FIELD(__u64, ring, PATCH_RING_INPUTS);
	__u64 index = (__u64)(slot - (ring + PATCH_RING_HEADER_BYTES)) >> PATCH_SLOT_SHIFT;
	char *buffer = (char *)(buffers + index * PATCH_INPUTS_BYTES);

	if (unlikely(!buffers || FIELD(__u64, buffer, 0)))
		return NULL;
	FIELD(__u64, buffer, 0) = 1;
	return (struct input_buffer *)buffer;
}

static __always_inline struct input_buffer *take_buffer(void)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	return slot ? slot_buffer(ring, slot) : NULL;
}

static __always_inline struct pt_signature *signature_at(__u32 number)
{
	__u64 offsets = FIELD(__u64, proftrace_control, PATCH_CONTROL_SIGNATURES);

	if (!number || number > FIELD(__u64, proftrace_control, PATCH_CONTROL_SIGNATURE_COUNT))
		return NULL;
	return (struct pt_signature *)(offsets + ((const __u32 *)offsets)[number - 1]);
}
#define SIGNATURE(key) signature_at(*(key))

static __always_inline __u32 *node_signature(__u32 *number)
{
	*number = FIELD(__u64, proftrace_control, PATCH_CONTROL_NODE_SIGNATURE);
	return *number ? number : NULL;
}
#define NODE_SIGNATURE(key) node_signature(key)

/* Objects of torch, and arrays of words, lie only at addresses that are multiples of 8. */
#define MAY_BE_WORDS(address) (!((address)&7))

#define view_words(buffer, words, bytes, address)                                                  \
	({                                                                                         \
		__u64 words_at = (address);                                                        \
		(void)(words);                                                                     \
		if (unlikely(!MAY_BE_WORDS(words_at) || !MAY_HOLD(words_at, bytes))) {             \
			(buffer)->flags |= PT_INPUTS_FAILED;                                       \
			words_at = 0;                                                              \
		}                                                                                  \
		(const __u64 *)words_at;                                                           \
	})

/* A call without a buffer counts as a failed read. */
#define note_no_buffer() count_drop(PT_DROP_READ_FAILED)
#endif
