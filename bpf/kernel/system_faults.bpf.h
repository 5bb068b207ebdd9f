/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records page faults. A tracepoint tells when a fault begins; the kernel's software counters,
 * which count the faults that were resolved, tell when it ends. */
#ifndef PROFTRACE_BPF_SYSTEM_FAULTS_H
#define PROFTRACE_BPF_SYSTEM_FAULTS_H

#include "bpf/kernel/system_files.bpf.h"
#include "bpf/kernel/system_sched.bpf.h"

#define FAULT_IS_WRITE 2 /* a bit of the CPU's error code */
#define USER_SPACE_END 0x0000800000000000ULL
#define VM_GROWSDOWN 0x100
#define PAGE_SHIFT 12

static __always_inline void begin_fault(__u64 address, __u64 error, __u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct system_thread *thread;

	/* While page faults are disabled, the kernel resolves none: a BPF program, for example, has
	 * tried to read memory that is not mapped. */
	if (system_stopped || address >= USER_SPACE_END || task->pagefault_disabled)
		return;
	thread = known_thread(task->pid);
	if (!thread)
		return;
	if (config_sched && (flags & PT_FAULT_IN_KERNEL))
		thread->fault_call = call_hash((struct pt_regs *)bpf_task_pt_regs(task));
	thread->fault_ns = bpf_ktime_get_ns();
	thread->fault_address = address;
	thread->fault_flags = flags | (error & FAULT_IS_WRITE ? PT_FAULT_WRITE : 0);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	begin_fault(address, error, 0);
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(on_fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error)
{
	begin_fault(address, error, PT_FAULT_IN_KERNEL);
	return 0;
}

struct fault_place {
	__u64 address;
	__u64 offset;
	__u64 file;
	__u8 area;
};

static long look_at_area(struct task_struct *task, struct vm_area_struct *area,
			 struct fault_place *place)
{
	struct mm_struct *mm = area->vm_mm;
	__u64 file = read_word((__u64)&area->vm_file);

	if (file) {
		place->area = PT_FAULT_FILE;
		place->file = file;
		place->offset = (area->vm_pgoff << PAGE_SHIFT) + (place->address - area->vm_start);
	} else if (area->vm_flags & VM_GROWSDOWN) {
		place->area = PT_FAULT_STACK;
	} else if (area->vm_start <= mm->brk && area->vm_end >= mm->start_brk) {
		place->area = PT_FAULT_HEAP;
	} else {
		place->area = PT_FAULT_ANONYMOUS;
	}
	return 0;
}

static __always_inline int end_fault(struct bpf_perf_event_data *ctx, __u8 major)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_fault_record record = {};
	struct fault_place place = {.address = ctx->addr};
	struct system_thread *thread;
	__u64 now = bpf_ktime_get_ns();
	__u64 begin;
	__u32 file = 0;

	if (system_stopped)
		return 0;
	thread = known_thread(task->pid);
	if (!thread || thread->awaits_exec)
		return 0;
	/* The counter's address may be that of the page or that of the byte, so only pages are
	 * compared. */
	begin = now;
	if (thread->fault_ns && (thread->fault_address ^ place.address) >> PAGE_SHIFT == 0) {
		begin = thread->fault_ns;
		place.address = thread->fault_address;
		record.fault_flags = thread->fault_flags;
	}
	thread->fault_ns = 0;
	bpf_find_vma(task, place.address, look_at_area, &place, 0);
	/* If only --activities io is given, only faults are recorded that read a part of a mapped
	 * file from a disk. */
	if (!config_faults && !(major && place.area == PT_FAULT_FILE))
		return 0;
	if (place.file)
		file = id_of_file(place.file);
	fill_system_head(&record.head, task, begin, file, 0, PT_FAULT, sizeof(record));
	record.duration_ns = now - begin;
	record.address = place.address;
	record.offset = place.offset;
	record.lost = thread->lost;
	record.area = place.area;
	record.fault_flags |= major;
	write_system(thread, &record, sizeof(record));
	return 0;
}

SEC("perf_event")
int on_minor_fault(struct bpf_perf_event_data *ctx)
{
	return end_fault(ctx, 0);
}

SEC("perf_event")
int on_major_fault(struct bpf_perf_event_data *ctx)
{
	return end_fault(ctx, PT_FAULT_MAJOR);
}

#endif
