/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* System calls: noted when a thread enters one, told of when it leaves it. */
#ifndef PROFTRACE_BPF_SYSTEM_CALLS_H
#define PROFTRACE_BPF_SYSTEM_CALLS_H

#include "bpf/system_files.bpf.h"

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

static __always_inline void read_arguments(struct pt_regs *regs, __u8 abi, __u64 *arguments)
{
	if (unlikely(abi == PT_SYSTEM_I386)) {
		arguments[0] = (__u32)regs->bx;
		arguments[1] = (__u32)regs->cx;
		arguments[2] = (__u32)regs->dx;
		arguments[3] = (__u32)regs->si;
		arguments[4] = (__u32)regs->di;
		arguments[5] = (__u32)regs->bp;
		return;
	}
	arguments[0] = regs->di;
	arguments[1] = regs->si;
	arguments[2] = regs->dx;
	arguments[3] = regs->r10;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
}

/* Argument number `place` - 1. */
static __always_inline __u64 argument_at(const __u64 *arguments, __u8 place)
{
	__u32 index = (__u32)place - 1;

	return index < 6 ? arguments[index] : 0;
}

/* The kernel moves at most so many messages at once (UIO_MAXIOV). */
#define MOST_MESSAGES 1024

struct message_sum {
	__u64 at; /* where the next one's length is */
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

/* Of all messages that sendmmsg or recvmmsg moved; < 0: they could not be read. Not static, for the
 * same reason as below. */
__noinline __s64 sum_messages(__u64 messages, __u32 size, __s64 count)
{
	/* The length is behind the struct msghdr: its last member, padded with 64 bits. */
	struct message_sum sum = {.at = messages + size - (size == 64 ? 8 : 4), .size = size};

	if (count <= 0)
		return -1;
	bpf_loop(count < MOST_MESSAGES ? count : MOST_MESSAGES, add_message, &sum, 0);
	return sum.failed ? -1 : (__s64)sum.bytes;
}

/* Bytes that could be read of the structure, or are told of it. */
static __always_inline __u32 read_structure(struct call_buffer *buffer, const __u64 *arguments,
					    struct pt_system_call *facts, __s64 result)
{
	__u32 bytes = facts->structure_bytes;
	__s64 sum;

