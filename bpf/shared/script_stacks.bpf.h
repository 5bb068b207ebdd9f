/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records which code TorchScript's interpreter runs when a row begins (--with-modules). The code is
 * found as torch itself finds it (InterpreterStateImpl::moduleHierarchy,
 * torch/csrc/jit/runtime/interpreter.cpp), by a variable of the thread. A thread's interpreter does
 * not change while it runs an operator. The loader reads the names behind the addresses.
 */
#ifndef PROFTRACE_BPF_SCRIPT_STACKS_H
#define PROFTRACE_BPF_SCRIPT_STACKS_H

#include "bpf/abi/script_records.h"
#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/python_stacks.bpf.h"

/* Key: tgid. Filled by the loader, for processes whose interpreter it knows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pt_script_layout);
} script_layouts SEC(".maps");

/* Code in a job knows by its layout whether modules are recorded. */
#ifndef config_with_modules
const volatile bool config_with_modules = false;
#endif

/* The begin of a frame: a std::shared_ptr to its code, and the number of its instruction. */
struct script_frame_head {
	__u64 code;
	__u64 owner;
	__u64 instruction;
};

/* Whether torch asks for the modules of a row of this role, which it does not for autograd nodes
 * and ranges. */
static __always_inline bool has_script(__u8 role)
{
	return begins_row(role) && role != PT_ROLE_NODE_BEGIN && role != PT_ROLE_PLACED_NODE &&
	       role != PT_ROLE_RANGE_PUSH && role != PT_ROLE_RANGE_MARK;
}

/* Returns the address of the thread's variable, or a code of variable_address(). A job's own
 * threads look for the address each time, because it is valid only while the thread runs. */
static __always_inline __u64 script_variable(const struct pt_script_layout *layout)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
#ifndef PYTHON_TABLES_ARE_OF_THREADS
	struct python_thread *thread = this_python_thread();
	__u64 place;

	if (thread && thread->script_variable)
		return thread->script_variable;
	place = variable_address(BPF_CORE_READ(task, thread.fsbase), &layout->state);
	if (thread && place > VARIABLE_UNREADABLE)
		thread->script_variable = place;
	return place;
#else
	return variable_address(BPF_CORE_READ(task, thread.fsbase), &layout->state);
#endif
}

/* Returns the node of the instruction that the frame runs; 0: it could not be read. `before`: 1 for
 * a frame that has called another one, because its number has moved on to the next instruction
 * already; else 0. */
static __noinline __u64 script_node(const struct pt_script_layout *layout,
				    const struct script_frame_head *head, __u32 before)
{
	__u64 nodes[2];
	__u64 number;
	__u64 node = 0;

	if (!layout || !head)
		return 0;
	number = head->instruction - before;
	if (bpf_probe_read_user(nodes, sizeof(nodes), (void *)(head->code + layout->code_nodes)) ||
	    nodes[1] < nodes[0] || number >= (nodes[1] - nodes[0]) / 8 ||
	    bpf_probe_read_user(&node, sizeof(node), (void *)(nodes[0] + 8 * number)))
		return 0;
	return node;
}

/* Reads `count` frames from `address` on. Returns whether all of them could be read. */
static __noinline int read_script_frames(const struct pt_script_layout *layout, __u64 address,
					 struct pt_script_record *record, __u32 count)
{
	struct script_frame_head head;

	if (!layout || !record)
		return 0;
	for (__u32 i = 0; i < PT_SCRIPT_MOST_FRAMES; ++i) {
		if (i >= count)
			break;
		if (bpf_probe_read_user(&head, sizeof(head), (void *)address))
			return 0;
		record->frames[i].code = head.code;
		record->frames[i].node = script_node(layout, &head, i + 1 < count);
		if (!record->frames[i].node)
			return 0;
		address += layout->frame_bytes;
	}
	return 1;
}

/* Called when a row begins: records what the thread's interpreter runs, if it runs anything. */
__noinline int on_script_row(void)
{
	__u32 tgid = current_tgid();
	struct pt_script_layout *layout;
	struct pt_script_record *record;
	__u64 frames[2];
	__u64 state = 0;
	__u64 count;
	__u64 place;

	if (!config_with_modules)
		return 0;
	layout = bpf_map_lookup_elem(&script_layouts, &tgid);
	if (!layout || !layout->frame_bytes)
		return 0;
	place = script_variable(layout);
	if (place == VARIABLE_UNALLOCATED)
		return 0;
	if (bpf_probe_read_user(&state, sizeof(state), (void *)place)) {
		count_drop(PT_DROP_READ_FAILED);
		return 0;
	}
	if (!state)
		return 0;
	if (bpf_probe_read_user(frames, sizeof(frames), (void *)(state + layout->frames)) ||
	    frames[1] < frames[0])
		frames[1] = frames[0] = 0;
	count = (frames[1] - frames[0]) / layout->frame_bytes;
	if (count > PT_SCRIPT_MOST_FRAMES)
		count = 0;
	record = reserve(PT_SCRIPT_HEAD_BYTES + count * sizeof(struct pt_script_frame));
	if (!record)
		return 0;
	fill_head(&record->head, 0, 0, PT_SCRIPT_STACK,
		  PT_SCRIPT_HEAD_BYTES + count * sizeof(struct pt_script_frame));
	record->count = read_script_frames(layout, frames[0], record, count) ? count : 0;
	record->reserved = 0;
	submit(record);
	return 0;
}

#endif
