/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records time off the CPU. It is noted when a thread leaves a CPU, and recorded when the thread
 * comes to one. */
#ifndef PROFTRACE_BPF_SYSTEM_SCHED_H
#define PROFTRACE_BPF_SYSTEM_SCHED_H

#include "bpf/kernel/system.bpf.h"
#include "bpf/kernel/system_waits.bpf.h"
#include "bpf/kernel/task_state.bpf.h"

#define TASK_RUNNING 0
#define TASK_DEAD 0x80

/* Returns the number of the system call that a thread is in; < 0: it is in none. The thread does
 * not run, or is in the kernel. */
static __always_inline __s32 call_of(struct task_struct *task, __u8 *abi)
{
	struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);
	__s64 number = at->orig_ax;

	*abi = PT_SYSTEM_X86_64;
	if (number < 0)
		return -1;
	*abi = abi_of(task, &number);
	return number < PT_SYSTEM_CALLS ? (__s32)number : -1;
}

/* Hashes the number, the arguments and the place of the call that a thread is in. */
static __always_inline __u32 call_hash(struct pt_regs *regs)
{
	__u64 hash = regs->orig_ax;

	hash = hash * 31 + regs->ip;
	hash = hash * 31 + regs->sp;
	hash = hash * 31 + regs->di;
	hash = hash * 31 + regs->si;
	hash = hash * 31 + regs->dx;
	hash = hash * 31 + regs->r10;
	hash = hash * 31 + regs->r8;
	hash = hash * 31 + regs->r9;
	return hash ^ hash >> 32;
}

/* Whether the fault that began last is still going on. A fault that fails (EFAULT, a signal) has no
 * event at its end. It has ended if the thread is now in another call than at the begin of a fault
 * in the kernel, or in any call after a fault outside of the kernel. */
static __always_inline bool is_in_fault(struct task_struct *task, struct system_thread *thread)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (!thread->fault_ns)
		return false;
	if (thread->fault_flags & PT_FAULT_IN_KERNEL)
		return thread->fault_call == call_hash(regs);
	return (__s64)regs->orig_ax < 0;
}

/* fcntl(2). */
#define FCNTL 72
#define F_SETLKW 7
#define F_OFD_SETLKW 38

static __always_inline bool waits_for_file_lock(struct pt_regs *regs, __s32 number)
{
	__u32 command = regs->si;

	return number == FCNTL && (command == F_SETLKW || command == F_OFD_SETLKW);
}

/* Numbers of poll(2) and select(2). */
#define POLL 7
#define PPOLL 271
#define SELECT 23
#define PSELECT6 270

/* Whether the call waits for no file, which is a way to sleep, and was Python's own before 3.11. */
static __always_inline bool waits_for_no_file(struct pt_regs *regs, __s32 number)
{
	if (number == POLL || number == PPOLL)
		return !(__u32)regs->si;
	if (number == SELECT || number == PSELECT6)
		return !(__u32)regs->di;
	return false;
}

/* Returns a flag of enum pt_off_cpu_flag, by the arguments of the call in which the thread waits; 0
 * = none. */
static __always_inline __u8 told_by_arguments(struct task_struct *task, __s32 number, __u8 abi)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (number < 0 || abi != PT_SYSTEM_X86_64)
		return 0;
	if (waits_for_file_lock(regs, number))
		return PT_OFF_CPU_FILE_LOCK;
	if (waits_for_no_file(regs, number))
		return PT_OFF_CPU_NO_FILE;
	return told_by_futex(regs, number);
}

/* Returns how long the thread's wake-up took, in ns, as head.sp of pt_off_cpu_record has it. */
static __always_inline __u32 wake_up_ns(const struct system_thread *thread)
{
	__u64 ns;

	if (!thread->waking_ns || thread->runnable_ns <= thread->waking_ns)
		return 0;
	ns = thread->runnable_ns - thread->waking_ns;
	return ns < 0xffffffff ? ns : 0xffffffff;
}

/* By how much the scheduler's clock is behind CLOCK_MONOTONIC, or a little more; 0 = not known. */
__u64 arrival_offset = 0;

