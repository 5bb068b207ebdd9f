/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads the Python frames of the thread when a row begins (--with-stack). The frames of a thread do
 * not change while the thread runs C code, as it does at every probe, so they are read without
 * stopping anything. A thread's stack is sent only when it has changed. The outermost frames that
 * are the same as before are sent as a number, and each code object is reported once.
 */
#ifndef PROFTRACE_BPF_PYTHON_STACKS_H
#define PROFTRACE_BPF_PYTHON_STACKS_H

#include "bpf/shared/python_objects.bpf.h"
#include "bpf/shared/python_state.bpf.h"

struct python_walk {
	struct python_thread *thread;
	struct pt_python_layout *layout;
};

/* Whether a row of this role has a Python stack. */
static __always_inline bool begins_row(__u8 role)
{
	const __u64 rows = 1ULL << PT_ROLE_BEGIN | 1ULL << PT_ROLE_BOXED_BEGIN |
			   1ULL << PT_ROLE_NODE_BEGIN | 1ULL << PT_ROLE_LITERAL_BEGIN |
			   1ULL << PT_ROLE_GUARD_BEGIN | 1ULL << PT_ROLE_FRAME_BEGIN |
			   1ULL << PT_ROLE_PLACED_BEGIN | 1ULL << PT_ROLE_WORK_BEGIN |
			   1ULL << PT_ROLE_INPUTS_BEGIN | 1ULL << PT_ROLE_OPERATOR_BEGIN |
			   1ULL << PT_ROLE_OPERATOR_CALL | 1ULL << PT_ROLE_PLACED_NODE;

	if (role >= 64)
		return role == PT_ROLE_RANGE_PUSH || role == PT_ROLE_RANGE_MARK ||
		       role == PT_ROLE_SIZED_BEGIN;
	return rows >> role & 1;
}

/* Whether the role is an allocation or a free, which may happen between two rows. */
static __always_inline bool tells_of_memory(__u8 role)
{
	return role == PT_ROLE_ALLOCATION || role == PT_ROLE_FREE ||
	       role == PT_ROLE_CPU_OUT_OF_MEMORY || role == PT_ROLE_DEVICE_MEMORY ||
	       role == PT_ROLE_DEVICE_OUT_OF_MEMORY;
}

/* Whether the row is an operator, whose end is always seen, or else the catch of its exception. */
static __always_inline bool is_operator(__u8 role)
{
	return role == PT_ROLE_OPERATOR_BEGIN || role == PT_ROLE_BEGIN ||
	       role == PT_ROLE_OPERATOR_CALL || role == PT_ROLE_INPUTS_BEGIN;
}

/* A job's own threads do these in other ways (bpf/job/job_stacks.h). */
#ifndef PYTHON_TABLES_ARE_OF_THREADS

#define PYTHON_SEARCH_NS 1000000
/* Set by the loader: ends of rows, or catches, are recorded by other means than these programs. */
const volatile bool config_ends_elsewhere = false;
#define ENDS_ARE_SEEN() (!config_ends_elsewhere)

/* Returns the PyThreadState of the thread whose pthread_self() is `id`, by the lists of the
 * interpreters; 0 = it has none. This function is global, so that it is verified once and not for
 * each of its callers. */
__noinline __u64 find_python_thread(__u64 id)
{
	__u32 tgid = current_tgid();
	struct pt_python_layout *layout = bpf_map_lookup_elem(&python_layouts, &tgid);
	bool is_cut = false;
	__u64 found;

	if (!config_with_stack || !layout)
		return 0;
	found = listed_python_state(layout, id, &is_cut);
	if (is_cut)
		count_drop(PT_DROP_READ_FAILED);
	return found;
}

