/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the PyThreadState of the current thread. CPython keeps a pointer to it in a variable of the
 * thread. If the layout knows the variable's place (with glibc), the pointer is read there. It
 * leads to the state by which the thread runs, even if several interpreters have one for the
 * thread, and reading it takes equally long with any number of threads. Otherwise the lists of all
 * interpreters are searched.
 */
#ifndef PROFTRACE_BPF_PYTHON_STATE_H
#define PROFTRACE_BPF_PYTHON_STATE_H

#include "bpf/abi/python_records.h"

/* Returns the address of the innermost frame; 0 = the thread runs no Python with that state. */
static __always_inline __u64 python_frame_of(struct pt_python_layout *layout, __u64 state)
{
	__u64 frame = 0;

	if (bpf_probe_read_user(&frame, sizeof(frame), (void *)(state + layout->thread_frame)))
		return 0;
	if (layout->thread_indirect && frame &&
	    bpf_probe_read_user(&frame, sizeof(frame),
				(void *)(frame + layout->thread_indirect - 1)))
		return 0;
	return frame;
}

/* A job's own threads do this in other ways (bpf/job/job_stacks.h). */
#ifndef PYTHON_TABLES_ARE_OF_THREADS

/* Returns the address in the code object itself of the instruction that a frame runs: in a
 * free-threaded build a frame may run its thread's copy of the code. If that cannot be read,
 * returns the address before the first instruction, as for a frame that has not begun. */
static __always_inline __u64 own_instruction(struct pt_python_layout *layout, __u64 frame,
					     __u64 code, __u64 instruction)
{
	__u64 own = code + layout->code_instructions;
	__u64 copies = 0;
	__u64 count = 0;
	__u64 begin = 0;
	__u32 copy = 0;

	if (!layout->code_copies)
		return instruction;
	if (bpf_probe_read_user(&copy, sizeof(copy), (void *)(frame + layout->frame_copy)))
		return own - 2;
	if (!copy)
		return instruction;
	if (bpf_probe_read_user(&copies, sizeof(copies), (void *)(code + layout->code_copies)) ||
	    bpf_probe_read_user(&count, sizeof(count), (void *)copies) || copy >= count ||
	    bpf_probe_read_user(&begin, sizeof(begin), (void *)(copies + 8 + 8 * (__u64)copy)) ||
	    !begin)
		return own - 2;
	return instruction - begin + own;
}

#define MOST_PYTHON_THREADS 4096

struct python_search {
	struct pt_python_layout *layout;
	__u64 interpreter;
	__u64 state;
	__u64 id;
	__u64 found;
	__u64 idle; /* a state of the thread, by which it runs nothing */
};

static __always_inline bool is_python_state_of(struct pt_python_layout *layout, __u64 state,
					       __u64 id)
{
	__u64 owner = 0;

	return state &&
	       !bpf_probe_read_user(&owner, sizeof(owner), (void *)(state + layout->thread_id)) &&
	       owner == id;
}

/* Returns the state in the variable of the thread with pthread_self() = `id`; 0 = it has none,
 * or the variable's place is not known. */
static __always_inline __u64 kept_python_state(struct pt_python_layout *layout, __u64 id)
{
	__u64 state = 0;

	if (!layout->state_place ||
	    bpf_probe_read_user(&state, sizeof(state), (void *)(id + layout->state_place)))
		return 0;
	return is_python_state_of(layout, state, id) ? state : 0;
}

/* Visits the states in the lists of all interpreters, one in each iteration. A thread may have
 * states in several interpreters; all but that of the interpreter that it was in last are idle. */
static long visit_python_thread(__u32 i, struct python_search *search)
{
	if (!search->state) {
		__u64 interpreter = search->interpreter;

		if (!interpreter)
			return 1;
		search->interpreter = 0;
		bpf_probe_read_user(&search->state, 8,
				    (void *)(interpreter + search->layout->interpreter_threads));
		bpf_probe_read_user(&search->interpreter, 8,
				    (void *)(interpreter + search->layout->interpreter_next));
		return 0;
	}
	if (is_python_state_of(search->layout, search->state, search->id)) {
		if (python_frame_of(search->layout, search->state)) {
			search->found = search->state;
			return 1;
		}
		search->idle = search->state;
	}
	if (bpf_probe_read_user(&search->state, 8,
				(void *)(search->state + search->layout->thread_next)))
		return 1;
	return 0;
}

/* Returns the thread's state in the lists of all interpreters; 0 = it has none. Sets `is_cut` if
 * none was found because there are more states than are visited. */
static __always_inline __u64 listed_python_state(struct pt_python_layout *layout, __u64 id,
						 bool *is_cut)
{
	struct python_search search = {.layout = layout, .id = id};
	long looks;

	if (bpf_probe_read_user(&search.interpreter, 8, (void *)layout->interpreters))
		return 0;
	looks = bpf_loop(MOST_PYTHON_THREADS, visit_python_thread, &search, 0);
	*is_cut = looks == MOST_PYTHON_THREADS && !search.found && !search.idle;
	return search.found ?: search.idle;
}
#endif

#endif
