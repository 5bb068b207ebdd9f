// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Records forks, execs and exits of the recorded processes. The loader is woken at once, because it
 * opens links with a PID for children.
 */
#include "bpf/shared/common.bpf.h"

const volatile bool config_follow_children = true;

SEC("raw_tp/sched_process_fork")
int on_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	__u32 parent_tgid = current_tgid();
	__u32 child_tgid = tgid_of(child);
	struct pt_fork_record *record;
	bool shares_memory;
	__u8 one = 1;

	if (child_tgid == parent_tgid || !config_follow_children)
		return 0;
	if (!bpf_map_lookup_elem(&traced, &parent_tgid))
		return 0;
	bpf_map_update_elem(&traced, &child_tgid, &one, BPF_ANY);
	record = reserve(sizeof(*record));
	if (!record) {
		count_drop(PT_DROP_FORK);
		return 0;
	}
	shares_memory = BPF_CORE_READ(parent, mm) == BPF_CORE_READ(child, mm);
	fill_head(&record->head, 0, shares_memory, PT_FORK, sizeof(*record));
	record->child_pid = child_tgid;
	record->child_tid = tid_of(child);
	submit_and_wake(record);
	return 0;
}

/* Forgets the thread's losses, because no record of the thread can follow that announces them. */
static __always_inline void forget_losses(__u32 tid)
{
	if (bpf_map_delete_elem(&lost_by_thread, &tid) == 0)
		__sync_fetch_and_add(&threads_with_losses, -1);
}

SEC("raw_tp/sched_process_exec")
int on_process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = current_tgid();
	struct pt_record *record;

	if (!bpf_map_lookup_elem(&traced, &tgid))
		return 0;
	/* The thread that called exec may have had another id before, which is free now. */
	forget_autograd_thread((__u32)bpf_get_current_pid_tgid());
	forget_autograd_thread((__u32)ctx->args[1]);
	forget_losses((__u32)ctx->args[1]);
	if (config_with_stack)
		forget_python_thread();
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(record, 0, 0, PT_EXEC, sizeof(*record));
	submit_and_wake(record);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int on_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tgid = current_tgid();
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct pt_exit_record *record;
	bool group_dead;

	/* If several threads end at once, another one may have removed the process already. */
	forget_autograd_thread(tid);
	if (!bpf_map_lookup_elem(&traced, &tgid)) {
		if (threads_with_losses)
			forget_losses(tid);
		return 0;
	}
	if (config_with_stack)
		forget_python_thread();
	/* When the tracepoint is reached, the count of live threads does not include this thread
	 * any more. */
	group_dead = BPF_CORE_READ(task, signal, live.counter) == 0;
	/* The process is removed even if the record has no room, because another process may get
	 * its number soon. */
	if (group_dead)
		bpf_map_delete_elem(&traced, &tgid);
	record = reserve(sizeof(*record));
	if (!record) {
		if (group_dead)
			count_drop(PT_DROP_EXIT);
		forget_losses(tid);
		return 0;
	}
	fill_head(&record->head, 0, 0, PT_THREAD_EXIT, sizeof(*record));
	record->group_dead = group_dead;
	record->exit_code = (__u32)BPF_CORE_READ(task, exit_code);
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	submit_and_wake(record);
	return 0;
}
