/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads the arguments of system calls, and the data to which these point. */
#ifndef PROFTRACE_BPF_SYSTEM_CALL_PARTS_H
#define PROFTRACE_BPF_SYSTEM_CALL_PARTS_H

#include "bpf/kernel/system_files.bpf.h"

struct call_buffer {
	struct pt_system_call_record record;
	__u64 structure[PT_SYSTEM_STRUCTURE_BYTES / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_buffer);
} call_buffers SEC(".maps");

#define AT_FDCWD (-100)

static __always_inline void read_arguments(struct pt_regs *regs, __u64 *arguments)
{
	arguments[0] = regs->di;
	arguments[1] = regs->si;
	arguments[2] = regs->dx;
	arguments[3] = regs->r10;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
}

/* Returns the argument whose number + 1 is `place`; 0 if there is none. */
static __always_inline __u64 argument_at(const __u64 *arguments, __u8 place)
{
	__u64 index = (__u64)place - 1;

	barrier_var(index);
	return index < 6 ? arguments[index] : 0;
}

/* The kernel moves at most so many messages at once (UIO_MAXIOV). */
#define MOST_MESSAGES 1024

struct message_sum {
	__u64 at; /* the address of the next message's length */
	__u64 bytes;
	__u32 size;
	__u32 failed;
};

static long add_message(__u32 i, struct message_sum *sum)
{
	__u32 length;

	if (bpf_probe_read_user(&length, sizeof(length), (void *)sum->at)) {
		sum->failed = 1;
		return 1;
	}
	sum->bytes += length;
	sum->at += sum->size;
	return 0;
}

/* Returns how many bytes sendmmsg or recvmmsg moved in all `count` messages; < 0: that could not be
 * read. `size`: bytes of a struct mmsghdr. This is not static, so that it is verified once. */
__noinline __s64 sum_messages(__u64 messages, __u32 size, __s64 count)
{
	/* The length of a message is the last member of its struct mmsghdr, which is padded to 64
	 * bits in a 64-bit program. */
	struct message_sum sum = {.at = messages + size - (size == 64 ? 8 : 4), .size = size};

	if (count <= 0)
		return -1;
	bpf_loop(count < MOST_MESSAGES ? count : MOST_MESSAGES, add_message, &sum, 0);
	return sum.failed ? -1 : (__s64)sum.bytes;
}

/* Reads the structure. Returns how many of its bytes could be read and are recorded. */
static __always_inline __u32 read_structure(struct call_buffer *buffer, const __u64 *arguments,
					    struct pt_system_call *facts, __s64 result)
{
	__u64 bytes = facts->structure_bytes;
	__s64 sum;

	if (!facts->structure || !bytes)
		return 0;
	barrier_var(bytes);
	if (bytes > PT_SYSTEM_STRUCTURE_BYTES)
		return 0;
	if (facts->message_bytes) {
		sum = sum_messages(argument_at(arguments, facts->structure), facts->message_bytes,
				   result);
		if (sum < 0)
			return 0;
		buffer->structure[0] = sum;
		return bytes;
	}
	/* If the read fails, the kernel's helper fills the structure with zeros, which value_at()
	 * then returns. */
	if (bpf_probe_read_user(buffer->structure, bytes,
				(void *)argument_at(arguments, facts->structure)))
		return 0;
	return bytes;
}

/* Returns the value of an argument, or of a field of the structure. */
static __always_inline __u64 value_at(struct call_buffer *buffer, const __u64 *arguments,
				      struct pt_system_call *facts, __u8 place)
{
	__u32 field = (__u32)place - PT_SYSTEM_FIRST_FIELD;

	if (place < PT_SYSTEM_FIRST_FIELD)
		return argument_at(arguments, place);
	if (facts->field_bytes == 4)
		return ((__u32 *)buffer->structure)[field % (PT_SYSTEM_STRUCTURE_BYTES / 4)];
	return buffer->structure[field % (PT_SYSTEM_STRUCTURE_BYTES / 8)];
}

struct call_tail {
	struct pt_system_call_record *record;
	__u32 bytes;
};

static __always_inline void add_words(struct call_tail *tail, __u64 first, __u64 second)
{
	__u32 at = tail->bytes;

	if (at > 64)
		return;
	*(__u64 *)(tail->record->tail + at) = first;
	*(__u64 *)(tail->record->tail + at + 8) = second;
	tail->bytes = at + 16;
}

