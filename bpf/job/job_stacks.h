/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The additions to job_helpers.h that python_stacks.bpf.h needs in a job's own threads: the
 * thread's own state and tables, which lie in its slot's part of the ring, and checks of addresses.
 * A thread reads its own frames while it runs C code that these frames have called, so they, their
 * code objects and their first arguments are alive until that code returns. It never follows other
 * objects, or addresses that it has read before.
 */
#ifndef PROFTRACE_BPF_JOB_STACKS_H
#define PROFTRACE_BPF_JOB_STACKS_H

#include "bpf/job/job_helpers.h"
#include "bpf/shared/python_types.bpf.h"

#define PYTHON_TABLES_ARE_OF_THREADS

struct pt_python_layout;
struct python_code;
struct python_object_key;
struct python_thread;

static __always_inline struct python_code *job_python_code(const struct python_object_key *key);
static __always_inline int keep_job_python_code(const struct python_object_key *key,
						const struct python_code *code);
static __always_inline __u64 *job_python_module(const struct python_object_key *key);
static __always_inline int keep_job_python_module(const struct python_object_key *key, __u64 type);
static __always_inline struct python_thread *this_python_thread(void);
static __always_inline bool is_same_text(const struct pt_python_layout *layout,
					 const struct python_code *known);

/* Whether the type of `object`, which must be alive, has the name `name` of up to 7 characters. */
static __noinline bool has_type(__u64 object, const char *name)
{
	struct pt_python_layout *layout = python_layout();
	__u64 head = layout ? layout->object_head : 0;
	__u64 type = 0;
	const char *text = NULL;

	if (object & 7 ||
	    bpf_probe_read_user(&type, sizeof(type), (void *)(object + PYTHON_TYPE + head)) ||
	    type & 7 ||
	    bpf_probe_read_user(&text, sizeof(text), (void *)(type + PYTHON_TYPE_NAME + head)) ||
	    (__u64)text < LOWEST_ADDRESS)
		return false;
	for (int i = 0; i < 8; ++i) {
		if (text[i] != name[i])
			return false;
		if (!name[i])
			return true;
	}
	return false;
}

/* Returns the number of the copy of its code's instructions that a frame of this thread runs; 0 =
 * the code object's own instructions. */
static __always_inline __u32 job_copy_of_code(const struct pt_python_layout *layout, __u64 frame)
{
	__u32 copy = 0;

	if (layout->code_copies)
		bpf_probe_read_user(&copy, sizeof(copy), (void *)(frame + layout->frame_copy));
	return copy;
}

static __always_inline __u32 next_python_code(void)
{
	char *ring = job_ring();

	return ring ? __atomic_add_fetch((__u32 *)(ring + PATCH_RING_PYTHON_CODES), 1,
					 __ATOMIC_RELAXED)
		    : 0;
}

/* Returns a number that changes with every record that this thread loses, and whenever the reader
 * has lost a record. */
static __always_inline __u32 job_python_generation(void)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	return slot ? FIELD(__u32, ring, PATCH_RING_STACKS_LOST) +
			  FIELD(__u32, slot, PATCH_SLOT_LOSSES)
		    : 0;
}

static __always_inline bool job_ends_are_seen(void)
{
	char *ring = job_ring();

	return ring && FIELD(__u32, ring, PATCH_RING_ENDS_ARE_SEEN);
}

static __always_inline bool job_reads_stacks(void)
{
	char *ring = job_ring();

	return ring && FIELD(__u32, ring, PATCH_RING_PYTHON_STATE);
}

#define MEMORY_HAS_STACKS() job_reads_stacks()
#define PYTHON_CODE(key) job_python_code(key)
#define KEEP_PYTHON_CODE(key, code) keep_job_python_code(key, code)
#define PYTHON_MODULE(key) job_python_module(key)
#define KEEP_PYTHON_MODULE(key, type) keep_job_python_module(key, *(type))
#define STACK_BEGUN() job_stack_begun()
#define NEXT_PYTHON_CODE() next_python_code()
#define IS_CELL(object) has_type(object, "cell")
#define IS_CODE(object) has_type(object, "code")
#define IS_SAME_TEXT(layout, known) is_same_text(layout, known)
#define ENDS_ARE_SEEN() job_ends_are_seen()
#define python_generation job_python_generation()
/* Returns the address as it is. The reader subtracts the distance of the copy from the code
 * object's instructions, because the table with the copy's address may be replaced and freed by
 * other threads at any moment. */