	if (!facts->structure || !bytes || bytes > PT_SYSTEM_STRUCTURE_BYTES)
		return 0;
	if (facts->message_bytes) {
		sum = sum_messages(argument_at(arguments, facts->structure), facts->message_bytes,
				   result);
		if (sum < 0)
			return 0;
		buffer->structure[0] = sum;
		return bytes;
	}
	/* What cannot be read is filled with zeros. */
	if (bpf_probe_read_user(buffer->structure, bytes,
				(void *)argument_at(arguments, facts->structure)))
		return 0;
	return bytes;
}

/* An argument, or a field of the structure. */
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

static __always_inline void add_time(struct call_tail *tail, __u64 address, __u8 flags)
{
	__u64 time[2] = {};

	if (!address)
		return;
	if (flags & PT_SYSTEM_CALL_TIME_IS_32) {
		__u32 half[2];

		if (bpf_probe_read_user(half, sizeof(half), (void *)address))
			return;
		time[0] = half[0];
		time[1] = half[1];
	} else if (bpf_probe_read_user(time, sizeof(time), (void *)address)) {
		return;
	}
	if (flags & PT_SYSTEM_CALL_TIME_IS_TIMEVAL)
		time[1] *= 1000;
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

/* The id of the directory that a relative path of the current thread starts at: that of the
 * descriptor, if there is one. */
__noinline int directory_id(__s32 fd, __u32 has_fd)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return has_fd && fd != AT_FDCWD ? id_of_descriptor(task, fd)
					: id_of_current_directory(task);
}

/* Whether it is relative. */
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
		/* Zero where nothing of it can be read. */
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

struct call_end {
	__u64 end_ns;
	__s64 result;
	__u32 pid;
	__u32 tid;
	__u32 file;
	__u8 flags;	   /* enum pt_system_flag */
	__u8 is_elsewhere; /* another thread tells of it: its memory is not at hand */
};

static __always_inline void fill_call(struct pt_system_call_record *record,
				      struct system_thread *thread, struct call_end *end,
				      __u8 arguments)
{
	record->head.time_ns = thread->call_ns;
	record->head.pid = end->pid;
	record->head.tid = end->tid;
	record->head.sp = end->file;
	record->head.site = thread->call;
	record->head.kind = PT_SYSTEM_CALL;
	record->head.words = PT_SYSTEM_CALL_HEAD_BYTES / 8 + arguments;
	record->duration_ns = end->end_ns > thread->call_ns ? end->end_ns - thread->call_ns : 0;
	record->result = end->result;
	record->lost = thread->lost;
	record->abi = thread->call_abi;
	record->flags = thread->call_flags | end->flags;
	record->arguments = arguments;
	record->address_bytes = 0;
	record->path_bytes = 0;
}

/* The file that a call moves bytes to. */
static __always_inline void add_target(struct call_tail *tail, __s32 fd)
{
	__u32 file = directory_id(fd, true);

	if (!file || tail->bytes != 48)
		return;
	add_words(tail, (__u64)file << 32, 0);
	tail->bytes -= 6;
	tail->record->path_bytes = 2;
	tail->record->flags |= PT_SYSTEM_HAS_SECOND_PATH;
}

/* A call with something that its arguments point to. Not static: it is verified once, and not with
 * each of its callers. */
__noinline int write_long_call(struct system_thread *thread, struct call_end *end)
{
	__u32 zero = 0;
	struct call_buffer *buffer = bpf_map_lookup_elem(&call_buffers, &zero);
	struct pt_system_call_record *record = &buffer->record;
	struct call_tail tail = {.record = record, .bytes = 48};
	struct pt_system_call *facts;
	__u32 structure_bytes = 0;
	bool succeeded;
	__u64 size;

	if (!buffer || !thread || !end)
		return 0;
	facts = facts_of(thread->call_abi, thread->call);
	if (!facts)
		return 0;
	succeeded = end->result >= 0 && !(end->flags & PT_SYSTEM_UNFINISHED);
	fill_call(record, thread, end, 6);
	__builtin_memcpy(record->tail, thread->arguments, 48);
	if (end->is_elsewhere) {
		if (facts->path)
			record->flags |= PT_SYSTEM_PATH_UNREAD;
		facts = NULL;
	}
	if (facts)
		structure_bytes =
		    read_structure(buffer, thread->arguments, facts, succeeded ? end->result : 0);
	if (facts && facts->time)
		add_time(&tail, argument_at(thread->arguments, facts->time), facts->flags);
	if (facts && facts->address &&
	    (succeeded || !(facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS)))
		add_address(&tail, value_at(buffer, thread->arguments, facts, facts->address),
			    value_at(buffer, thread->arguments, facts, facts->address_bytes),
			    facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS &&
				facts->address_bytes < PT_SYSTEM_FIRST_FIELD);
	/* The memory of a program that is gone has nothing to read. */
	if (facts && facts->path && !(succeeded && (facts->flags & PT_SYSTEM_CALL_EXECS))) {
		__u64 first = argument_at(thread->arguments, facts->path);
		__u64 second =
		    facts->second_path ? argument_at(thread->arguments, facts->second_path) : 0;
		__u32 begin = tail.bytes + 8;
		__u32 directories[2] = {};

		if (begin > 48 + 16 + PT_SYSTEM_ADDRESS_BYTES + 8)
			return 0;
		tail.bytes = begin;
		if (add_path(&tail, first, PT_SYSTEM_HAS_PATH))
			directories[0] = directory_id(
			    argument_at(thread->arguments, facts->directory), facts->directory);
		if (second && add_path(&tail, second, PT_SYSTEM_HAS_SECOND_PATH) &&
		    !(facts->flags & PT_SYSTEM_CALL_SECOND_IS_TEXT))
			directories[1] =
			    directory_id(argument_at(thread->arguments, facts->second_directory),
					 facts->second_directory);
		__builtin_memcpy(record->tail + begin - 8, directories, 8);
		record->path_bytes = tail.bytes - begin;
	} else if (facts && facts->second_directory && !facts->second_path) {
		add_target(&tail, argument_at(thread->arguments, facts->second_directory));
	}
	add_structure(&tail, buffer, structure_bytes);
	size = (PT_SYSTEM_CALL_HEAD_BYTES + tail.bytes + 7) & ~7ULL;
	record->head.words = size / 8;
	asm volatile("" : "+r"(size));
	if (size > sizeof(*record))
		return 0;
	return write_system(thread, record, size);
}

/* A path of at most so many bytes, with its NUL, is not copied more than needed. */
#define SHORT_PATH_BYTES 64

#define RESERVE_PATH(count) reserve_room(PT_SYSTEM_CALL_HEAD_BYTES + 48 + 8 + (count)*8)

/* A call whose arguments point to nothing but one short path; whether it is one. Not static, for
 * the same reason. */
__noinline int write_path_call(struct system_thread *thread, struct call_end *end)
{
	__u64 path[SHORT_PATH_BYTES / 8] = {};
	struct pt_system_call_record *record;
	struct pt_system_call *facts;
	__u32 directory = 0;
	__u64 *words;
	__u32 count;
	long got;

	if (!thread || !end || end->is_elsewhere)
		return 0;
	facts = facts_of(thread->call_abi, thread->call);
	if (!facts)
		return 0;
	got = bpf_probe_read_user_str(path, SHORT_PATH_BYTES,
				      (void *)argument_at(thread->arguments, facts->path));
	if (got <= 0 || got >= SHORT_PATH_BYTES)
		return 0;
	if (*(char *)path != '/')
		directory = directory_id(argument_at(thread->arguments, facts->directory),
					 facts->directory);
	count = ((__u32)got + 15) / 16;
	switch (count) {
	case 1:
		words = RESERVE_PATH(2);
		break;
	case 2:
		words = RESERVE_PATH(4);
		break;
	case 3:
		words = RESERVE_PATH(6);
		break;
	default:
		words = RESERVE_PATH(8);
		count = 4;
	}
	asm volatile("" : "+r"(count));
	if (!words) {
		note_lost(thread);
		return 1;
	}
	record = (struct pt_system_call_record *)words;
	fill_call(record, thread, end, 6);
	record->head.words += 1 + count * 2;
	record->flags |= PT_SYSTEM_HAS_PATH;
	record->path_bytes = got;
	words += PT_SYSTEM_CALL_HEAD_BYTES / 8;
	__builtin_memcpy(words, thread->arguments, 48);
	words[6] = directory;
	__builtin_memcpy(words + 7, path, 16);
	if (count > 1)
		__builtin_memcpy(words + 9, path + 2, 16);
	if (count > 2)
		__builtin_memcpy(words + 11, path + 4, 16);
	if (count > 3)
		__builtin_memcpy(words + 13, path + 6, 16);
	thread->lost = 0;
	submit(record);
	return 1;
}

#define RESERVE_CALL(count) reserve_room(PT_SYSTEM_CALL_HEAD_BYTES + (count)*8)

/* The record is made where it is to be. The size of that is known when this is compiled, the rest
 * is the same for all: little code stays in the processor's cache. */
static __always_inline void write_arguments(struct system_thread *thread, struct call_end *end)
{
	__u32 count = thread->call_arguments;
	__u64 *words;

	switch (count) {
	case 0:
		words = RESERVE_CALL(0);
		count = 0;
		break;
	case 1:
		words = RESERVE_CALL(1);
		count = 1;
		break;
	case 2:
		words = RESERVE_CALL(2);
		count = 2;
		break;
	case 3:
		words = RESERVE_CALL(3);
		count = 3;
		break;
	case 4:
		words = RESERVE_CALL(4);
		count = 4;
		break;
	case 5:
		words = RESERVE_CALL(5);
		count = 5;
		break;
	default:
		words = RESERVE_CALL(6);
		count = 6;
	}
	/* Not to be made into a case of its own for each. */
	asm volatile("" : "+r"(count));
	if (!words) {
		note_lost(thread);
		return;
	}
	fill_call((struct pt_system_call_record *)words, thread, end, count);
	if (count > 0)
		words[6] = thread->arguments[0];
	if (count > 1)
		words[7] = thread->arguments[1];
	if (count > 2)
		words[8] = thread->arguments[2];
	if (count > 3)
		words[9] = thread->arguments[3];
	if (count > 4)
		words[10] = thread->arguments[4];
	if (count > 5)
		words[11] = thread->arguments[5];
	thread->lost = 0;
	submit(words);
}

static __always_inline void write_call(struct task_struct *task, struct system_thread *thread,
				       struct call_end *end)
{
	end->pid = tgid_of_known(task);
	end->tid = tid_of_known(task);
	if (thread->call_shape == PT_SYSTEM_CALL_IS_PLAIN)
		write_arguments(thread, end);
	else if (thread->call_shape != PT_SYSTEM_CALL_HAS_PATH || !write_path_call(thread, end))
		write_long_call(thread, end);
}

static __always_inline void begin_call(struct system_thread *thread, struct pt_system_call *facts,
				       __s64 number, __u8 abi, __u8 flags)
{
	thread->call = number;
	thread->call_abi = abi;
	thread->call_flags = flags;
	thread->call_arguments = facts->arguments;
	thread->call_facts = facts->flags;
	thread->call_shape = facts->shape;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread = known_thread(task->pid);
	struct pt_system_call *facts;
	__s64 number = id;
	__u8 abi;

	if (!thread || system_stopped)
		return 0;
	thread->fault_ns = 0; /* one that was not resolved */
	abi = abi_of(task, &number);
	facts = facts_of(abi, number);
	thread->may_be_in_call = 0;
	if (!facts || !facts->is_recorded)
		return 0;
	begin_call(thread, facts, number, abi, 0);
	read_arguments(regs, abi, thread->arguments);
	/* Before the call: it may close the file. */
	thread->call_file =
	    facts->fd ? id_of_descriptor(task, (__u32)argument_at(thread->arguments, facts->fd))
		      : 0;
	thread->call_ns = bpf_ktime_get_ns();
	return 0;
}

/* A call that the thread was in, on a CPU, when it began to be recorded. */
static __always_inline bool adopt_call(struct task_struct *task, struct system_thread *thread,
				       struct pt_regs *regs)
{
	__u64 since = thread->may_be_in_call;
	struct pt_system_call *facts;
	__s64 number = regs->orig_ax;
	__u8 abi = abi_of(task, &number);

