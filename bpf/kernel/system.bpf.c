// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Records --activities syscalls,io,sched,faults: system calls, time off the CPU, page faults and
 * requests of io_uring. Each of them is one record, which is written when it is over. Children and
 * threads of a process are recorded from their first moment on.
 */
#include "bpf/kernel/system_calls.bpf.h"
#include "bpf/kernel/system_faults.bpf.h"
#include "bpf/kernel/system_requests.bpf.h"
#include "bpf/kernel/system_sched.bpf.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_system_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = tgid_of(parent);
	__u32 child_tgid = tgid_of(child);
	__u32 tid = child->pid;
	__u8 watch = WATCHED;
	struct pt_waiting_python *python;

	if (system_stopped || !is_watched(parent_tgid))
		return 0;
	if (child_tgid != parent_tgid) {
		if (!config_children)
			return 0;
		bpf_map_update_elem(&watched, &child_tgid, &watch, BPF_ANY);
		/* The child's memory is a copy of its parent's. */
		python = bpf_map_lookup_elem(&waiting_pythons, &parent_tgid);
		if (python)
			bpf_map_update_elem(&waiting_pythons, &child_tgid, python, BPF_ANY);
	}
	/* The id may have been another thread's before. */
	forget_thread(tid);
	add_thread(tid);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_system_exec, struct task_struct *task, pid_t old_pid)
{
	__u32 tid = task->pid;
	__u32 old_tid = old_pid;
	__u32 tgid = tgid_of(task);
	struct system_thread *caller, *first;

	if (!is_watched(tgid))
		return 0;
	bpf_map_delete_elem(&waiting_pythons, &tgid);
	caller = known_thread(old_tid);
	if (caller)
		caller->awaits_exec = 0;
	if (old_tid == tid)
		return 0;
	/* A thread that was not the process's first one has the first one's id after exec. */
	if (!caller)
		return 0;
	add_thread(tid);
	first = known_thread(tid);
	if (first)
		__builtin_memcpy((void *)first + THREAD_FACTS, (void *)caller + THREAD_FACTS,
				 sizeof(*first) - THREAD_FACTS);
	forget_thread(old_tid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_system_exit, struct task_struct *task)
{
	__u32 tid = task->pid;
	struct system_thread *thread = known_thread(tid);
	__u32 tgid = tgid_of(task);

	if (thread && !system_stopped)
		abandon_call(task, thread, bpf_ktime_get_ns(), false);
	/* If the scheduler is recorded, the thread is still needed: leave_cpu() forgets it at its
	 * last moment. */
	if (!config_sched)
		forget_thread(tid);
	bpf_map_delete_elem(&begun_waits, &tid);
	if (BPF_CORE_READ(task, signal, live.counter) == 0) {
		bpf_map_delete_elem(&watched, &tgid);
		bpf_map_delete_elem(&waiting_pythons, &tgid);
	}
	return 0;
}

static __always_inline __u64 switches_of(struct task_struct *task)
{
	return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

static __always_inline void ask_for_restarted(struct task_struct *task, __u8 abi)
{
	struct restarted_call asked = {.pid = tgid_of(task), .tid = tid_of(task), .abi = abi};
	__u32 tid = BPF_CORE_READ(task, pid);

	bpf_map_update_elem(&restarted_calls, &tid, &asked, BPF_ANY);
}

/* Notes the system call and the wait that a thread is in. The thread must not run. */
static __always_inline void find_rest(struct task_struct *task, struct system_thread *thread,
				      __u64 now)
{
	__u32 state = state_of(task);
	struct pt_system_call *facts;
	__s32 number;
	__u8 abi;

	number = call_of(task, &abi);
	if (is_restart(abi, number))
		ask_for_restarted(task, abi);
	facts = facts_of(abi, number);
	if (facts && facts->is_recorded) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

		read_arguments(regs, thread->arguments);
		begin_call(thread, facts, number, abi, PT_SYSTEM_OPEN_AT_BEGIN);
		thread->call_file =
		    facts->fd
			? id_of_descriptor(task, (__u32)argument_at(thread->arguments, facts->fd))
			: 0;
		thread->call_ns = now;
	}
	if (!config_sched)
		return;
	thread->off_at_begin = 1;
	thread->arrivals = arrivals_of(task);
	thread->off_state = state;
	thread->runnable_ns = state == TASK_RUNNING ? now : 0;
	thread->off_cpu = BPF_CORE_READ(task, thread_info.cpu);
	thread->off_flags = PT_OFF_CPU_VOLUNTARY;
	thread->off_lock = PT_AWAITED_ANY;
	thread->off_call = number;
	thread->off_abi = abi;
	if (state != TASK_RUNNING && number >= 0) {
		struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);

		if (waits_as_semaphore(at, number, abi))
			ask_for_wait(task);
	}
	thread->off_ns = now;
}

