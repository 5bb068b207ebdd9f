/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The parts that the programs for system activity share. These programs have a ring of their own,
 * so that many system calls take no room from operators. */
#ifndef PROFTRACE_BPF_SYSTEM_H
#define PROFTRACE_BPF_SYSTEM_H

#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/shared/ring.bpf.h"
#include "bpf/abi/system_records.h"

/* Values of the map `watched`. */
#define WATCHED 1
#define WATCHED_FROM_EXEC 2 /* activity before its next exec is not recorded */

/* Processes that are recorded. Key: the tgid in the tracer's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u8);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PT_SYSTEM_CALLS + 1);
	__type(key, __u32);
	__type(value, struct pt_system_call);
} system_calls SEC(".maps");

/* The activity that a thread is in. */
struct system_thread {
	__u32 tid;	  /* 0 = a free place */
	__u32 has_others; /* other threads of this place are in the hash map */
	/* The fields that each system call needs are side by side, in few cache lines. */
	/* When the call began; 0 = the thread is in no system call, or in none that is recorded. */
	__u64 call_ns;
	__u64 may_be_in_call; /* not 0: when the recording of the thread began, while it ran. It is
			       * known only when it leaves a call whether it was in one then */
	__u64 fault_ns;	      /* when the page fault began; 0 = there is none */
	__u16 lost;
	__u16 restarts; /* the last call that restart_syscall may continue */
	__u32 call_file;
	__u16 call;
	__u8 call_abi;
	__u8 call_flags;     /* enum pt_system_flag */
	__u8 call_arguments; /* pt_system_call.arguments */
	__u8 call_facts;     /* pt_system_call.flags */
	__u8 call_shape;     /* enum pt_system_call_shape */
	__u8 call_has_time;  /* call_time holds a time */
	__u8 awaits_exec;    /* the process is WATCHED_FROM_EXEC and has not called exec yet */
	__u8 off_lock;	     /* enum pt_awaited_lock: the lock that it waits for since off_ns */
	__u8 off_abi;	     /* of off_call */
	__u8 reserved;
	__u32 call_directory; /* the id of the directory for PT_SYSTEM_DIRECTORY_AT_BEGIN */
	__u64 arguments[6];
	__u64 call_time[2]; /* with PT_SYSTEM_TIME_IS_LEFT: the time at the call's begin */

	__u64 off_ns;	   /* when it lost its CPU; 0 = it has one */
	__u64 runnable_ns; /* when it became able to run; 0 = it is not able to yet */
	union {
		__u64 waking_ns; /* when a thread woke it; 0 = none has */
		__u64 came_ns;	 /* while it has a CPU: when it was seen to get it; 0 = never */
	};
	__u32 waker_pid;
	__u32 waker_tid;
	__u32 off_state;
	__u16 off_cpu;
	__u8 off_flags;	   /* enum pt_off_cpu_flag */
	__u8 off_at_begin; /* it had no CPU when its recording began */
	__u64 voluntary;   /* task_struct.nvcsw at the last look */
	__s32 off_call;	   /* the system call that it was in when it lost its CPU; < 0: in none */
	__u32 arrivals;	   /* arrivals_of() when it lost its CPU */

	__u64 fault_address;
	__u32 fault_flags; /* enum pt_fault_flag */
	__u32 fault_call;  /* of a fault in the kernel: call_hash() at its begin */
};

/* The fields from here on are about the thread; those before are about its place. */
#define THREAD_FACTS __builtin_offsetof(struct system_thread, call_ns)

/* All threads of the watched processes, and no others. A thread is added when it is created, or
 * when the recording of its process begins. A thread's place is the remainder of its tid (the
 * kernel's). This is an array, because the lookup in an array is not a call. */
#define THREAD_PLACES 8192

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREAD_PLACES);
	__type(key, __u32);
	__type(value, struct system_thread);
} system_threads SEC(".maps");

/* The threads whose place in system_threads was in use by another thread when they were added. Key:
 * the kernel's tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768); /* set by the loader */
	__type(key, __u32);
	__type(value, struct system_thread);
} other_threads SEC(".maps");

