// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Records allocations and frees (--profile-memory), by entry probes in libc10. All arguments are in
 * registers, so no memory of the target is read.
 */
#include "bpf/shared/common.bpf.h"
#include "bpf/shared/python_objects.bpf.h"

/* Whether the thread's Python stack has been read before the record is written. */
#ifndef MEMORY_HAS_STACKS
#define MEMORY_HAS_STACKS() config_with_stack
#endif

/* Fills the head of a record; the block's address takes the place of stack pointer and site
 * (records.h). */
static __always_inline void fill_block_head(struct pt_record *head, __u64 address, __u8 kind,
					    __u32 bytes)
{
	fill_head(head, 0, (__u16)(address >> 32), kind, bytes);
	head->sp = (__u32)address;
}

/* Handles ProfiledCPUMemoryReporter::New(this, address, bytes). */
static __noinline int on_allocation(struct pt_regs *ctx)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_block_head(&record->head, PT_REGS_PARM2(ctx),
			MEMORY_HAS_STACKS() ? PT_STACKED_ALLOCATION : PT_ALLOCATION,
			sizeof(*record));
	record->value = PT_REGS_PARM3(ctx);
	submit(record);
	return 0;
}

/* Handles ProfiledCPUMemoryReporter::Delete(this, address). */
static __noinline int on_free(struct pt_regs *ctx)
{
	struct pt_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_block_head(record, PT_REGS_PARM2(ctx), MEMORY_HAS_STACKS() ? PT_STACKED_FREE : PT_FREE,
			sizeof(*record));
	submit(record);
	return 0;
}

/* Writes the record. `device` is a c10::Device by value: its type is in the low byte, its index
 * in the next one. */
static __always_inline int write_memory(__u64 sp, __u8 kind, __u64 address, __u64 bytes,
					__u64 allocated, __u64 device_reserved, __u64 device)
{
	struct pt_memory_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, sp, 0, kind, sizeof(*record));
	record->address = address;
	record->bytes = bytes;
	record->allocated = allocated;
	record->reserved = device_reserved;
	record->device_type = device;
	record->device_index = device >> 8;
	record->is_stacked = MEMORY_HAS_STACKS();
	__builtin_memset(record->reserved_bytes, 0, sizeof(record->reserved_bytes));
	submit(record);
	return 0;
}

#define CPU_DEVICE 0xff00 /* type 0, index -1 */

static __noinline int on_cpu_out_of_memory(struct pt_regs *ctx)
{
	return write_memory(PT_REGS_SP(ctx), PT_OUT_OF_MEMORY, 0, PT_REGS_PARM2(ctx), 0, 0,
			    CPU_DEVICE);
}

/* Handles device memory, and shared CPU memory (at::MapAllocator). While torch.profiler runs,
 * torch also reports here what New and Delete have recorded already; a reader leaves that out. */
static __noinline int on_device_memory(struct pt_regs *ctx)
{
	return write_memory(PT_REGS_SP(ctx), PT_DEVICE_MEMORY, PT_REGS_PARM1(ctx),
			    PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), PT_REGS_PARM4(ctx),
			    PT_REGS_PARM5(ctx));
}

/* Handles memory that could not be had. For the CPU, torch calls this only while torch.profiler
 * runs, after OutOfMemory has recorded the same. */
static __noinline int on_device_out_of_memory(struct pt_regs *ctx)
{
	__u64 device = PT_REGS_PARM4(ctx);

	if (!(device & 0xff))
		return 0;
	return write_memory(PT_REGS_SP(ctx), PT_OUT_OF_MEMORY, 0, PT_REGS_PARM1(ctx),
			    PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx), device);
}
