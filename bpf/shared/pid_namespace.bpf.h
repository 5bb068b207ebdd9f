/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The part with which each of our BPF programs begins: the kernel's types, and ids as the tracer
 * sees them. */
#ifndef PROFTRACE_BPF_PID_NAMESPACE_H
#define PROFTRACE_BPF_PID_NAMESPACE_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* libbpf has no names for these before 0.7 and 0.6, and tells no version of its own before 0.6. */
#if __has_include(<bpf/libbpf_version.h>)
#include <bpf/libbpf_version.h>
#endif
#if !defined(LIBBPF_MAJOR_VERSION) || (LIBBPF_MAJOR_VERSION == 0 && LIBBPF_MINOR_VERSION < 7)
/* These are macros, because some of those versions have some of the names. */
#define bpf_loop(iterations, callback, context, flags)                                             \
	((long (*)(__u32, void *, void *, __u64))BPF_FUNC_loop)(iterations, callback, context,     \
								flags)
#define bpf_find_vma(task, address, callback, context, flags)                                      \
	((long (*)(struct task_struct *, __u64, void *, void *, __u64))BPF_FUNC_find_vma)(         \
	    task, address, callback, context, flags)
#define bpf_task_pt_regs(task) ((long (*)(struct task_struct *))BPF_FUNC_task_pt_regs)(task)
#endif

#ifndef bpf_core_field_offset
#define bpf_core_field_offset(field) __builtin_preserve_field_info(field, BPF_FIELD_BYTE_OFFSET)
#endif

/* Makes the compiler keep a number in one register. It must stand before the test of the number's
 * bound, so that the same register is compared and used, with all 64 bits: the verifier learns a
 * bound of one register only. */
#ifndef barrier_var
#define barrier_var(var) asm volatile("" : "+r"(var))
#endif

#ifndef likely /* libbpf has these from 1.6 on */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* The depth of the tracer's PID namespace, 0 = the initial one. The ids in records, and tgids in
 * keys of maps, are those that the tracer sees. Thread ids in keys are the kernel's. */
__u32 pidns_level = 0;

/* The kernel's address of the PID namespace itself; 0 = not known, and not compared. */
__u64 pidns = 0;

static __always_inline __u32 nr_in_namespace(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = pidns_level;
	struct upid number;

	/* Processes outside of the tracer's namespace have no number in it. */
	if (BPF_CORE_READ(pid, level) < level ||
	    bpf_core_read(&number, sizeof(number), &pid->numbers[level]))
		return 0;
	return pidns && (__u64)number.ns != pidns ? 0 : number.nr;
}

static __always_inline __u32 tid_of(struct task_struct *task)
{
	return pidns_level ? nr_in_namespace(task) : BPF_CORE_READ(task, pid);
}

static __always_inline __u32 tgid_of(struct task_struct *task)
{
	return pidns_level ? nr_in_namespace(BPF_CORE_READ(task, group_leader))
			   : BPF_CORE_READ(task, tgid);
}

static __always_inline __u32 current_tgid(void)
{
	if (unlikely(pidns_level))
		return tgid_of((struct task_struct *)bpf_get_current_task());
	return bpf_get_current_pid_tgid() >> 32;
}

/* The loader runs this program once, in its own process, to find its PID namespace. */
SEC("raw_tp/proftrace")
int read_pidns_level(void *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	struct upid number = {};

	if (level && !bpf_core_read(&number, sizeof(number), &pid->numbers[level]))
		pidns = (__u64)number.ns;
	pidns_level = level;
	return 0;
}

#endif