#define own_instruction(layout, frame, code, instruction) (instruction)
#define COPY_OF_CODE(layout, frame) job_copy_of_code(layout, frame)
#define new_python_thread() NULL

#define config_with_stack true
#define config_with_modules true
#include "bpf/shared/python_objects.bpf.h"

#define JOB_CODES 1024
#define JOB_MODULES 512
#define JOB_TABLE_TRIES 8

struct job_code {
	__u64 address; /* 0 = none */
	struct python_code code;
};

struct job_module {
	__u64 address;
	__u64 type;
};

/* The part of a slot that holds stacks. Only the slot's thread uses it. */
struct job_stacks {
	__u64 busy;	 /* not 0: the thread is reading its stack */
	__u64 disturbed; /* not 0: a signal handler has written a stack during the last read */
	__u32 tid;	 /* the number of the thread whose stack `thread` holds */
	__u32 lost;	 /* the value of PATCH_RING_STACKS_LOST for which the tables are valid */
	__u64 begun;	 /* the time at which the last read of the stack began */
	struct python_thread thread;
	struct job_code codes[JOB_CODES];
	struct job_module modules[JOB_MODULES];
};

_Static_assert(sizeof(struct job_stacks) <= PATCH_STACKS_BYTES, "job_stacks");
_Static_assert(offsetof(struct job_stacks, thread.open_sp) == PATCH_STACKS_OPEN_SP, "open_sp");
_Static_assert(offsetof(struct job_stacks, thread.open_site) == PATCH_STACKS_OPEN_SITE,
	       "open_site");

static __always_inline struct job_stacks *own_stacks(void)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	return slot ? (struct job_stacks *)FIELD(__u64, slot, PATCH_SLOT_STACKS) : NULL;
}

static __always_inline __u64 job_stack_begun(void)
{
	struct job_stacks *stacks = own_stacks();

	return stacks ? stacks->begun : 0;
}

static __always_inline struct python_thread *this_python_thread(void)
{
	struct job_stacks *stacks = own_stacks();

	return stacks ? &stacks->thread : NULL;
}

static __always_inline __u32 first_place(__u64 address, __u32 places)
{
	return (address >> 4) * PATCH_SLOT_SPREAD >> 32 & (places - 1);
}

static __noinline struct job_code *code_place(struct job_stacks *stacks, __u64 address)
{
	__u32 place = first_place(address, JOB_CODES);

	for (int i = 0; i < JOB_TABLE_TRIES; ++i) {
		struct job_code *code = &stacks->codes[(place + i) & (JOB_CODES - 1)];

		if (code->address == address || !code->address)
			return code;
	}
	/* The code object that had this place will be recorded again when it is met. */
	stacks->codes[place].address = 0;
	return &stacks->codes[place];
}

static __always_inline struct python_code *job_python_code(const struct python_object_key *key)
{
	struct job_stacks *stacks = own_stacks();
	struct job_code *code = stacks ? code_place(stacks, key->address) : NULL;

	return code && code->address ? &code->code : NULL;
}

static __always_inline int keep_job_python_code(const struct python_object_key *key,
						const struct python_code *code)
{
	struct job_stacks *stacks = own_stacks();
	struct job_code *place;

	if (!stacks)
		return -1;
	place = code_place(stacks, key->address);
	place->address = key->address;
	copy_bytes(&place->code, code, sizeof(*code));
	return 0;
}

static __noinline struct job_module *module_place(struct job_stacks *stacks, __u64 address)
{
	__u32 place = first_place(address, JOB_MODULES);

	for (int i = 0; i < JOB_TABLE_TRIES; ++i) {
		struct job_module *module = &stacks->modules[(place + i) & (JOB_MODULES - 1)];

		if (module->address == address || !module->address)
			return module;
	}
	stacks->modules[place].address = 0;
	return &stacks->modules[place];
}

