/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds sequence numbers. torch gives one to an operator whose dispatch key set has an autograd key
 * while gradients are on (c10::Dispatcher::sequenceNumberForRunningRecordFunction): the number that
 * the next node of the thread will have. Both the number and the mode are thread_local variables of
 * torch. Their addresses are looked up once for each thread, in the way of glibc's __tls_get_addr.
 */
#ifndef PROFTRACE_BPF_AUTOGRAD_H
#define PROFTRACE_BPF_AUTOGRAD_H

#include "bpf/shared/common.bpf.h"
#include "bpf/shared/registers.bpf.h"

/* Code in a job keeps no addresses of a thread's variables (bpf/job/job_helpers.h). */
#ifndef NO_AUTOGRAD_PLACES
#include "bpf/shared/autograd_places.bpf.h"
#endif

/* Key: tgid. Filled by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct pt_autograd_layout);
} autograd_layouts SEC(".maps");

/* The addresses of a thread's variables, or a code of variable_address(); and whether the thread's
 * number has been recorded. The entry is removed when the thread ends (process.bpf.c). */
struct autograd_thread {
	__u64 sequence;
	__u64 grad_mode;
	__u64 number;
	__u64 announced;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); /* the kernel's tid */
	__type(value, struct autograd_thread);
} autograd_threads SEC(".maps");

static __always_inline void forget_autograd_thread(__u32 tid)
{
	free_autograd_place(tid);
	bpf_map_delete_elem(&autograd_threads, &tid);
}

#define NO_SEQUENCE (-1)
#define VARIABLE_UNALLOCATED 0 /* the thread has not used it yet: it has its initial value */
#define VARIABLE_UNREADABLE 1

/*
 * Returns the address of a variable of the thread whose control block is at `thread_pointer`, or
 * one of the codes above. glibc's struct pthread begins with a pointer to itself and the pointer to
 * the dtv. dtv[-1] is the number of modules that the dtv has room for; dtv[module] (16 bytes each)
 * is the address of the module's variables, where -1 or 0 = they are not allocated yet.
 */
static __noinline __u64 variable_address(__u64 thread_pointer,
					 const struct pt_thread_variable *variable)
{
	__u64 head[2];
	__u64 index[2];
	__u64 modules;
	__u64 block;

	if (!variable)
		return VARIABLE_UNREADABLE;
	if (bpf_probe_read_user(index, sizeof(index), (void *)variable->index) ||
	    bpf_probe_read_user(head, sizeof(head), (void *)thread_pointer) ||
	    head[0] != thread_pointer ||
	    bpf_probe_read_user(&modules, sizeof(modules), (void *)(head[1] - 16)))
		return VARIABLE_UNREADABLE;
	if (!index[0])
		return VARIABLE_UNREADABLE; /* the library is not linked yet */
	if (index[0] > modules)
		return VARIABLE_UNALLOCATED;
	if (bpf_probe_read_user(&block, sizeof(block), (void *)(head[1] + 16 * index[0])))
		return VARIABLE_UNREADABLE;
	if (!block || block == (__u64)-1)
		return VARIABLE_UNALLOCATED;
	return block + index[1] + variable->offset;
}

/* Code in a job can tell whether it has recorded its thread's number already
 * (bpf/job/job_helpers.h). */
#ifndef IS_ANNOUNCED
#define IS_ANNOUNCED() 0
#endif

static __noinline int announce_thread(__u64 number)
{
	return write_pointer(0, 0, PT_THREAD_NUMBER, number);
}

/* Finds the addresses of the thread's variables. Returns false if some of them are not allocated
 * yet, and so have their initial values, or if they could not be found. */
static __noinline int find_variables(struct autograd_thread *thread)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 tgid = current_tgid();
	struct pt_autograd_layout *layout = bpf_map_lookup_elem(&autograd_layouts, &tgid);
	__u64 pointer = BPF_CORE_READ(task, thread.fsbase);
	__u64 set_address;
	__u8 is_set = 0;

	if (!thread)
		return 0;
	thread->sequence = VARIABLE_UNREADABLE;
	thread->announced = IS_ANNOUNCED();
	if (!layout)
		return 0;
	thread->sequence = variable_address(pointer, &layout->sequence);
	thread->grad_mode = variable_address(pointer, &layout->grad_mode);
	thread->number = variable_address(pointer, &layout->thread_number);
	set_address = variable_address(pointer, &layout->grad_mode_set);
	if (set_address > VARIABLE_UNREADABLE &&
	    bpf_probe_read_user(&is_set, sizeof(is_set), (void *)set_address))
		set_address = VARIABLE_UNREADABLE;
	if (set_address == VARIABLE_UNREADABLE)
		thread->sequence = VARIABLE_UNREADABLE;
	if (!is_set)
		thread->grad_mode = VARIABLE_UNALLOCATED;
	return is_set && thread->sequence > VARIABLE_UNREADABLE &&
	       thread->grad_mode > VARIABLE_UNREADABLE && thread->number > VARIABLE_UNREADABLE;
}

