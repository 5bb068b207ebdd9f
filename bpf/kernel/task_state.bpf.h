/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Reads the state of a thread, by either of the names that kernels have for the field. */
#ifndef PROFTRACE_BPF_TASK_STATE_H
#define PROFTRACE_BPF_TASK_STATE_H

#include "bpf/shared/pid_namespace.bpf.h"

/* The struct before 5.14, in which the field was called `state`. */
struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

/* Returns the thread's state; 0 = it runs, or is able to run. */
static __always_inline __u32 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((struct task_struct___before_5_14 *)task, state);
}

#endif
