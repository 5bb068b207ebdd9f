/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records system calls, which are noted when a thread enters them, and recorded when it leaves
 * them. */
#ifndef PROFTRACE_BPF_SYSTEM_CALLS_H
#define PROFTRACE_BPF_SYSTEM_CALLS_H

#include "bpf/kernel/system_call_parts.bpf.h"
#include "bpf/kernel/system_sched.bpf.h"

struct call_end {
	__u64 end_ns;
	__s64 result;
	__u32 pid;
	__u32 tid;
	__u32 file;
	__u8 flags;	   /* enum pt_system_flag */
	__u8 is_elsewhere; /* another thread writes the record, and so cannot read the memory */
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

/* Adds the id of the file to which a call moves bytes, in place of a second path. */
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

/* Writes a call whose record has other data than its arguments. This is not static, so that it is
 * verified once, and not with each of its callers. */
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
		add_time(&tail, thread, facts);
	if (facts && facts->address &&
	    (succeeded || !(facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS)))
		add_address(&tail, value_at(buffer, thread->arguments, facts, facts->address),
			    value_at(buffer, thread->arguments, facts, facts->address_bytes),
			    facts->flags & PT_SYSTEM_CALL_FILLS_ADDRESS &&
				facts->address_bytes < PT_SYSTEM_FIRST_FIELD);
	/* After a successful exec, the memory of the earlier program is gone. */
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
			directories[0] = directory_of_path(thread, facts);
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
	barrier_var(size);
	if (size > sizeof(*record))
		return 0;
	return write_system(thread, record, size);
}

/* A path that has fewer bytes than this, with its NUL, is recorded in the next multiple of 16
 * bytes. */
#define SHORT_PATH_BYTES 64

#define RESERVE_PATH(count) reserve_room(PT_SYSTEM_CALL_HEAD_BYTES + 48 + 8 + (count)*8)

/* Writes a call whose arguments point to nothing but one path, if the path is short and can be
 * read. Returns whether the call was handled so, with or without room for it. This is not static,
 * so that it is verified once. */
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
		directory = directory_of_path(thread, facts);
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
	barrier_var(count);
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

/* Writes a call that has no other data than its arguments. The record is made in the ring itself.
 * reserve_room() needs sizes that are known at compile time; the rest of the code is the same for
 * all sizes, so that little code takes up the processor's cache. */
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
	/* This keeps the compiler from making separate code for each count. */
	barrier_var(count);
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
	if (unlikely(is_restart(thread->call_abi, thread->call)))
		thread->arguments[0] = restarted_by(thread, task->pid);
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
	thread->call_has_time = 0;
	thread->call_directory = 0;
}

static __always_inline void enter_call(struct task_struct *task, struct system_thread *thread,
				       struct pt_system_call *facts, struct pt_regs *regs,
				       __s64 number, __u8 abi)
{
	begin_call(thread, facts, number, abi, 0);
	read_arguments(regs, thread->arguments);
	/* The file is looked up before the call, which may close it. */
	thread->call_file =
	    facts->fd ? id_of_descriptor(task, (__u32)argument_at(thread->arguments, facts->fd))
		      : 0;
	if (unlikely(facts->directory == PT_SYSTEM_DIRECTORY_AT_BEGIN))
		thread->call_directory = id_of_current_directory(task);
	if (unlikely(facts->time & PT_SYSTEM_TIME_IS_LEFT))
		thread->call_has_time =
		    read_time(thread->call_time,
			      argument_at(thread->arguments, facts->time & ~PT_SYSTEM_TIME_IS_LEFT),
			      facts->flags);
	thread->call_ns = bpf_ktime_get_ns();
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
	thread->fault_ns = 0; /* if a fault was noted, it was not resolved */
	abi = abi_of(task, &number);
	facts = facts_of(abi, number);
	thread->may_be_in_call = 0;
	if (!facts || !facts->is_recorded)
		return 0;
	if (unlikely(thread->awaits_exec) && !(facts->flags & PT_SYSTEM_CALL_EXECS))
		return 0;
	enter_call(task, thread, facts, regs, number, abi);
	return 0;
}

#define LAST_ERRNO 4095
#define ERESTART_RESTARTBLOCK 516
#define SIGKILL_BIT (1 << 8)

/* Adopts a call whose begin was not seen: either the thread was in the call, on a CPU, when its
 * recording began, or a filter (seccomp) has refused the call. Returns whether the call is
 * recorded. */
static __always_inline bool adopt_call(struct task_struct *task, struct system_thread *thread,
				       struct pt_regs *regs, long result)
{
	__u64 since = thread->may_be_in_call;
	struct pt_system_call *facts;
	__s64 number = regs->orig_ax;
	__u8 abi = abi_of(task, &number);

	thread->may_be_in_call = 0;
	facts = facts_of(abi, number);
	if (!facts || !facts->is_recorded)
		return false;
	if (!since) {
		if (result >= 0 || result < -LAST_ERRNO || thread->awaits_exec)
			return false;
		/* A debugger stops a thread before the call itself. If the thread is killed in that
		 * stop, the call never began. */
		if (task->pending.signal.sig[0] & SIGKILL_BIT)
			return false;
		enter_call(task, thread, facts, regs, number, abi);
		return true;
	}
	begin_call(thread, facts, number, abi, PT_SYSTEM_OPEN_AT_BEGIN);
	thread->call_file = 0;
	read_arguments(regs, thread->arguments);
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
	if (config_sched && unlikely(thread->off_ns))
		take_silent_arrival(task, thread, bpf_ktime_get_ns());
	if (unlikely(thread->awaits_exec)) /* exec has failed */
		thread->call_ns = 0;
	/* The time is taken here, because a refused call begins only in adopt_call(), and so has no
	 * duration. */
	end.end_ns = bpf_ktime_get_ns();
	if (!thread->call_ns && !adopt_call(task, thread, regs, result))
		return 0;
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
	if (unlikely(result == -ERESTART_RESTARTBLOCK) &&
	    !is_restart(thread->call_abi, thread->call))
		thread->restarts = thread->call;
	thread->call_ns = 0;
	return 0;
}

/* Ends a call from which its thread does not return, or not before the recording ends. */
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
