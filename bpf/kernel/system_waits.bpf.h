/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Tells what a thread waits for in futex(2): a lock that another thread holds, or anything else
 * that another thread does (a condition variable, a semaphore, a queue, a barrier, a thread's end).
 * For C and C++, the value that the call expects in the word tells it. Python's locks are
 * semaphores, and Python's threads wait for work by semaphores as well; for these, the object and
 * the innermost frame tell it.
 *
 *   futex(word, op, value)
 *     value is one that a lock has while others wait for it --------------------------- lock
 *     any value, word in the interpreter's own lock ----------------------------------- lock, GIL
 *     value 0, word in a lock of threading (not in its wait() or join()), an RLock,
 *       or a lock of multiprocessing -------------------------------------------------- lock
 *     anything else ------------------------------------------------------------------- event
 */
#ifndef PROFTRACE_BPF_SYSTEM_WAITS_H
#define PROFTRACE_BPF_SYSTEM_WAITS_H

#include "bpf/shared/python_state.bpf.h"
#include "bpf/kernel/system.bpf.h"

/* The numbers of these calls on x86-64. */
#define FUTEX 202
#define FUTEX_WAITV_CALL 449
#define FUTEX_WAIT_CALL 455

/* include/uapi/linux/futex.h */
#define FUTEX_COMMANDS 0x7f
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAIT_REQUEUE_PI 11
#define FUTEX_LOCK_PI2 13

/* The values that a lock's word has while threads wait for it, and others that look like these. */
#define CONTENDED_LOCK 2    /* glibc's mutexes and its own locks; Rust's std::sync::Mutex */
#define CONTENDED_RW_LOCK 3 /* glibc's rwlocks, with FUTEX_WAIT_BITSET */
#define WAITERS                                                                                    \
	0x80000000U /* robust mutexes have this bit beside the tid of their holder; a semaphore of \
		       libgomp has it alone */
#define CONTENDED_OPENMP_LOCK                                                                      \
	-1U /* libgomp's mutexes have it, with FUTEX_WAIT; so does Rust's std::thread::park, with  \
	       FUTEX_WAIT_BITSET */
#define CONTENDED_GUARD                                                                            \
	0x10100 /* __cxa_guard_acquire has it, while another thread makes the static variable */

/* Whether a word has this value because it is that of a lock that others wait for. `is_bitset`: the
 * call waits as FUTEX_WAIT_BITSET does. */
static __always_inline bool is_lock_value(__u32 value, bool is_bitset)
{
	if (value == CONTENDED_LOCK)
		return true;
	if (is_bitset)
		return value == CONTENDED_RW_LOCK ||
		       (value > WAITERS && value != CONTENDED_OPENMP_LOCK);
	return value > WAITERS || value == CONTENDED_GUARD;
}

/* Returns PT_OFF_CPU_LOCK or PT_OFF_CPU_EVENT; 0 if the thread does not wait in a call of futex. */
static __always_inline __u8 told_by_futex(struct pt_regs *regs, __s32 number)
{
	bool is_bitset = true;
	__u32 value = regs->dx;

	if (number == FUTEX_WAITV_CALL)
		return PT_OFF_CPU_EVENT;
	if (number == FUTEX_WAIT_CALL) {
		value = regs->si;
	} else {
		__u32 command = regs->si;

		if (number != FUTEX)
			return 0;
		command &= FUTEX_COMMANDS;
		if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
			return PT_OFF_CPU_LOCK;
		if (command == FUTEX_WAIT_REQUEUE_PI)
			return PT_OFF_CPU_EVENT;
		is_bitset = command == FUTEX_WAIT_BITSET;
		if (command != FUTEX_WAIT && !is_bitset)
			return 0;
	}
	return is_lock_value(value, is_bitset) ? PT_OFF_CPU_LOCK : PT_OFF_CPU_EVENT;
}

/* Processes whose CPython has a known layout. Key: the tgid in the tracer's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct pt_waiting_python);
} waiting_pythons SEC(".maps");

/* Threads that waited as on a semaphore when their recording began. The programs cannot read the
 * memory of a thread that is not the current one, so the loader reads it. Key: the kernel's tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct pt_begun_wait);
} begun_waits SEC(".maps");

/* The words among which the address of the awaited object is searched for: the registers that
 * functions preserve, and the innermost part of the thread's stack. The address is there because
 * the C functions that wait need it after the wait. */
struct wait_words {
	__u64 words[PT_WAIT_REGISTERS + PT_WAIT_STACK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_words);
} wait_buffers SEC(".maps");

struct wait_search {
	struct wait_words *words;
	__u64 semaphore;
	__u32 head; /* pt_python_layout.object_head */
	__u32 kind; /* enum pt_python_lock */
};

/* Names are compared as words, because strings would be in a section that libbpf before 0.6 does
 * not find. */
struct wait_text {
	__u64 words[4]; /* the name, with zeros behind it */
};

#define LETTER(text, i) ((i) < sizeof(text) ? (__u64)(text)[(i) < sizeof(text) ? (i) : 0] : 0)
#define LETTERS(text, i)                                                                           \
	(LETTER(text, i) | LETTER(text, i + 1) << 8 | LETTER(text, i + 2) << 16 |                  \
	 LETTER(text, i + 3) << 24 | LETTER(text, i + 4) << 32 | LETTER(text, i + 5) << 40 |       \
	 LETTER(text, i + 6) << 48 | LETTER(text, i + 7) << 56)
#define IS_TEXT(text, literal)                                                                     \
	((text).words[0] == LETTERS(literal, 0) && (text).words[1] == LETTERS(literal, 8) &&       \
	 (text).words[2] == LETTERS(literal, 16) && (text).words[3] == LETTERS(literal, 24))

/* Returns the kind (enum pt_python_lock) of the CPython object at `object`, if its lock is the one
 * at `semaphore`. The lock is at the same offset in all such objects, from 3.9 to 3.13. */
static __always_inline __u32 lock_at(__u64 object, __u64 semaphore, __u64 head)
{
	__u64 facts[2]; /* the type, the lock */
	struct wait_text text = {};
	__u32 most = 0;
	__u64 name;

	if (object < 4096 || object & 7 || object >> 47)
		return PT_PYTHON_NO_LOCK;
	if (bpf_probe_read_user(facts, sizeof(facts), (void *)(object + 8 + head)) ||
	    facts[1] != semaphore ||
	    bpf_probe_read_user(&name, sizeof(name),
				(void *)(facts[0] + PT_PYTHON_TYPE_NAME + head)) ||
	    bpf_probe_read_user_str(&text, sizeof(text), (void *)name) <= 0)
		return PT_PYTHON_NO_LOCK;
	if (IS_TEXT(text, "_thread.lock"))
		return PT_PYTHON_LOCK;
	if (IS_TEXT(text, "_thread.RLock"))
		return PT_PYTHON_OWNED_LOCK;
	/* A semaphore that never counts beyond one is a lock. */
	if (IS_TEXT(text, "_multiprocessing.SemLock") &&
	    !bpf_probe_read_user(&most, sizeof(most),
				 (void *)(object + PT_PYTHON_SEMAPHORE_MOST + head)) &&
	    most == 1)
		return PT_PYTHON_OWNED_LOCK;
	return PT_PYTHON_NO_LOCK;
}

static long visit_word(__u32 i, struct wait_search *search)
{
	if (i >= PT_WAIT_REGISTERS + PT_WAIT_STACK_WORDS)
		return 1;
	search->kind = lock_at(search->words->words[i], search->semaphore, search->head);
	return search->kind != PT_PYTHON_NO_LOCK;
}

/* Copies the last `bytes` bytes of an ASCII str, a number known at compile time. Returns false
 * if the str is shorter, if `is_whole` and it is longer, or if it could not be read. */
static __always_inline bool copy_end(struct pt_python_layout *layout, __u64 object,
				     struct wait_text *text, const __u32 bytes, bool is_whole)
{
	__u64 length = 0;

	__builtin_memset(text, 0, sizeof(*text));
	if (bpf_probe_read_user(&length, sizeof(length), (void *)(object + layout->text_length)) ||
	    length < bytes || (is_whole && length != bytes))
		return false;
	return !bpf_probe_read_user(text, bytes,
				    (void *)(object + layout->text_ascii + length - bytes));
}

#define ENDS_WITH(layout, object, text, literal, is_whole)                                         \
	(copy_end(layout, object, &(text), sizeof(literal) - 1, is_whole) && IS_TEXT(text, literal))

/* The most frames that are looked at. There are several, because frames by which C enters the
 * interpreter may lie before the innermost function. */
#define MOST_WAIT_FRAMES 3

/* Whether the thread's innermost function is one of threading's that wait for a lock which they
 * have taken themselves, or which is held as long as another thread lives. Also true if the frames
 * cannot be read, because most threads that wait long are in such a function. */
static __noinline bool waits_in_threading(struct pt_waiting_python *python, __u64 thread_id)
{
	struct pt_python_layout *layout = &python->python;
	__u64 tags = ~(__u64)layout->pointer_tags;
	struct wait_text text;
	bool is_cut = false;
	__u64 code = 0, name = 0, file = 0;
	__u64 state, frame;

	state = kept_python_state(layout, thread_id);
	if (!state)
		state = listed_python_state(layout, thread_id, &is_cut);
	if (!state)
		return true;
	frame = python_frame_of(layout, state);
	for (int i = 0; i < MOST_WAIT_FRAMES && frame; ++i) {
		__u8 owner = 0;

		if (layout->frame_owner)
			bpf_probe_read_user(&owner, 1, (void *)(frame + layout->frame_owner));
		if (!layout->frame_owner || owner < layout->owner_limit) {
			bpf_probe_read_user(&code, 8, (void *)(frame + layout->frame_code));
			break;
		}
		if (bpf_probe_read_user(&frame, 8, (void *)(frame + layout->frame_previous)))
			return true;
		frame &= tags;
	}
	code &= tags;
	if (!code || bpf_probe_read_user(&name, 8, (void *)(code + layout->code_name)) ||
	    bpf_probe_read_user(&file, 8, (void *)(code + layout->code_file)))
		return true;
	return ENDS_WITH(layout, file, text, "/threading.py", false) &&
	       (ENDS_WITH(layout, name, text, "wait", true) ||
		ENDS_WITH(layout, name, text, "_wait_for_tstate_lock", true));
}

/* Returns the kind (enum pt_python_lock) of the Python lock for which the current thread is about
 * to sleep in futex(2). The interpreter's own lock is known by its address. Other locks are
 * recognized only if the thread waits as on a semaphore. */
static __noinline __u32 awaited_python_lock(bool as_semaphore)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct wait_search search = {.semaphore = regs->di};
	__u32 tgid = tgid_of_known(task);
	struct pt_waiting_python *python = bpf_map_lookup_elem(&waiting_pythons, &tgid);
	__u32 zero = 0;

	if (!python)
		return PT_PYTHON_NO_LOCK;
	if (python->gil && search.semaphore - python->gil < PT_PYTHON_GIL_BYTES)
		return PT_PYTHON_GIL;
	if (!as_semaphore)
		return PT_PYTHON_NO_LOCK;
	search.head = python->python.object_head;
	search.words = bpf_map_lookup_elem(&wait_buffers, &zero);
	if (!search.words)
		return PT_PYTHON_NO_LOCK;
	search.words->words[0] = regs->bx;
	search.words->words[1] = regs->bp;
	search.words->words[2] = regs->r12;
	search.words->words[3] = regs->r13;
	search.words->words[4] = regs->r14;
	search.words->words[5] = regs->r15;
	if (bpf_probe_read_user(search.words->words + PT_WAIT_REGISTERS, PT_WAIT_STACK_WORDS * 8,
				(void *)regs->sp))
		return PT_PYTHON_NO_LOCK;
	bpf_loop(PT_WAIT_REGISTERS + PT_WAIT_STACK_WORDS, visit_word, &search, 0);
	if (search.kind == PT_PYTHON_LOCK &&
	    waits_in_threading(python, BPF_CORE_READ(task, thread.fsbase)))
		return PT_PYTHON_NO_LOCK;
	return search.kind;
}

