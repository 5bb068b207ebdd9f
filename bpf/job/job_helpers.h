/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The counterpart of bpf/shared/common.bpf.h for the same sources in a job's own threads
 * (job_recorder.c): the kernel's helpers that these sources use, and the functions that put a
 * record into the calling thread's slot of the ring (patch_memory.h). No function outside of this
 * code is called, no system call is made, and memory is read as the job itself would read it.
 */
#ifndef PROFTRACE_BPF_COMMON_H
#define PROFTRACE_BPF_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long __u64;
typedef uint32_t __u32;
typedef uint16_t __u16;
typedef uint8_t __u8;
typedef long long __s64;
typedef int32_t __s32;
typedef int16_t __s16;
typedef int8_t __s8;

#include "bpf/abi/patch_memory.h"
#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"
#include "bpf/abi/script_records.h"

/* The registers in the kernel's layout; recorder_code.S fills them in. */
struct pt_regs {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	__u64 orig_ax; /* holds the spot's cookie */
	__u64 ip, cs, flags, sp, ss;
};
struct task_struct;

#define PT_REGS_SP(ctx) ((ctx)->sp)
#define PT_REGS_PARM1(ctx) ((ctx)->di)
#define PT_REGS_PARM2(ctx) ((ctx)->si)
#define PT_REGS_PARM3(ctx) ((ctx)->dx)
#define PT_REGS_PARM4(ctx) ((ctx)->cx)
#define PT_REGS_PARM5(ctx) ((ctx)->r8)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier_var(var) asm volatile("" : "+r"(var))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) __typeof__(value) *name

enum { BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH };
#define BPF_ANY 0
#define BPF_NOEXIST 1
#define BPF_F_NO_PREALLOC 1
/* The control page of the region that this code is in. */
extern const char proftrace_control[] __attribute__((visibility("hidden")));

#define FIELD(type, base, offset) (*(volatile type *)((base) + (offset)))

static __always_inline __u64 thread_pointer(void)
{
	__u64 pointer;

	asm("mov %%fs:0x10, %0" : "=r"(pointer));
	return pointer;
}

/* Returns the ring, or NULL if recording is off. If a signal handler forks, the child loses the
 * ring between any two looks; the record that the child was writing then stays unfinished. */
static __always_inline char *job_ring(void)
{
	return (char *)FIELD(__u64, proftrace_control, PATCH_CONTROL_RING);
}

static __always_inline bool records_inputs(void)
{
	const char *ring = job_ring();

	return ring && FIELD(__u64, ring, PATCH_RING_INPUTS);
}
#define config_record_shapes records_inputs()

static __always_inline __u32 current_tid(const char *ring)
{
	__s64 offset;
	__u32 tid;

	if (unlikely(!ring))
		return 0;
	offset = FIELD(int32_t, ring, PATCH_RING_TID_OFFSET);
	asm("movl %%fs:(%1), %0" : "=r"(tid) : "r"(offset));
	return tid;
}

static __always_inline __u64 bpf_ktime_get_ns(void)
{
	return __builtin_ia32_rdtsc();
}
static __always_inline __u64 bpf_get_current_pid_tgid(void)
{
	return current_tid(job_ring());
}
/* Returns 0 for every map's key: the job is one process, so its maps have one entry. */
static __always_inline __u32 current_tgid(void)
{
	return 0;
}

static __always_inline __u64 bpf_get_current_task(void)
{
	return 0;
}
#define BPF_CORE_READ(task, field) ((void)(task), thread_pointer())

#define MOST_COPIED_WORDS 16

/* Copies short runs of words one by one: a copy whose length is not known at compile time would be
 * a call, and for a few words a loop takes a third of the time of the processor's own copy. */
