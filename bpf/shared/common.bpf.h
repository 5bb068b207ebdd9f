/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Maps, configuration, and the functions that put a record into the ring. All topics use them. */
#ifndef PROFTRACE_BPF_COMMON_H
#define PROFTRACE_BPF_COMMON_H

#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/shared/ring.bpf.h"
#include "bpf/abi/records.h"

/* The processes that are recorded. Key: the tgid in the tracer's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u8);
} traced SEC(".maps");

/* How many records each thread has lost since its last PT_LOSS. Key: the kernel's tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} lost_by_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PT_DROP_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

/* Set by the loader at the end of the recording: programs then record nothing, because the kernel
 * may take long to remove their links. */
__u32 stopped = 0;

/* How many threads have an entry in lost_by_thread, plus one while there are losses of threads
 * without an entry. The fast path looks at this number alone. */
__u64 threads_with_losses = 0;

/* Changed by every loss, because after a loss it is not known which Python stack the reader has for
 * a thread. */
__u32 python_generation = 1;

/* Records lost by threads for which lost_by_thread had no room. */
__u64 lost_anywhere = 0;

static __always_inline void count_drop(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&drops, &reason);

	if (count)
		*count += 1;
}

static __always_inline void note_loss_anywhere(__u64 count)
{
	if (__sync_fetch_and_add(&lost_anywhere, count) == 0)
		__sync_fetch_and_add(&threads_with_losses, 1);
}

/* Counts a record of this thread that could not be written, so that a PT_LOSS is written for it
 * later. */
static __noinline int note_loss(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	__u64 one = 1;
	__u64 *lost;

	count_drop(PT_DROP_RING_FULL);
	__sync_fetch_and_add(&python_generation, 1);
	lost = bpf_map_lookup_elem(&lost_by_thread, &tid);
	if (lost) {
		*lost += 1;
	} else if (bpf_map_update_elem(&lost_by_thread, &tid, &one, BPF_NOEXIST) == 0) {
		__sync_fetch_and_add(&threads_with_losses, 1);
	} else {
		note_loss_anywhere(1);
	}
	return 0;
}

#define note_no_buffer() note_loss()

static __always_inline void fill_head_at(struct pt_record *record, __u64 time_ns, __u64 sp,
					 __u16 site, __u8 kind, __u32 bytes)
{
	__u64 id = bpf_get_current_pid_tgid();

	record->time_ns = time_ns;
	if (unlikely(pidns_level)) {
		struct task_struct *task = (struct task_struct *)bpf_get_current_task();

		record->pid = tgid_of(task);
		record->tid = tid_of(task);
	} else {
		record->pid = id >> 32;
		record->tid = (__u32)id;
	}
	record->sp = (__u32)(sp >> 3);
	record->site = site;
	record->kind = kind;
	record->words = bytes / 8;
}

static __always_inline void fill_head(struct pt_record *record, __u64 sp, __u16 site, __u8 kind,
				      __u32 bytes)
{
	fill_head_at(record, bpf_ktime_get_ns(), sp, site, kind, bytes);
}

static __always_inline bool write_loss(__u8 kind, __u64 count)
{
	struct pt_pointer_record *record = reserve_room(sizeof(*record));

	if (!record)
		return false;
	fill_head(&record->head, 0, 0, kind, sizeof(*record));
	record->value = count;
	submit(record);
	return true;
}

/* Announces this thread's losses before the thread's next record, and losses of unknown threads
 * before any thread's next record, so that a reader never nests rows across a gap. */
static __noinline int announce_loss(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	__u64 anywhere = __sync_lock_test_and_set(&lost_anywhere, 0);
	__u64 *lost;

	if (anywhere) {
		__sync_fetch_and_add(&threads_with_losses, -1);
		if (!write_loss(PT_LOSS_ANYWHERE, anywhere)) {
			note_loss_anywhere(anywhere);
			return 0;
		}
	}
	lost = bpf_map_lookup_elem(&lost_by_thread, &tid);
	if (!lost)
		return 1;
	if (!write_loss(PT_LOSS, *lost))
		return 0;
	bpf_map_delete_elem(&lost_by_thread, &tid);
	__sync_fetch_and_add(&threads_with_losses, -1);
	return 1;
}

static __always_inline void *reserve(__u64 bytes)
{
	void *record;

	if (unlikely(threads_with_losses) && !announce_loss()) {
		note_loss();
		return NULL;
	}
	record = reserve_room(bytes);
	if (unlikely(!record))
		note_loss();
	return record;
}

/* Writes a struct pt_pointer_record. Returns whether there was room for it. */
static __always_inline int write_pointer(__u64 sp, __u16 site, __u8 kind, __u64 value)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, sp, site, kind, sizeof(*record));
	record->value = value;
	submit(record);
	return 1;
}

#endif