/* Returns the PyThreadState of the current thread; 0 = it has none. */
static __always_inline __u64 python_state(struct python_thread *thread,
					  struct pt_python_layout *layout)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 id = BPF_CORE_READ(task, thread.fsbase);
	__u64 found = kept_python_state(layout, id);

	if (found)
		return found;
	if (is_python_state_of(layout, thread->state, id))
		return thread->state;
	/* A thread that only runs C++ has no state, and a thread that comes back to Python has a
	 * new one. */
	thread->state = 0;
	found = bpf_ktime_get_ns();
	if (found < thread->search_ns)
		return 0;
	thread->search_ns = found + PYTHON_SEARCH_NS;
	thread->state = find_python_thread(id);
	return thread->state;
}

static __noinline struct python_thread *new_python_thread(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	__u32 zero = 0;
	struct python_thread *empty = bpf_map_lookup_elem(&python_no_thread, &zero);

	if (empty)
		bpf_map_update_elem(&python_threads, &tid, empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&python_threads, &tid);
}

static __always_inline bool read_python_frame(struct python_thread *thread, __u32 bytes)
{
	return !bpf_probe_read_user(thread->buffer, bytes, (void *)thread->frame);
}

static __always_inline __u64 frame_word(struct python_thread *thread, __u32 offset)
{
	return thread->buffer[(offset / 8) & (PT_PYTHON_FRAME_BYTES / 8 - 1)];
}

#endif

static long visit_python_frame(__u32 i, struct python_walk *walk)
{
	struct pt_python_layout *layout = walk->layout;
	struct python_thread *thread = walk->thread;
	__u32 bytes = layout->frame_bytes;
	struct python_frame *frame;
	__u32 number = thread->count[thread->next & 1];

	if (!thread->frame)
		return 1;
	if (number >= PT_PYTHON_MOST_FRAMES) {
		thread->new_flags |= PT_PYTHON_STACK_CUT;
		return 1;
	}
	barrier_var(bytes);
	if (bytes > PT_PYTHON_FRAME_BYTES)
		bytes = PT_PYTHON_FRAME_BYTES;
	if (!read_python_frame(thread, bytes)) {
		thread->new_flags |= PT_PYTHON_STACK_FAILED;
		return 1;
	}
	if (!layout->frame_owner ||
	    (frame_word(thread, layout->frame_owner) >> 8 * (layout->frame_owner & 7) & 0xff) <
		layout->owner_limit) {
		frame = &thread->frames[thread->next & 1][number & (PT_PYTHON_MOST_FRAMES - 1)];
		frame->address = thread->frame;
		frame->code = frame_word(thread, layout->frame_code) & ~(__u64)layout->pointer_tags;
		frame->instruction = frame_word(thread, layout->frame_instruction);
		if (!layout->code_instructions)
			frame->instruction &= 0xffffffff;
		frame->module = 0;
		thread->count[thread->next & 1] = number + 1;
	}
	thread->frame = frame_word(thread, layout->frame_previous) & ~(__u64)layout->pointer_tags;
	return 0;
}

static __always_inline struct python_frame *frame_from_root(struct python_thread *thread,
							    __u32 which, __u32 i)
{
	__u32 place = thread->count[which & 1] - 1 - i;

	return &thread->frames[which & 1][place & (PT_PYTHON_MOST_FRAMES - 1)];
}

/* Returns the entry of the code object at `address`; NULL: nothing was reported of it yet, or of
 * another code object at that address. */
static __noinline struct python_code *told_code(struct pt_python_layout *layout, __u64 address)
{
	struct python_object_key key = {.address = address, .tgid = current_tgid()};
	struct python_code_names names;
	struct python_code *known;

	if (!read_python_code(layout, address, &names))
		return NULL;
	known = PYTHON_CODE(&key);
	return is_told(layout, known, &names, address) ? known : NULL;
}

/* Compares the i-th frame from the root with the stack before. If they are the same, counts the
 * frame as common; if not, ends the loop. */