static __always_inline void copy_bytes(void *to, const void *from, __u64 bytes)
{
	if (__builtin_constant_p(bytes) && bytes % 8 == 0 && bytes / 8 <= MOST_COPIED_WORDS)
#pragma GCC unroll 16
		for (__u64 i = 0; i < bytes / 8; ++i)
			((__u64 *)to)[i] = ((const __u64 *)from)[i];
	else if (__builtin_constant_p(bytes))
		__builtin_memcpy(to, from, bytes);
	else if (bytes % 8 == 0 && bytes / 8 <= MOST_COPIED_WORDS)
#pragma GCC unroll 1
		for (__u64 i = 0; i < bytes / 8; ++i)
			((__u64 *)to)[i] = ((const __u64 *)from)[i];
	else
		asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/* These helpers read only memory that the job itself reads at this moment, or that lives as long as
 * the thread does. */
#define LOWEST_ADDRESS 0x10000
/* The kernel's TASK_SIZE_MAX: mappings of a process end there, and so does the first thread's
 * stack if addresses are not randomized. */
#define END_OF_ADDRESSES 0x7ffffffff000
#define MAY_HOLD(address, bytes)                                                                   \
	((__u64)(address)-LOWEST_ADDRESS <=                                                        \
	 (__u64)END_OF_ADDRESSES - LOWEST_ADDRESS - (__u64)(bytes))
#define bpf_probe_read_user(to, bytes, from)                                                       \
	(MAY_HOLD(from, bytes) ? (copy_bytes((to), (const void *)(from), (bytes)), 0) : -1)

static __always_inline struct pt_autograd_layout *autograd_layout(void)
{
	struct pt_autograd_layout *layout =
	    (struct pt_autograd_layout *)(proftrace_control + PATCH_CONTROL_AUTOGRAD);

	return layout->sequence.index ? layout : NULL;
}

static __always_inline struct pt_python_layout *python_layout(void)
{
	char *ring = job_ring();

	return ring && FIELD(__u32, ring, PATCH_RING_PYTHON_STATE)
		   ? (struct pt_python_layout *)(ring + PATCH_RING_PYTHON_LAYOUT)
		   : NULL;
}

static __always_inline struct pt_script_layout *script_layout(void)
{
	char *ring = job_ring();
	struct pt_script_layout *layout =
	    (struct pt_script_layout *)(ring + PATCH_RING_SCRIPT_LAYOUT);

	return ring && layout->state.index ? layout : NULL;
}

#define IS_MAP_OF(map, type) __builtin_types_compatible_p(__typeof__(*(map)->value), type)
/* Finds no entry in maps that are about threads, because the addresses of a thread's variables are
 * valid only while the thread runs. */
#define bpf_map_lookup_elem(map, key)                                                              \
	((void)(key), (__typeof__((map)->value))(IS_MAP_OF(map, struct pt_autograd_layout)         \
						     ? (void *)autograd_layout()                   \
						 : IS_MAP_OF(map, struct pt_python_layout)         \
						     ? (void *)python_layout()                     \
						 : IS_MAP_OF(map, struct pt_script_layout)         \
						     ? (void *)script_layout()                     \
						     : NULL))
static __always_inline long bpf_map_update_elem(void *map, const void *key, const void *value,
						__u64 flags)
{
	(void)map, (void)key, (void)value, (void)flags;
	return 0;
}

static __always_inline long bpf_map_delete_elem(void *map, const void *key)
{
	(void)map, (void)key;
	return 0;
}

static __always_inline void count_drop(__u32 reason)
{
	char *ring = job_ring();

	(void)reason; /* the only reason here is a failed read */
	if (ring)
		__atomic_fetch_add((__u64 *)(ring + PATCH_RING_READ_FAILED), 1, __ATOMIC_RELAXED);
}

/* No record has to take its time after a PT_LOSS here (time_in_order()), because the reader gives
 * each PT_LOSS the time of the record before it. */
#define threads_with_losses 0

#include "bpf/job/job_slots.h"

/* Returns the demotion of a site (PATCH_RING_DEMOTIONS). */
static __always_inline __u32 demotion_of(const char *ring, __u16 site)
{
	return ((const volatile __u16 *)FIELD(__u64, ring, PATCH_RING_DEMOTIONS))[site];
}

/* Counts a call of a site whose calls are only counted. The count is one instruction, because
 * signal handlers count as well. */
static __noinline void count_call(char *ring, __u32 demotion)
{
	char *slot = own_slot(ring);
	__u64 *counter;

	if (!slot)
		return;
	counter = (__u64 *)FIELD(__u64, slot, PATCH_SLOT_COUNTS);
	/* The mask keeps the counter among the counters, whatever the job has written into the
	 * ring. */
	counter += demotion >> 1 & (PATCH_COUNTERS - 1);
	asm volatile("incq %0" : "+m"(*counter) : : "cc");
}

static __always_inline bool is_only_counted(char *ring, __u16 site)
{
	__u32 demotion = demotion_of(ring, site);

	if (likely(!demotion))
		return false;
	count_call(ring, demotion);
	return true;
}

/* Reserves words by one instruction, so that a signal handler may write records before it and after
 * it, but not in between. Returns the position of the first word. */
static __always_inline __u64 take_words(char *slot, __u64 words)
{
	asm volatile("xadd %0, %1"
		     : "+r"(words), "+m"(*(__u64 *)(slot + PATCH_SLOT_TAIL))
		     :
		     : "memory", "cc");
	return words;
}

static __always_inline struct pt_record *record_at(char *ring, char *slot, __u64 position)
{
	position &= FIELD(__u64, ring, PATCH_RING_MASK);
	return (struct pt_record *)(FIELD(__u64, slot, PATCH_SLOT_WORDS) + position * 8);
}

/* Makes a record valid by writing the number of its place. */
static __always_inline void commit(char *ring, struct pt_record *record, __u64 position)
{
	__u32 number = (__u32)position + FIELD(__u32, ring, PATCH_RING_SALT);

	asm volatile("" ::: "memory");
	*(volatile __u32 *)&record->pid = number;
}

static __always_inline void fill_head_at(struct pt_record *record, __u64 time, __u64 sp, __u16 site,
					 __u8 kind, __u32 bytes)
{
	record->time_ns = time;
	record->tid = current_tid(job_ring());
	record->sp = (__u32)(sp >> 3);
	record->site = site;
	record->kind = kind;
	record->words = bytes / 8;
}

static __always_inline void fill_head(struct pt_record *record, __u64 sp, __u16 site, __u8 kind,
				      __u32 bytes)
{
	fill_head_at(record, bpf_ktime_get_ns(), sp, site, kind, bytes);
}

/* Reads the reader's position again, and writes a PT_LOSS if records were lost. This is the slow
 * path of has_room(). Returns whether there is room now. */
static __noinline bool look_again(char *ring, char *slot)
{
	__u64 head = FIELD(__u64, slot, PATCH_SLOT_HEAD);
	__u64 limit = FIELD(__u64, ring, PATCH_RING_LIMIT);
	__u64 tail = FIELD(__u64, slot, PATCH_SLOT_TAIL);
	struct pt_pointer_record *record;
	__u64 position;
	__u64 lost = 0;

	FIELD(__u64, slot, PATCH_SLOT_FLOOR) = head;
	if (tail - head > limit) {
		++FIELD(__u64, slot, PATCH_SLOT_LOST);
		++FIELD(__u32, slot, PATCH_SLOT_LOSSES);
		/* With this value the next record has no room by has_room(), comes here, and
		 * reports the loss first. */
		FIELD(__u64, slot, PATCH_SLOT_FLOOR) = tail - limit - 1;
		return false;
	}
	asm volatile("xchg %0, %1"
		     : "+r"(lost), "+m"(*(__u64 *)(slot + PATCH_SLOT_LOST))
		     :
		     : "memory");
	if (!lost)
		return true;
	position = take_words(slot, PATCH_LOSS_WORDS);
	record = (struct pt_pointer_record *)record_at(ring, slot, position);
	fill_head(&record->head, 0, 0, PT_LOSS, sizeof(*record));
	record->value = lost;
	commit(ring, &record->head, position);
	return true;
}

static __always_inline bool has_room(char *ring, char *slot)
{
	return likely(FIELD(__u64, slot, PATCH_SLOT_TAIL) - FIELD(__u64, slot, PATCH_SLOT_FLOOR) <=
		      FIELD(__u64, ring, PATCH_RING_LIMIT)) ||
	       look_again(ring, slot);
}

static __always_inline void *reserve(__u64 bytes)
{
	char *ring = job_ring();
	char *slot;

	if (!ring || bpf_ktime_get_ns() > FIELD(__u64, ring, PATCH_RING_DEADLINE))
		return NULL;
	slot = own_slot(ring);
	if (!slot)
		return NULL;
	if (!has_room(ring, slot))
		return NULL;
	return record_at(ring, slot, take_words(slot, bytes / 8));
}

/* Submits a record. The record's position is the last one before the tail that has the record's
 * address. */
static __always_inline void submit(void *record)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;
	__u64 index;
	__u64 tail;

	if (unlikely(!slot))
		return;
	index = ((__u64)record - FIELD(__u64, slot, PATCH_SLOT_WORDS)) / 8;
	tail = FIELD(__u64, slot, PATCH_SLOT_TAIL);
	commit(ring, record, tail - ((tail - index) & FIELD(__u64, ring, PATCH_RING_MASK)));
}