/* Reads a struct timespec, or a struct timeval, as seconds and nanoseconds. Returns whether it
 * could be read. */
static __always_inline bool read_time(__u64 *time, __u64 address, __u8 flags)
{
	if (!address || bpf_probe_read_user(time, 16, (void *)address))
		return false;
	if (flags & PT_SYSTEM_CALL_TIME_IS_TIMEVAL)
		time[1] *= 1000;
	return true;
}

static __always_inline void add_time(struct call_tail *tail, struct system_thread *thread,
				     struct pt_system_call *facts)
{
	__u64 time[2] = {};

	if (facts->time & PT_SYSTEM_TIME_IS_LEFT) {
		if (!thread->call_has_time)
			return;
		time[0] = thread->call_time[0];
		time[1] = thread->call_time[1];
	} else if (!read_time(time, argument_at(thread->arguments, facts->time), facts->flags)) {
		return;
	}
	add_words(tail, time[0], time[1]);
	tail->record->flags |= PT_SYSTEM_HAS_TIME;
}

static __always_inline void add_address(struct call_tail *tail, __u64 address, __u64 bytes,
					bool is_place)
{
	__u32 at = tail->bytes;
	__u32 size = bytes;

	if (!address)
		return;
	if (is_place && bpf_probe_read_user(&size, sizeof(size), (void *)bytes))
		return;
	if (size > PT_SYSTEM_ADDRESS_BYTES)
		size = PT_SYSTEM_ADDRESS_BYTES;
	if (!size || at > 64)
		return;
	__builtin_memset(tail->record->tail + at, 0, PT_SYSTEM_ADDRESS_BYTES);
	if (bpf_probe_read_user(tail->record->tail + at, size, (void *)address))
		return;
	size = (size + 7) & ~7U;
	tail->record->address_bytes = size;
	tail->bytes = at + size;
}

/* Returns the id of the directory at which a relative path of the current thread starts: the
 * directory of `fd` if there is one, else the current directory. */
__noinline int directory_id(__s32 fd, __u32 has_fd)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return has_fd && fd != AT_FDCWD ? id_of_descriptor(task, fd)
					: id_of_current_directory(task);
}

/* Returns the id of the directory at which the call's first path starts. */
static __always_inline __u32 directory_of_path(struct system_thread *thread,
					       struct pt_system_call *facts)
{
	if (unlikely(facts->directory == PT_SYSTEM_DIRECTORY_AT_BEGIN))
		return thread->call_directory;
	return directory_id(argument_at(thread->arguments, facts->directory), facts->directory);
}

/* Adds the path at the address `path`, with its NUL, and sets `flag`. Returns whether the path is
 * relative. */
static __always_inline bool add_path(struct call_tail *tail, __u64 path, __u8 flag)
{
	__u32 at = tail->bytes;
	char begin;
	long got;

	if (at > PT_SYSTEM_TAIL_BYTES - PT_SYSTEM_PATH_BYTES)
		return false;
	got = bpf_probe_read_user_str(tail->record->tail + at, PT_SYSTEM_PATH_BYTES, (void *)path);
	if (got <= 0) {
		tail->record->flags |= PT_SYSTEM_PATH_UNREAD;
		tail->record->tail[at] = 0;
		got = 1;
		/* The helper sets `begin` to zero if nothing of the path can be read. */
		bpf_probe_read_user(&begin, 1, (void *)path);
	} else {
		begin = tail->record->tail[at];
		if (got >= PT_SYSTEM_PATH_BYTES)
			tail->record->flags |= PT_SYSTEM_PATH_CUT;
	}
	tail->record->flags |= flag;
	tail->bytes = at + ((__u32)got & 0x3ff);
	return begin != '/';
}

static __always_inline void add_structure(struct call_tail *tail, struct call_buffer *buffer,
					  __u32 bytes)
{
	__u32 at = (tail->bytes + 7) & ~7U;

	if (!bytes || at > PT_SYSTEM_TAIL_BYTES - PT_SYSTEM_STRUCTURE_BYTES)
		return;
	__builtin_memcpy(tail->record->tail + at, buffer->structure, PT_SYSTEM_STRUCTURE_BYTES);
	tail->record->flags |= PT_SYSTEM_HAS_STRUCTURE;
	tail->bytes = at + (bytes & 0x7f);
}

#endif