static long compare_python_frame(__u32 i, struct python_walk *walk)
{
	struct python_thread *thread = walk->thread;
	struct python_frame *before;
	struct python_frame *frame;

	if (i >= thread->count[thread->next & 1] || i >= thread->before)
		return 1;
	frame = frame_from_root(thread, thread->next, i);
	before = frame_from_root(thread, thread->next ^ 1, i);
	if (frame->code != before->code || frame->instruction != before->instruction)
		return 1;
	if (before->kind & PYTHON_CODE_MADE && !told_code(walk->layout, frame->code))
		return 1;
	if (before->module) {
		__u64 module = read_python_module(walk->layout, frame->address,
						  before->kind & PYTHON_CODE_CELL);

		if (module != before->module)
			return 1;
		frame->module = module;
	}
	frame->word = before->word;
	frame->kind = before->kind;
	thread->common = i + 1;
	return 0;
}

/* Puts the i-th frame that is not common into the record; outer frames come first. */
static long put_python_frame(__u32 i, struct python_walk *walk)
{
	struct pt_python_layout *layout = walk->layout;
	struct python_thread *thread = walk->thread;
	__u32 place = thread->common + i;
	__u32 words = thread->words;
	struct python_frame *frame;
	struct python_code *known;
	__u64 number;

	if (place >= thread->count[thread->next & 1])
		return 1;
	thread->failed = 1;
	frame = frame_from_root(thread, thread->next, place);
	known = told_code(layout, frame->code);
	if (!known) {
		__u32 is_called = 0;

		if (place)
			is_called = frame_from_root(thread, thread->next, place - 1)->module != 0;
		if (!tell_python_code(frame->code, frame->address, is_called))
			return 1;
		known = told_code(layout, frame->code);
		if (!known)
			return 1;
	}
	number = own_instruction(layout, frame->address, frame->code, frame->instruction);
	if (layout->code_instructions)
		number = (number - frame->code - layout->code_instructions) >> 1;
	else
		number >>= layout->instruction_shift & 31;
	frame->kind = known->kind;
	frame->word = (number & 0xffffffff) | (__u64)known->id << 32;
	if (frame->kind & PYTHON_CODE_CALL) {
		frame->module =
		    read_python_module(layout, frame->address, frame->kind & PYTHON_CODE_CELL);
		if (frame->module) {
			if (!tell_python_module(frame->module))
				return 1;
			frame->word |= PT_PYTHON_FRAME_HAS_MODULE;
		}
	}
	barrier_var(words);
	if (words >= MOST_RECORD_WORDS - 1)
		return 1;
	thread->record.words[words] = frame->word;
	++words;
	if (frame->module) {
		thread->record.words[words] = frame->module;
		++words;
	}
	thread->words = words;
	thread->failed = 0;
	return 0;
}

/* Sends the stack in `frames[next]`, as far as it is new, or a record that says that it could not
 * be read. Returns whether there was room for the record. */
__noinline int send_python_stack(void)
{
	struct python_walk walk = {.thread = this_python_thread()};
	struct python_thread *thread = walk.thread;
	__u32 tgid = current_tgid();
	__u32 bytes;

	if (!config_with_stack)
		return 0;
	walk.layout = bpf_map_lookup_elem(&python_layouts, &tgid);
	if (!thread || !walk.layout)
		return 0;
	if (unlikely(threads_with_losses) && !announce_loss()) {
		note_loss();
		return 0;
	}
	fill_head(&thread->record.head, 0, 0, PT_PYTHON_STACK, 0);
#ifdef STACK_BEGUN
	thread->record.head.time_ns = STACK_BEGUN();
#endif
	thread->words = 0;
	thread->failed = 0;
	bpf_loop(PT_PYTHON_MOST_FRAMES, put_python_frame, &walk, 0);
	thread->record.common = thread->common;
	thread->record.count = thread->count[thread->next & 1] - thread->common;
	thread->record.flags = thread->new_flags;
	bytes = thread->words;
	if (thread->failed) {
		/* The record has no frames then, because that is better than the frames of another
		 * row. */
		thread->record.common = 0;
		thread->record.count = 0;
		thread->record.flags = PT_PYTHON_STACK_FAILED;
		thread->count[thread->next & 1] = 0;
		bytes = 0;
		count_drop(PT_DROP_READ_FAILED);
	}
	barrier_var(bytes);
	if (bytes > MOST_RECORD_WORDS)
		bytes = MOST_RECORD_WORDS;
	bytes = PT_PYTHON_STACK_HEAD_BYTES + 8 * bytes;
	thread->record.head.words = bytes / 8;
	if (!copy_record(&thread->record, bytes)) {
		note_loss();
		return 0;
	}
	return 1;
}

