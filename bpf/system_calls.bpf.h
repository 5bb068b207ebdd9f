/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* System calls: noted when a thread enters one, told of when it leaves it. */
#ifndef PROFTRACE_BPF_SYSTEM_CALLS_H
#define PROFTRACE_BPF_SYSTEM_CALLS_H

#include "bpf/system_files.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pt_system_call_record);
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

/* The id of the directory that a relative path starts at. */
static __always_inline __u32 directory_id(struct task_struct *task, const __u64 *arguments,
					  __u8 place, __u64 path)
{
	char first = 0;

	if (bpf_probe_read_user(&first, 1, (void *)path) == 0 && first == '/')
		return 0;
	if (place && (__s32)argument_at(arguments, place) != AT_FDCWD)
		return id_of_descriptor(task, (__u32)argument_at(arguments, place));
	return id_of_current_directory(task);
}

static __always_inline void add_path(struct call_tail *tail, __u64 path, __u8 flag)
{
	__u32 at = tail->bytes;
	long got;

	if (at > PT_SYSTEM_TAIL_BYTES - PT_SYSTEM_PATH_BYTES)
		return;
	got = bpf_probe_read_user_str(tail->record->tail + at, PT_SYSTEM_PATH_BYTES, (void *)path);
	if (got <= 0) {
		tail->record->flags |= PT_SYSTEM_PATH_UNREAD;
		tail->record->tail[at] = 0;
		got = 1;
	} else if (got >= PT_SYSTEM_PATH_BYTES) {
		tail->record->flags |= PT_SYSTEM_PATH_CUT;
	}
	tail->record->flags |= flag;
	tail->bytes = at + ((__u32)got & 0x3ff);
}

struct call_end {
	__u64 end_ns;
	__s64 result;
	__u32 file;
	__u8 flags;	   /* enum pt_system_flag */
	__u8 is_elsewhere; /* another thread tells of it: its memory is not at hand */
};

static __always_inline void fill_call(struct pt_system_call_record *record,
				      struct task_struct *task, struct system_thread *thread,
				      struct call_end *end, __u8 arguments)
{
	fill_system_head(&record->head, task, thread->call_ns, end->file, thread->call,
			 PT_SYSTEM_CALL, 0);
	record->duration_ns = end->end_ns > thread->call_ns ? end->end_ns - thread->call_ns : 0;
	record->result = end->result;
	record->lost = thread->lost;
	record->abi = thread->call_abi;
	record->flags = thread->call_flags | end->flags;
	record->arguments = arguments;
	record->address_bytes = 0;
	record->path_bytes = 0;
}

/* A call with something that its arguments point to. */
static __noinline int write_long_call(struct task_struct *task, struct system_thread *thread,
				      struct call_end *end, struct pt_system_call *facts)
{
	__u32 zero = 0;
	struct pt_system_call_record *record = bpf_map_lookup_elem(&call_buffers, &zero);
	struct call_tail tail = {.record = record, .bytes = 48};
	bool succeeded = end->result >= 0 && !(end->flags & PT_SYSTEM_UNFINISHED);
	__u64 size;

	if (!record || !task || !thread || !end || !facts)
		return 0;
	fill_call(record, end->is_elsewhere ? task : NULL, thread, end, 6);
	__builtin_memcpy(record->tail, thread->arguments, 48);
	if (end->is_elsewhere) {
		if (facts->path)
			record->flags |= PT_SYSTEM_PATH_UNREAD;
		facts = NULL;
	}
	if (facts && facts->time)
		add_time(&tail, argument_at(thread->arguments, facts->time), facts->flags);
	if (facts && facts->address &&
	    (succeeded || !(facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS)))
		add_address(&tail, argument_at(thread->arguments, facts->address),
			    argument_at(thread->arguments, facts->address_bytes),
			    facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS);
	/* The memory of a program that is gone has nothing to read. */
	if (facts && facts->path && !(succeeded && (facts->flags & PT_SYSTEM_CALL_EXECS))) {
		__u64 first = argument_at(thread->arguments, facts->path);
		__u64 second =
		    facts->second_path ? argument_at(thread->arguments, facts->second_path) : 0;
		__u32 from = directory_id(task, thread->arguments, facts->directory, first);
		__u32 second_from = 0;
		__u32 begin;

		if (second)
			second_from =
			    directory_id(task, thread->arguments, facts->second_directory, second);
		add_words(&tail, from | (__u64)second_from << 32, 0);
		/* Two ids are one word. */
		tail.bytes -= 8;
		begin = tail.bytes;
		add_path(&tail, first, PT_SYSTEM_HAS_PATH);
		if (second)
			add_path(&tail, second, PT_SYSTEM_HAS_SECOND_PATH);
		record->path_bytes = tail.bytes - begin;
	}
	size = (PT_SYSTEM_CALL_HEAD_BYTES + tail.bytes + 7) & ~7ULL;
	record->head.words = size / 8;
	asm volatile("" : "+r"(size));
	if (size > sizeof(*record))
		return 0;
	return write_system(thread, record, size);
}

struct short_call {
	struct pt_record head;
	__u64 duration_ns;
	__s64 result;
	__u16 lost;
	__u8 abi;
	__u8 flags;
	__u8 arguments;
	__u8 address_bytes;
	__u16 path_bytes;
	__u64 tail[6];
};

static __always_inline void write_call(struct task_struct *task, struct system_thread *thread,
				       struct call_end *end)
{
	__u32 arguments = thread->call_arguments;
	struct short_call record;
	__u32 bytes;

	if (thread->call_is_long) {
		struct pt_system_call *facts = facts_of(thread->call_abi, thread->call);

		if (facts)
			write_long_call(task, thread, end, facts);
		return;
	}
	if (arguments > 6)
		arguments = 6;
	fill_call((struct pt_system_call_record *)&record, end->is_elsewhere ? task : NULL, thread,
		  end, arguments);
	__builtin_memcpy(record.tail, thread->arguments, 48);
	bytes = PT_SYSTEM_CALL_HEAD_BYTES + arguments * 8;
	record.head.words = bytes / 8;
	asm volatile("" : "+r"(bytes));
	if (bytes <= sizeof(record))
		write_system(thread, &record, bytes);
}

static __always_inline void begin_call(struct system_thread *thread, struct pt_system_call *facts,
				       __s64 number, __u8 abi, __u8 flags)
{
	thread->call = number;
	thread->call_abi = abi;
	thread->call_flags = flags;
	thread->call_arguments = facts->arguments;
	thread->call_facts = facts->flags;
	thread->call_is_long = (facts->path | facts->time | facts->address) != 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread = current_thread();
	struct pt_system_call *facts;
	__s64 number = id;
	__u8 abi;

	if (!thread || system_stopped)
		return 0;
	abi = abi_of(task, &number);
	facts = facts_of(abi, number);
	thread->may_be_in_call = 0;
	if (!facts || !wants_call(facts))
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
	if (!since || !facts || !wants_call(facts))
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
	struct system_thread *thread = current_thread();

	if (!thread || system_stopped)
		return 0;
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
