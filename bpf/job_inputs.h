/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What inputs.bpf.h needs in a job's own threads, beside job_helpers.h: a buffer for each thread,
 * signatures in the region that this code is in, and care with addresses. Arguments of what has
 * just been called are alive, and so is what hangs on them; a word that can be no address of such a
 * thing is never followed.
 */
#ifndef PROFTRACE_BPF_JOB_INPUTS_H
#define PROFTRACE_BPF_JOB_INPUTS_H

#include "bpf/job_helpers.h"

#define BUFFERS_ARE_OF_THREADS
struct input_buffer;

/* NULL: inputs are not recorded, or a signal handler has interrupted its thread's own reading. The
 * buffer's first word says that it is in use. */
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

/* Objects of torch, and arrays of words, lie at such addresses. */
#define MAY_BE_WORDS(address) (!((address)&7))

#define bpf_loop(times, visit, context, flags)                                                     \
	({                                                                                         \
		__u32 loop_times = (times);                                                        \
		__u32 loop_round = 0;                                                              \
		while (loop_round < loop_times && !visit(loop_round, context))                     \
			++loop_round;                                                              \
		loop_round;                                                                        \
	})

/* What has no buffer is as good as not read; records without room are counted in their slot. */
static __always_inline int note_loss(void)
{
	count_drop(PT_DROP_READ_FAILED);
	return 0;
}
#define announce_loss() 1

/* A record that lies elsewhere. */
static __noinline int write_copy(const __u64 *words, __u64 bytes)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;
	__u64 position;
	__u64 *to;

	if (unlikely(!slot) || !has_room(ring, slot))
		return 0;
	position = take_words(slot, bytes / 8);
	to = (__u64 *)record_at(ring, slot, position);
	to[0] = words[0];
	/* The low half of the second word makes it valid. */
	((__u32 *)to)[3] = ((const __u32 *)words)[3];
	for (__u64 i = 2; i < bytes / 8; ++i)
		to[i] = words[i];
	commit(ring, (struct pt_record *)to, position);
	return 0;
}
#define bpf_ringbuf_output(map, record, bytes, flags) write_copy((const __u64 *)(record), (bytes))

#endif