/* Returns the address of the thread's innermost frame; 0 = it runs no Python. */
static __noinline __u64 innermost_frame(struct python_thread *thread,
					struct pt_python_layout *layout)
{
	__u64 state = python_state(thread, layout);

	return state ? python_frame_of(layout, state) : 0;
}

/* Whether the frame at `frame` is the one that was sent as the innermost one, and stands at the
 * same instruction. */
static __noinline bool stands_still(struct pt_python_layout *layout,
				    const struct python_frame *sent, __u64 frame)
{
	__u64 instruction = 0;

	if (frame != sent->address ||
	    bpf_probe_read_user(&instruction, sizeof(instruction),
				(void *)(frame + layout->frame_instruction)))
		return false;
	if (!layout->code_instructions)
		instruction &= 0xffffffff;
	return instruction == sent->instruction;
}

/* Called when a row begins. Sends the stack before the row, unless it is the one that was sent
 * last. `holds`: the row is an operator whose end is seen, so until then no frame further out
 * moves. */
__noinline int on_python_stack(__u64 sp, __u64 cookie, __u32 holds)
{
	struct python_walk walk = {};
	__u32 tgid = current_tgid();
	struct python_thread *thread;
	__u64 frame;
	bool whole;

	if (!config_with_stack)
		return 0;
	walk.layout = bpf_map_lookup_elem(&python_layouts, &tgid);
	if (!walk.layout)
		return 0;
	thread = this_python_thread();
	if (unlikely(!thread)) {
		thread = new_python_thread();
		if (!thread)
			return 0;
	}
	walk.thread = thread;
	frame = innermost_frame(thread, walk.layout);
	whole = thread->generation != python_generation;
	thread->next = thread->current ^ 1;
	thread->before = whole ? 0 : thread->count[thread->current & 1];
	if (!whole && thread->open_sp && sp < thread->open_sp) {
		if (!frame && !thread->before)
			return 0;
		if (frame == thread->open_frame && thread->before &&
		    stands_still(walk.layout, &thread->frames[thread->current & 1][0], frame))
			return 0;
	} else {
		thread->open_sp = holds && ENDS_ARE_SEEN() ? sp : 0;
		thread->open_frame = frame;
		thread->open_site = (__u16)cookie;
	}
	thread->frame = frame;
	thread->count[thread->next & 1] = 0;
	thread->common = 0;
	thread->new_flags = 0;
	bpf_loop(PT_PYTHON_MOST_FRAMES + 64, visit_python_frame, &walk, 0);
	/* Frames are counted from the root, which is not known in stacks that are cut. */
	if (!thread->new_flags && !thread->flags)
		bpf_loop(PT_PYTHON_MOST_FRAMES, compare_python_frame, &walk, 0);
	if (whole || thread->new_flags != thread->flags ||
	    thread->common != thread->count[thread->next & 1] || thread->common != thread->before) {
		thread->generation = python_generation;
		if (!send_python_stack()) {
			thread->generation = python_generation - 1;
			thread->open_sp = 0;
		}
	}
	/* The new frames are kept even if they are the same, because they may lie at other
	 * addresses now. */
	thread->flags = thread->new_flags;
	thread->current = thread->next;
	return 0;
}

/* Handles PT_ROLE_END and PT_ROLE_CATCH (site 0): forgets the outermost operator if the end may be
 * its own. */
static __always_inline void on_python_row_end(__u64 cookie)
{
	struct python_thread *thread = this_python_thread();

	if (thread && (thread->open_site == (__u16)cookie || !(__u16)cookie))
		thread->open_sp = 0;
}

static __always_inline void forget_python_thread(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&python_threads, &tid);
}

#endif