/* Threads that were in restart_syscall when their recording began. Key: the kernel's tid. */
struct restarted_call {
	__u32 pid;
	__u32 tid;
	__u32 abi;  /* enum pt_system_abi */
	__u32 call; /* the call that is continued, as the loader tells; 0 = not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct restarted_call);
} restarted_calls SEC(".maps");

/* The numbers of records and of threads for which there was no room. */
__u64 system_lost = 0;
__u64 system_threads_lost = 0;
/* Set by the loader at the end of the recording. */
__u32 system_stopped = 0;

const volatile bool config_sched = false;
const volatile bool config_faults = false;
const volatile bool config_children = true;

#define PF_KTHREAD 0x00200000
#define EEXIST 17

static __always_inline bool is_watched(__u32 tgid)
{
	return bpf_map_lookup_elem(&watched, &tgid) != NULL;
}

static __always_inline struct system_thread *place_of(__u32 tid)
{
	__u32 place = tid % THREAD_PLACES;

	return bpf_map_lookup_elem(&system_threads, &place);
}

static __always_inline struct system_thread *known_thread(__u32 tid)
{
	struct system_thread *place = place_of(tid);

	if (!place)
		return NULL;
	if (likely(place->tid == tid))
		return place;
	return unlikely(place->has_others) ? bpf_map_lookup_elem(&other_threads, &tid) : NULL;
}

/* Adds a thread, if it is not known yet. */
static __always_inline void add_thread(__u32 tid)
{
	struct system_thread *place = place_of(tid);
	struct system_thread thread = {.tid = tid};
	__u32 owner;
	long error;

	if (!place)
		return;
	owner = __sync_val_compare_and_swap(&place->tid, 0, tid);
	if (owner == 0 || owner == tid)
		return;
	place->has_others = 1;
	error = bpf_map_update_elem(&other_threads, &tid, &thread, BPF_NOEXIST);
	if (error && error != -EEXIST)
		__sync_fetch_and_add(&system_threads_lost, 1);
}

/* Forgets a thread. The fields of its place are cleared, because add_thread() does not do it. */
static __always_inline void forget_thread(__u32 tid)
{
	struct system_thread *place = place_of(tid);

	if (!place)
		return;
	if (place->tid != tid) {
		if (place->has_others)
			bpf_map_delete_elem(&other_threads, &tid);
		return;
	}
	__builtin_memset((void *)place + THREAD_FACTS, 0, sizeof(*place) - THREAD_FACTS);
	__sync_val_compare_and_swap(&place->tid, tid, 0);
}

/* Does what tid_of() does for a `task` whose type the verifier knows, by plain loads. */
static __always_inline __u32 tid_of_known(struct task_struct *task)
{
	return unlikely(pidns_level) ? nr_in_namespace(task) : task->pid;
}

static __always_inline __u32 tgid_of_known(struct task_struct *task)
{
	return unlikely(pidns_level) ? nr_in_namespace(task->group_leader) : task->tgid;
}

static __always_inline void fill_system_head(struct pt_record *record, struct task_struct *task,
					     __u64 time_ns, __u32 sp, __u16 site, __u8 kind,
					     __u32 bytes)
{
	record->time_ns = time_ns;
	record->pid = tgid_of_known(task);
	record->tid = tid_of_known(task);
	record->sp = sp;
	record->site = site;
	record->kind = kind;
	record->words = bytes / 8;
}

static __always_inline void note_lost(struct system_thread *thread)
{
	__sync_fetch_and_add(&system_lost, 1);
	if (thread->lost < 0xffff)
		thread->lost += 1;
}

/* Puts the record into the ring, or counts it as lost. Returns whether there was room. `size`: at
 * most the size of the object. */
static __always_inline int write_system(struct system_thread *thread, void *record, __u64 size)
{
	if (copy_record(record, size)) {
		if (unlikely(thread->lost))
			thread->lost = 0;
		return 1;
	}
	note_lost(thread);
	return 0;
}

/* TS_COMPAT is a flag of task_struct.thread_info.status (arch/x86/include/asm/thread_info.h);
 * X32_SYSCALL_BIT marks the numbers of x32's calls. */
#define TS_COMPAT 0x0002
#define X32_SYSCALL_BIT 0x40000000

static __always_inline __u8 abi_of(struct task_struct *task, __s64 *number)
{
	if (task->thread_info.status & TS_COMPAT)
		return PT_SYSTEM_I386;
	if (*number >= 0 && (*number & X32_SYSCALL_BIT)) {
		*number &= ~(__s64)X32_SYSCALL_BIT;
		return PT_SYSTEM_X32;
	}
	return PT_SYSTEM_X86_64;
}

/* Whether the call is restart_syscall, which continues a call with a time limit after a signal
 * or a stop. */
static __always_inline bool is_restart(__u8 abi, __s64 number)
{
	return abi == PT_SYSTEM_X86_64 && number == 219;
}

/* Returns the call that a thread in restart_syscall continues; 0 = not known. */
static __always_inline __u32 restarted_by(struct system_thread *thread, __u32 tid)
{
	struct restarted_call *at_begin;

	if (thread->restarts)
		return thread->restarts;
	at_begin = bpf_map_lookup_elem(&restarted_calls, &tid);
	return at_begin ? at_begin->call : 0;
}

static __always_inline struct pt_system_call *facts_of(__u8 abi, __s64 number)
{
	__u32 key = abi == PT_SYSTEM_X86_64 ? (__u32)number : PT_SYSTEM_FOREIGN_CALL;

	if (number < 0 || number >= PT_SYSTEM_CALLS)
		return NULL;
	return bpf_map_lookup_elem(&system_calls, &key);
}

#endif