/* Returns when the thread came to the CPU that it had last, by the scheduler's own note; 0 = not
 * known. */
static __always_inline __u64 arrival_ns(struct task_struct *task)
{
	if (!arrival_offset || !bpf_core_field_exists(task->sched_info.last_arrival))
		return 0;
	return task->sched_info.last_arrival + arrival_offset;
}

/* Returns how often the thread came to a CPU, by the scheduler's own count, which is exact and has
 * no clock; 0 = not known. */
static __always_inline __u32 arrivals_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->sched_info.pcount))
		return 0;
	return (__u32)BPF_CORE_READ(task, sched_info.pcount);
}

/* `is_in_call`: the thread is still in the system call in which it lost its CPU. */
static __always_inline void write_off_cpu(struct task_struct *task, struct system_thread *thread,
					  __u64 now, __u32 cpu, __u8 flags, bool is_in_call)
{
	struct pt_off_cpu_record record = {};
	__u64 runnable = thread->runnable_ns;

	fill_system_head(&record.head, task, thread->off_ns, wake_up_ns(thread), thread->off_cpu,
			 PT_OFF_CPU, sizeof(record));
	record.duration_ns = now > thread->off_ns ? now - thread->off_ns : 0;
	if (runnable && now > runnable)
		record.run_queue_ns = now - runnable;
	if (record.run_queue_ns > record.duration_ns)
		record.run_queue_ns = record.duration_ns;
	record.waker_pid = thread->waker_pid;
	record.waker_tid = thread->waker_tid;
	record.state = thread->off_state;
	record.call = thread->off_call;
	record.abi = thread->off_abi;
	if (unlikely(is_restart(record.abi, record.call))) {
		__u32 restarted = restarted_by(thread, task->pid);

		if (restarted)
			record.call = restarted;
	}
	record.cpu = cpu;
	record.lost = thread->lost;
	record.flags = flags | (thread->off_at_begin ? PT_SYSTEM_OPEN_AT_BEGIN : 0);
	/* The answer is noted in `thread`, not only in this record, because the wait may go on. */
	if (unlikely(thread->off_at_begin))
		take_answer(thread, task->pid);
	record.off_flags = thread->off_flags;
	record.lock = thread->off_lock;
	if (is_in_call && !(record.off_flags & PT_OFF_CPU_LOCK))
		record.off_flags |= told_by_arguments(task, record.call, record.abi);
	write_system(thread, &record, sizeof(record));
	thread->off_ns = 0;
	thread->off_at_begin = 0;
}

/* Writes the time off the CPU of a thread that has a CPU again, though the kernel did not tell of
 * the switch to it. Some kernels are silent where they switch away from certain threads. */
static __noinline int take_silent_arrival(struct task_struct *task, struct system_thread *thread,
					  __u64 now)
{
	__u64 at;
	__u8 abi;

	if (!thread)
		return 0;
	at = arrival_ns(task);
	if (at && at <= thread->off_ns && !thread->off_at_begin)
		at = thread->off_ns + 1; /* the offset is not exact */
	if (!at) {
		note_lost(thread);
	} else if (at > thread->off_ns) {
		write_off_cpu(task, thread, at < now ? at : now, bpf_get_smp_processor_id(), 0,
			      call_of(task, &abi) == thread->off_call);
	}
	thread->off_ns = 0; /* also where the thread had its CPU since before the begin */
	thread->off_at_begin = 0;
	thread->came_ns = 0;
	return 0;
}