/* The loop also ends if the ring is taken away, in a child that a signal handler has forked. */
#define bpf_loop(times, visit, context, flags)                                                     \
	({                                                                                         \
		__u32 loop_times = (times);                                                        \
		__u32 loop_round = 0;                                                              \
		while (loop_round < loop_times && job_ring() && !visit(loop_round, context))       \
			++loop_round;                                                              \
		loop_round;                                                                        \
	})

/* Records without room are counted in the slot. */
#define note_loss() ((void)0)
#define announce_loss() 1
#define reserve_room(bytes) reserve(bytes)
/* The loader looks often enough without being woken. */
#define wake_loader() ((void)0)
#define submit_and_wake(record) submit(record)

/* Copies a record that lies elsewhere into the ring. Returns whether it was written. */
static __noinline bool write_copy(const __u64 *words, __u64 bytes)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;
	__u64 position;
	__u64 *to;

	if (unlikely(!slot) || words[0] > FIELD(__u64, ring, PATCH_RING_DEADLINE) ||
	    !has_room(ring, slot))
		return false;
	position = take_words(slot, bytes / 8);
	to = (__u64 *)record_at(ring, slot, position);
	to[0] = words[0];
	/* The low half of the second word makes the record valid, so commit() writes it last. */
	((__u32 *)to)[3] = ((const __u32 *)words)[3];
	for (__u64 i = 2; i < bytes / 8; ++i)
		to[i] = words[i];
	commit(ring, (struct pt_record *)to, position);
	return true;
}
#define copy_record(record, bytes) write_copy((const __u64 *)(record), (bytes))