static __always_inline __u64 *job_python_module(const struct python_object_key *key)
{
	struct job_stacks *stacks = own_stacks();
	struct job_module *module = stacks ? module_place(stacks, key->address) : NULL;

	return module && module->address ? &module->type : NULL;
}

static __always_inline int keep_job_python_module(const struct python_object_key *key, __u64 type)
{
	struct job_stacks *stacks = own_stacks();
	struct job_module *place;

	if (!stacks)
		return -1;
	place = module_place(stacks, key->address);
	place->address = key->address;
	place->type = type;
	return 0;
}

/* Whether `known` has the same file name as its code object has now. The code object is alive
 * and has a str at the same address, but that may be another str in place of an earlier one, so
 * the end of the text is compared. */
static __always_inline bool is_same_text(const struct pt_python_layout *layout,
					 const struct python_code *known)
{
	struct python_text text = {};

	find_python_text((struct pt_python_layout *)layout, known->names.file, &text);
	if (text.total > sizeof(known->file_text))
		text.address += text.total - sizeof(known->file_text);
	return text.address == known->file_end && known->file_text == text_at(text.address);
}

/* Returns the PyThreadState from the variable that CPython keeps for each thread; 0: the thread has
 * none, or Python ends. CPython clears the variable before the state is gone. But as CPython ends,
 * it also frees the states of other threads, after it has waited for these threads
 * (wait_for_readers()). */
static __always_inline __u64 python_state(struct python_thread *thread,
					  const struct pt_python_layout *layout)
{
	char *ring = job_ring();
	__u64 ends = 0;
	__u64 state;
	__u64 id = 0;

	(void)thread;
	if (!ring ||
	    bpf_probe_read_user(&ends, sizeof(ends),
				(void *)FIELD(__u64, ring, PATCH_RING_FINALIZING)) ||
	    ends)
		return 0;
	asm volatile("mov %%fs:(%1), %0"
		     : "=r"(state)
		     : "r"((__s64)FIELD(__s32, ring, PATCH_RING_PYTHON_STATE)));
	if (state & 7 ||
	    bpf_probe_read_user(&id, sizeof(id), (void *)(state + layout->thread_id)) ||
	    id != thread_pointer())
		return 0;
	return state;
}

static __always_inline bool read_python_frame(struct python_thread *thread, __u32 bytes)
{
	return !(thread->frame & 7) && MAY_HOLD(thread->frame, bytes);
}

/* Handles PT_ROLE_PYTHON_END, behind which Python frees the states of other threads. Waits for each
 * thread that began to read its own state before Python noted that it ends. A thread that comes
 * later sees that note, and reads nothing. */
static __noinline void wait_for_readers(void)
{
	char *ring = (char *)FIELD(__u64, proftrace_control, PATCH_CONTROL_PYTHON_END);
	__u64 begun = bpf_ktime_get_ns();
	__u64 ends = 0;

	if (!ring ||
	    bpf_probe_read_user(&ends, sizeof(ends),
				(void *)FIELD(__u64, ring, PATCH_RING_FINALIZING)) ||
	    !ends)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (int i = 0; i < PATCH_SLOTS; ++i) {
		char *slot = ring + PATCH_RING_HEADER_BYTES + ((__u64)i << PATCH_SLOT_SHIFT);
		__u64 owner = FIELD(__u64, slot, PATCH_SLOT_OWNER);
		char *stacks = (char *)FIELD(__u64, slot, PATCH_SLOT_STACKS);

		if (owner <= PATCH_SLOT_TAKEN || !stacks ||
		    (owner & ~(__u64)PATCH_SLOT_RETIRED) == thread_pointer())
			continue;
		/* There is a time limit, because a thread that was ended in the middle of its read
		 * never clears the flag. */
		while (FIELD(__u64, stacks, offsetof(struct job_stacks, busy)) &&
		       bpf_ktime_get_ns() - begun < FIELD(__u64, ring, PATCH_RING_END_WAIT))
			__builtin_ia32_pause();
	}
}

/* Returns the aligned word of the frame that contains the field at `offset`, read in place. */
static __always_inline __u64 frame_word(struct python_thread *thread, __u32 offset)
{
	return *(const __u64 *)(thread->frame + (offset & ~7U));
}

#endif