/* Whether the call may be a wait for the interpreter's lock: on the lock's condition, until the
 * switch interval is over, or on its mutex. The call may be restart_syscall, because a stop has
 * interrupted the wait. */
static __always_inline bool waits_for_word(struct pt_regs *regs, __s32 number, __u8 abi)
{
	__u32 command = (__u32)regs->si & FUTEX_COMMANDS;

	return abi == PT_SYSTEM_X86_64 && (number == FUTEX || is_restart(abi, number)) &&
	       (command == FUTEX_WAIT_BITSET || command == FUTEX_WAIT);
}

/* Whether the call is a wait on a semaphore, the only kind of wait for Python's locks. If a stop
 * has interrupted the wait, restart_syscall continues it with the same registers. No other call
 * that restart_syscall continues waits for an object's lock. */
static __always_inline bool waits_as_semaphore(struct pt_regs *regs, __s32 number, __u8 abi)
{
	return abi == PT_SYSTEM_X86_64 && (number == FUTEX || is_restart(abi, number)) &&
	       !(__u32)regs->dx && ((__u32)regs->si & FUTEX_COMMANDS) == FUTEX_WAIT_BITSET;
}

/* Asks the loader which lock a thread waits for. The thread does not run. */
static __always_inline void ask_for_wait(struct task_struct *task)
{
	struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);
	struct pt_begun_wait wait = {.pid = tgid_of(task)};
	__u32 tid = BPF_CORE_READ(task, pid);
	struct pt_regs regs = {};

	bpf_probe_read_kernel(&regs, sizeof(regs), at);
	wait.thread_id = BPF_CORE_READ(task, thread.fsbase);
	wait.word = regs.di;
	wait.sp = regs.sp;
	wait.registers[0] = regs.bx;
	wait.registers[1] = regs.bp;
	wait.registers[2] = regs.r12;
	wait.registers[3] = regs.r13;
	wait.registers[4] = regs.r14;
	wait.registers[5] = regs.r15;
	bpf_map_update_elem(&begun_waits, &tid, &wait, BPF_ANY);
}

/* Notes which Python lock the thread waits for. */
static __always_inline void note_python_lock(struct system_thread *thread, __u32 lock)
{
	if (lock == PT_PYTHON_NO_LOCK)
		return;
	thread->off_flags |= PT_OFF_CPU_LOCK;
	thread->off_lock = lock == PT_PYTHON_GIL ? PT_AWAITED_GIL : PT_AWAITED_ANY;
}

/* Notes the loader's answer about the thread, once. */
static __always_inline void take_answer(struct system_thread *thread, __u32 tid)
{
	struct pt_begun_wait *wait = bpf_map_lookup_elem(&begun_waits, &tid);

	if (!wait)
		return;
	note_python_lock(thread, wait->lock);
	bpf_map_delete_elem(&begun_waits, &tid);
}

#endif