	thread->may_be_in_call = 0;
	facts = facts_of(abi, number);
	if (!since || !facts || !facts->is_recorded)
		return false;
	begin_call(thread, facts, number, abi, PT_SYSTEM_OPEN_AT_BEGIN);
	thread->call_file = 0;
	read_arguments(regs, abi, thread->arguments);
	thread->call_ns = since;
	return true;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct call_end end = {.result = result};
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread = known_thread(task->pid);

	if (!thread || system_stopped)
		return 0;
	thread->fault_ns = 0;
	if (!thread->call_ns && !adopt_call(task, thread, regs))
		return 0;
	end.end_ns = bpf_ktime_get_ns();
	end.file = thread->call_file;
	if (result >= 0) {
		if (thread->call_facts & PT_SYSTEM_CALL_GIVES_FILE)
			end.file = id_of_descriptor(task, (__u32)result);
		else if (thread->call_facts & PT_SYSTEM_CALL_EXECS)
			end.file = id_of_file((__u64)BPF_CORE_READ(task, mm, exe_file));
		else if (thread->call_facts & PT_SYSTEM_CALL_RENAMES)
			__sync_fetch_and_add(&file_generation, 1);
	}
	write_call(task, thread, &end);
	thread->call_ns = 0;
	return 0;
}

/* Ends a call that its thread does not come back from, or not before the recording ends. */
static __always_inline void abandon_call(struct task_struct *task, struct system_thread *thread,
					 __u64 now, bool is_elsewhere)
{
	struct call_end end = {
	    .end_ns = now, .flags = PT_SYSTEM_UNFINISHED, .is_elsewhere = is_elsewhere};

	if (!thread->call_ns)
		return;
	end.file = thread->call_file;
	write_call(task, thread, &end);
	thread->call_ns = 0;
}

#endif