static __always_inline __u32 *announced_tid(void)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	return slot ? (__u32 *)(slot + PATCH_SLOT_ANNOUNCED) : NULL;
}

static __always_inline __u64 is_announced(void)
{
	__u32 *tid = announced_tid();

	return tid && *tid == current_tid(job_ring());
}
#define IS_ANNOUNCED() is_announced()

/* The places of autograd_places.bpf.h are not used here, because the addresses of a thread's
 * variables are valid only while the thread runs. */
#define NO_AUTOGRAD_PLACES
#define read_autograd_place(tid, sequence, grad_mode) (*(sequence) = *(grad_mode) = 0, false)
#define take_autograd_place(tid, sequence, grad_mode) ((void)(tid))
#define free_autograd_place(tid) ((void)(tid))

static __always_inline int write_pointer(__u64 sp, __u16 site, __u8 kind, __u64 value)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, sp, site, kind, sizeof(*record));
	record->value = value;
	submit(record);
	if (kind == PT_THREAD_NUMBER) {
		__u32 *announced = announced_tid();

		if (announced)
			*announced = current_tid(job_ring());
	}
	return 1;
}

/* Copies a string with its zero byte. Returns the number of bytes with the zero byte, as the
 * kernel's helper does. */
static __always_inline long bpf_probe_read_user_str(void *text_to, __u32 bytes, const void *from)
{
	const char *text = from;
	char *to = text_to;

	if ((__u64)text < 0x10000)
		return -1;
	for (__u32 i = 0; i < bytes; ++i) {
		to[i] = text[i];
		if (!to[i])
			return i + 1;
	}
	to[bytes - 1] = 0;
	return bytes;
}