/* Adds a thread to those that are recorded, and notes the activity that the thread is in. */
static __always_inline void find_begun(struct task_struct *task, __u8 watch)
{
	__u64 switches = switches_of(task);
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = BPF_CORE_READ(task, pid);
	struct system_thread *thread;

	if (known_thread(tid))
		return;
	add_thread(tid);
	thread = known_thread(tid);
	if (!thread)
		return;
	thread->voluntary = BPF_CORE_READ(task, nvcsw);
	if (watch == WATCHED_FROM_EXEC) {
		thread->awaits_exec = 1;
		return;
	}
	if (BPF_CORE_READ(task, on_cpu)) {
		thread->may_be_in_call = now;
		return;
	}
	find_rest(task, thread, now);
	/* If the thread has run meanwhile, nothing that was found is certain. */
	if (BPF_CORE_READ(task, on_cpu) || switches_of(task) != switches) {
		thread->may_be_in_call = now;
		thread->call_ns = 0;
		thread->off_ns = 0;
		thread->came_ns = 0;
		thread->off_at_begin = 0;
	}
}

__u32 iterated_tgid = 0; /* 0 = all */

SEC("iter/task")
int find_begun_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 tgid;
	__u8 *watch;

	if (!task || (BPF_CORE_READ(task, flags) & PF_KTHREAD))
		return 0;
	tgid = tgid_of(task);
	if (iterated_tgid && tgid != iterated_tgid)
		return 0;
	watch = bpf_map_lookup_elem(&watched, &tgid);
	if (watch)
		find_begun(task, *watch);
	return 0;
}

/* Writes the wait that a thread is in, up to now. This is not inline, so that its record is not on
 * the stack below the data of a system call. */
static __noinline int tell_open_wait(struct task_struct *task, struct system_thread *thread,
				     __u64 now)
{
	if (!thread)
		return 0;
	write_off_cpu(task, thread, now, thread->off_cpu, PT_SYSTEM_UNFINISHED, true);
	if (thread->runnable_ns)
		thread->runnable_ns = now;
	thread->off_flags &= ~PT_OFF_CPU_VOLUNTARY;
	thread->off_at_begin = 1;
	thread->off_ns = now;
	return 0;
}

/* Writes the activities that threads are in, up to now: at the end of the recording, and when
 * somebody looks at the records so far. After that, each activity counts as if it had begun now. */
SEC("iter/task")
int tell_open_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 now = bpf_ktime_get_ns();
	struct system_thread *thread;
	__u64 call_ns;

	if (!task || (BPF_CORE_READ(task, flags) & PF_KTHREAD) || !is_watched(tgid_of(task)))
		return 0;
	thread = known_thread(BPF_CORE_READ(task, pid));
	if (!thread)
		return 0;
	if (thread->off_ns && arrivals_of(task) != thread->arrivals)
		take_silent_arrival(task, thread, now);
	if (thread->off_ns)
		tell_open_wait(task, thread, now);
	call_ns = thread->call_ns;
	abandon_call(task, thread, now, true);
	if (call_ns) {
		thread->call_flags |= PT_SYSTEM_OPEN_AT_BEGIN;
		thread->call_ns = now;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