/* Does what sequence_number() does, for a thread that has no place (autograd_places.bpf.h): it is
 * not known yet, or torch has not given it a number yet, or another thread has its place. */
static __noinline __s64 first_sequence_number(int any_mode)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct autograd_thread *thread = bpf_map_lookup_elem(&autograd_threads, &tid);
	struct autograd_thread found = {};
	__u64 number = 0;
	__s64 sequence = 0;
	__u8 mode = 1;

	if (!thread) {
		if (find_variables(&found))
			bpf_map_update_elem(&autograd_threads, &tid, &found, BPF_ANY);
		if (found.sequence == VARIABLE_UNREADABLE ||
		    found.grad_mode == VARIABLE_UNREADABLE) {
			count_drop(PT_DROP_READ_FAILED);
			return NO_SEQUENCE;
		}
		thread = bpf_map_lookup_elem(&autograd_threads, &tid);
		if (!thread)
			thread = &found;
	}
	if (!any_mode && thread->grad_mode > VARIABLE_UNREADABLE &&
	    bpf_probe_read_user(&mode, sizeof(mode), (void *)thread->grad_mode)) {
		count_drop(PT_DROP_READ_FAILED);
		return NO_SEQUENCE;
	}
	if (!(mode & 1))
		return NO_SEQUENCE;
	if (thread->sequence > VARIABLE_UNREADABLE &&
	    bpf_probe_read_user(&sequence, sizeof(sequence), (void *)thread->sequence)) {
		count_drop(PT_DROP_READ_FAILED);
		return NO_SEQUENCE;
	}
	if (!thread->announced && thread->number > VARIABLE_UNREADABLE &&
	    !bpf_probe_read_user(&number, sizeof(number), (void *)thread->number) && number)
		thread->announced = announce_thread(number);
	/* Only a thread that has all of this gets a place. Any other thread is looked at again the
	 * next time, because it may get its gradient mode later. */
	if (thread->announced && thread->sequence > VARIABLE_UNREADABLE &&
	    thread->grad_mode > VARIABLE_UNREADABLE)
		take_autograd_place(tid, thread->sequence, thread->grad_mode);
	return sequence;
}

#define SEQUENCE_UNREADABLE (-2)

/* This is not inline, for the reason given at read_word(). */
static __noinline __s64 read_sequence(__u64 sequence_address, __u64 mode_address)
{
	__s64 sequence;
	__u8 mode;

	if (mode_address) {
		if (bpf_probe_read_user(&mode, sizeof(mode), (void *)mode_address))
			return SEQUENCE_UNREADABLE;
		if (!(mode & 1))
			return NO_SEQUENCE;
	}
	if (bpf_probe_read_user(&sequence, sizeof(sequence), (void *)sequence_address))
		return SEQUENCE_UNREADABLE;
	return sequence;
}

/* Returns what at::sequence_number::peek() gives on this thread; NO_SEQUENCE if gradients are off.
 * `any_mode`: returns the number whether gradients are on or off. */
static __always_inline __s64 sequence_number(int any_mode)
{
	__u64 sequence_address;
	__u64 mode_address;
	__s64 sequence;

	if (unlikely(
		!read_autograd_place(bpf_get_current_pid_tgid(), &sequence_address, &mode_address)))
		return first_sequence_number(any_mode);
	sequence = read_sequence(sequence_address, any_mode ? 0 : mode_address);
	if (unlikely(sequence == SEQUENCE_UNREADABLE)) {
		count_drop(PT_DROP_READ_FAILED);
		return NO_SEQUENCE;
	}
	return sequence;
}

/* Whether torch records the sequence number for the dispatch key set, whose place the cookie
 * tells. */
static __always_inline bool has_autograd_key(struct pt_regs *ctx, __u64 cookie, __u32 lowest_key,
					     bool highest_only)
{
	__u64 keys = hardware_register_here(ctx, (cookie >> 24) & 0xf);

	if ((cookie >> 24) & PT_KEY_SET_IN_MEMORY)
		keys = read_word(keys + (__s64)(__s16)(cookie >> 32));
	keys >>= lowest_key & 63;
	/* The lowest three bits are those of the autograd keys. Bits above them are those of keys
	 * with a higher priority. */
	return (keys & 7) && !(highest_only && (keys >> 3));
}

static __noinline int write_sequence(__u64 sp, __s64 number)
{
	if (number >= 0)
		write_pointer(sp, 0, PT_SEQUENCE, number);
	return 0;
}

/* Returns the time for a record that was begun at `time_ns`. Returns 0 if a PT_LOSS may have to be
 * written first: the record then takes its time after that, so that it is not earlier. */
static __always_inline __u64 time_in_order(__u64 time_ns)
{
	return unlikely(threads_with_losses) ? 0 : time_ns;
}

/* Writes the begin of the operator at `site`. `time_ns`: from time_in_order(); 0 = the time of the
 * writing. */