/* Returns the class of a node by its vtable. The loader tells which vtables are those of Python's
 * nodes. Only fields that every node has are read of any other node. */
static __always_inline __u32 node_class_of(__u64 vtable)
{
	for (int i = 0; i < PATCH_PYTHON_NODES; ++i) {
		__u64 known = FIELD(__u64, proftrace_control, PATCH_CONTROL_PYTHON_NODES + 8 * i);

		if (!known)
			break;
		if (known == vtable)
			return PT_NODE_PYTHON;
	}
	return PT_NODE_PLAIN;
}
#define NODE_CLASS(key) node_class_of((key)->address)

/* Names are copied straight from the job's memory into a record, without a buffer in between. */
#define NAMES_ARE_READ_IN_PLACE
struct long_name;

static __always_inline struct long_name *take_name(void)
{
	return (struct long_name *)proftrace_control; /* not NULL */
}

static __always_inline void give_name_back(struct long_name *name)
{
	(void)name;
}

static __always_inline long read_long_name(struct long_name *name, __u64 characters)
{
	const char *text = (const char *)characters;
	__u32 length = 0;

	(void)name;
	if (characters < 0x10000)
		return -1;
	while (length < PT_NAME_BYTES + 1 && text[length])
		++length;
	return length + 1;
}

static __always_inline long read_name_bytes(struct long_name *name, __u64 characters, __u64 bytes)
{
	(void)name, (void)bytes;
	return characters < 0x10000;
}

static __always_inline void put_name(char *text, const struct long_name *name, __u64 characters,
				     __u32 length)
{
	(void)name;
	copy_bytes(text, (const char *)characters, length < PT_TEXT_BYTES ? length : PT_TEXT_BYTES);
}

static __always_inline struct pt_place *value_place(__u32 number)
{
	__u64 places = FIELD(__u64, proftrace_control, PATCH_CONTROL_PLACES);

	if (!places || number > FIELD(__u64, proftrace_control, PATCH_CONTROL_PLACE_COUNT))
		return NULL;
	return (struct pt_place *)places + number - 1;
}
#define VALUE_PLACE(key) value_place(*(key))

static __always_inline __u32 *annotation_step(__u64 operator_def, __u32 *step)
{
	for (int i = 0; i < PATCH_ANNOTATIONS; ++i) {
		__u64 known = FIELD(__u64, proftrace_control, PATCH_CONTROL_ANNOTATIONS + 16 * i);

		if (!known)
			break;
		if (known == operator_def) {
			*step =
			    FIELD(__u64, proftrace_control, PATCH_CONTROL_ANNOTATIONS + 16 * i + 8);
			return step;
		}
	}
	return NULL;
}
#define ANNOTATION_STEP(key) annotation_step((key)->address, &(__u32){0})

/* Returns the pending enter of this thread (struct pending_enter), or NULL. A call that throws
 * leaves one behind, whose Stack is gone; it is replaced before the thread's next call of this kind
 * ends. */
static __always_inline void *pending_enter(void)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	return slot && FIELD(__u64, slot, PATCH_SLOT_ENTER) ? slot + PATCH_SLOT_ENTER : NULL;
}

static __always_inline void set_pending_enter(__u64 stack, __u64 sp)
{
	char *ring = job_ring();
	char *slot = ring ? own_slot(ring) : NULL;

	if (!slot)
		return;
	FIELD(__u64, slot, PATCH_SLOT_ENTER) = stack;
	FIELD(__u64, slot, PATCH_SLOT_ENTER + 8) = sp;
}
#define PENDING_ENTER(tid) ((void)(tid), pending_enter())
#define KEEP_PENDING_ENTER(tid, pending)                                                           \
	((void)(tid), set_pending_enter((pending)->stack, (pending)->sp))
#define DROP_PENDING_ENTER(tid) ((void)(tid), set_pending_enter(0, 0))
#define DROP_STALE_ENTER() set_pending_enter(0, 0)

#endif