static __always_inline void leave_cpu(struct task_struct *task, bool preempt, __u64 now)
{
	__u32 tid = task->pid;
	struct system_thread *thread = known_thread(tid);
	struct pt_regs *regs;
	__u64 voluntary;
	__s32 number;
	__u32 state;
	__u8 abi;

	if (!thread)
		return;
	state = state_of(task);
	if (state & TASK_DEAD) {
		forget_thread(tid);
		return;
	}
	if (thread->awaits_exec)
		return;
	if (unlikely(thread->off_ns))
		take_silent_arrival(task, thread, now);
	if (thread->came_ns)
		arrival_offset = thread->came_ns - task->sched_info.last_arrival;
	/* The call is noted, because a stop may interrupt it, and it then continues as
	 * restart_syscall. */
	number = call_of(task, &abi);
	if (number >= 0 && !is_restart(abi, number))
		thread->restarts = number;
	thread->off_call = number;
	thread->off_abi = abi;
	thread->arrivals = arrivals_of(task);
	voluntary = task->nvcsw;
	thread->off_ns = now;
	thread->off_state = preempt ? TASK_RUNNING : state;
	thread->off_flags = 0;
	thread->off_lock = PT_AWAITED_ANY;
	thread->off_at_begin = 0;
	thread->waker_pid = 0;
	thread->waker_tid = 0;
	thread->waking_ns = 0;
	if (voluntary != thread->voluntary)
		thread->off_flags |= PT_OFF_CPU_VOLUNTARY;
	thread->voluntary = voluntary;
	/* A thread whose state says that it may run was woken already, or is able to run on. For
	 * any other thread, the moment is noted when it is woken. */
	thread->runnable_ns = thread->off_state == TASK_RUNNING ? now : 0;
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		thread->off_flags |= PT_OFF_CPU_IO;
	if (config_faults && is_in_fault(task, thread))
		thread->off_flags |= PT_OFF_CPU_FAULT;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if (thread->off_state != TASK_RUNNING && number >= 0 && waits_for_word(regs, number, abi))
		note_python_lock(thread,
				 awaited_python_lock(waits_as_semaphore(regs, number, abi)));
	thread->off_cpu = bpf_get_smp_processor_id();
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_system_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	struct system_thread *thread;

	if (system_stopped)
		return 0;
	if (!(prev->flags & PF_KTHREAD))
		leave_cpu(prev, preempt, now);
	if (next->flags & PF_KTHREAD)
		return 0;
	thread = known_thread(next->pid);
	if (thread && thread->off_ns) {
		write_off_cpu(next, thread, now, bpf_get_smp_processor_id(), 0, true);
		thread->came_ns = now;
	}
	return 0;
}

/* Whether the current thread itself wakes another one, and not an interrupt: the thread is in a
 * system call, or is a thread of the kernel. If an interrupt comes during a system call, the thread
 * is taken for the waker. */
static __always_inline bool wakes_by_itself(struct task_struct *task)
{
	__u8 abi;

	return task->pid && ((task->flags & PF_KTHREAD) || call_of(task, &abi) >= 0);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_system_waking, struct task_struct *woken)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread;

	if (woken->flags & PF_KTHREAD)
		return 0;
	thread = known_thread(woken->pid);
	if (!thread || !thread->off_ns || thread->runnable_ns)
		return 0;
	if (!wakes_by_itself(task))
		return 0;
	thread->waking_ns = bpf_ktime_get_ns();
	thread->waker_pid = tgid_of_known(task);
	thread->waker_tid = tid_of_known(task);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_system_wakeup, struct task_struct *woken)
{
	struct system_thread *thread;

	if (woken->flags & PF_KTHREAD)
		return 0;
	thread = known_thread(woken->pid);
	if (thread && thread->off_ns && !thread->runnable_ns)
		thread->runnable_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_system_wakeup_new, struct task_struct *woken)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread;

	if ((woken->flags & PF_KTHREAD) || system_stopped)
		return 0;
	thread = known_thread(woken->pid);
	if (!thread)
		return 0;
	thread->off_ns = thread->runnable_ns = bpf_ktime_get_ns();
	thread->arrivals = arrivals_of(woken);
	thread->waking_ns = 0;
	thread->off_state = TASK_RUNNING;
	thread->off_flags = PT_OFF_CPU_NEW;
	thread->off_lock = PT_AWAITED_ANY;
	thread->off_call = -1;
	thread->off_cpu = bpf_get_smp_processor_id();
	thread->waker_pid = tgid_of_known(task);
	thread->waker_tid = tid_of_known(task);
	return 0;
}

#endif