static __always_inline int write_operator_begin(__u64 sp, __u64 site, __s64 number, __u64 time_ns)
{
	struct pt_pointer_record *record;
	struct pt_record *plain;

	if (number < 0) {
		plain = reserve(sizeof(*plain));
		if (unlikely(!plain))
			return 0;
		fill_head_at(plain, time_ns ?: bpf_ktime_get_ns(), sp, site, PT_SPAN_BEGIN,
			     sizeof(*plain));
		submit(plain);
		return 0;
	}
	record = reserve(sizeof(*record));
	if (unlikely(!record))
		return 0;
	fill_head_at(&record->head, time_ns ?: bpf_ktime_get_ns(), sp, site, PT_SPAN_BEGIN,
		     sizeof(*record));
	record->value = number;
	submit(record);
	return 0;
}

/* Returns the stack pointer that the operator of a PT_ROLE_OPERATOR_BEGIN was called with. */
static __always_inline __u64 entry_sp(struct pt_regs *ctx, __u64 cookie)
{
	return PT_REGS_SP(ctx) + (cookie >> 48 & (PT_FRAME_WORDS_LIMIT - 1)) * 8;
}

/* Returns the sequence number of the operator with that cookie, or NO_SEQUENCE. */
static __always_inline __s64 operator_sequence(struct pt_regs *ctx, __u64 cookie)
{
	return has_autograd_key(ctx, cookie, cookie >> 57, cookie >> 63) ? sequence_number(0)
									 : NO_SEQUENCE;
}

static __always_inline int on_operator_begin(struct pt_regs *ctx, __u64 cookie)
{
	/* The time is taken first, so that the time of reading counts as a cost of the probe. */
	__u64 time_ns = bpf_ktime_get_ns();
	__u64 sp = entry_sp(ctx, cookie);
	__s64 number = operator_sequence(ctx, cookie);

	return write_operator_begin(sp, cookie, number, time_in_order(time_ns));
}

/* Writes the sequence number of an operator whose begin has been written (PT_ROLE_PLACED_BEGIN). */
static __always_inline void write_placed_sequence(struct pt_regs *ctx, __u64 cookie)
{
	__u32 tgid = current_tgid();
	struct pt_autograd_layout *layout;

	if (!((cookie >> 24) & PT_KEY_SET_KNOWN))
		return;
	layout = bpf_map_lookup_elem(&autograd_layouts, &tgid);
	if (layout && has_autograd_key(ctx, cookie, layout->lowest_key, layout->highest_only))
		write_sequence(PT_REGS_SP(ctx), sequence_number(0));
}

/* The first words of a torch::autograd::Node, of which its vtable is the first. In every known
 * build sequence_nr_ and thread_id_ are among them, and one read is cheaper than three. */
#define NODE_HEAD_WORDS 8

struct node_head {
	__u64 words[NODE_HEAD_WORDS];
};

static __always_inline __u32 node_sequence_word(__u64 cookie)
{
	return cookie >> 48 & 0xff;
}

static __always_inline __u32 node_thread_word(__u64 cookie)
{
	return cookie >> 56 & 0xff;
}

/* Reads the node's first words, or only the vtable if the cookie asks for no more. */
static __always_inline void read_node_head(struct node_head *head, __u64 node, __u64 cookie)
{
	if (node_sequence_word(cookie)) {
		if (!bpf_probe_read_user(head, sizeof(*head), (void *)node))
			return;
		count_drop(PT_DROP_READ_FAILED);
	}
	__builtin_memset(head, 0xff, sizeof(*head));
	head->words[0] = read_word(node);
}

/* Returns a word of the node; negative: the word could not be read. */
static __always_inline __s64 node_word(const struct node_head *head, __u64 node, __u32 index)
{
	__s64 word = NO_SEQUENCE;

	barrier_var(index);
	if (index < NODE_HEAD_WORDS)
		return head->words[index];
	if (bpf_probe_read_user(&word, sizeof(word), (void *)(node + index * 8))) {
		count_drop(PT_DROP_READ_FAILED);
		return NO_SEQUENCE;
	}
	return word;
}

static __always_inline void write_node_forward(__u64 time_ns, __u64 sp, __u64 cookie,
					       const struct node_head *head, __u64 node)
{
	struct pt_pair_record *record;
	__s64 sequence;
	__s64 thread;

	if (!node_sequence_word(cookie))
		return;
	sequence = node_word(head, node, node_sequence_word(cookie));
	thread = node_word(head, node, node_thread_word(cookie));
	/* The highest unsigned number, which is -1 here, is no operator's: AccumulateGrad has it,
	 * so that it runs first. */
	if (sequence < 0 || thread < 0)
		return;
	record = reserve(sizeof(*record));
	if (!record)
		return;
	fill_head_at(&record->head, time_ns, sp, 0, PT_NODE_FORWARD, sizeof(*record));
	record->handle = sequence;
	record->object = thread;
	submit(record);
}

#endif
