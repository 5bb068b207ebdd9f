// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Operators, autograd nodes, annotations and catches: one program for every uprobe. The attach
 * cookie says what the probe means (bpf/abi/records.h); the common roles write 24 bytes and read no
 * memory of the target.
 */
#include "bpf/common.bpf.h"

/* profiler::_record_function_enter and friends. Key: tgid and OperatorDef*; value: enum
 * pt_annotation_step. */
struct annotation_key {
	__u64 operator_def;
	__u64 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct annotation_key);
	__type(value, __u32);
} annotation_operators SEC(".maps");

/* Vtables of autograd nodes that each process has run; value: enum pt_node_class. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct annotation_key); /* the vtable in place of the operator */
	__type(value, __u32);
} node_vtables SEC(".maps");

/* An annotation's enter that runs on this thread: where its Stack is, to read the handle when it
 * returns. */
struct pending_enter {
	__u64 stack;
	__u64 sp;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct pending_enter);
} pending_enters SEC(".maps");

/* A load of its own for each register: the verifier refuses a context offset that is computed. */
#define LOAD_REGISTER(value)                                                                       \
	({                                                                                         \
		__u64 loaded = (value);                                                            \
		asm volatile("" : "+r"(loaded));                                                   \
		loaded;                                                                            \
	})

static __always_inline __u64 read_register(struct pt_regs *ctx, __u32 reg)
{
	switch (reg) {
	case PT_RDI:
		return LOAD_REGISTER(PT_REGS_PARM1(ctx));
	case PT_RSI:
		return LOAD_REGISTER(PT_REGS_PARM2(ctx));
	case PT_RDX:
		return LOAD_REGISTER(PT_REGS_PARM3(ctx));
	case PT_RCX:
		return LOAD_REGISTER(PT_REGS_PARM4(ctx));
	case PT_R8:
		return LOAD_REGISTER(PT_REGS_PARM5(ctx));
	case PT_R9:
		return LOAD_REGISTER(ctx->r9);
	}
	return 0;
}

/* In the way of every operator: a call less. Elsewhere hardware_register() keeps the code small. */
static __always_inline __u64 hardware_register_here(struct pt_regs *ctx, __u32 number)
{
	switch (number) {
	case 0:
		return LOAD_REGISTER(ctx->ax);
	case 1:
		return LOAD_REGISTER(ctx->cx);
	case 2:
		return LOAD_REGISTER(ctx->dx);
	case 3:
		return LOAD_REGISTER(ctx->bx);
	case 4:
		return LOAD_REGISTER(ctx->sp);
	case 5:
		return LOAD_REGISTER(ctx->bp);
	case 6:
		return LOAD_REGISTER(ctx->si);
	case 7:
		return LOAD_REGISTER(ctx->di);
	case 8:
		return LOAD_REGISTER(ctx->r8);
	case 9:
		return LOAD_REGISTER(ctx->r9);
	case 10:
		return LOAD_REGISTER(ctx->r10);
	case 11:
		return LOAD_REGISTER(ctx->r11);
	case 12:
		return LOAD_REGISTER(ctx->r12);
	case 13:
		return LOAD_REGISTER(ctx->r13);
	case 14:
		return LOAD_REGISTER(ctx->r14);
	case 15:
		return LOAD_REGISTER(ctx->r15);
	}
	return 0;
}

static __noinline __u64 hardware_register(struct pt_regs *ctx, __u32 number)
{
	return hardware_register_here(ctx, number);
}

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		count_drop(PT_DROP_READ_FAILED);
	return word;
}

/* c10::IValue is 16 bytes: payload, tag. The Stack is a std::vector of them: begin, end, capacity.
 */
#define IVALUE_BYTES 16

/*
 * The text of an IValue's string (c10::ivalue::ConstantString: an intrusive_ptr_target, then a
 * std::string). The target's header is vtable + two 4-byte counts, or (2.1 and before) vtable + two
 * 8-byte counts: the word at +16 is the string's first word, or a small count. A std::string is
 * {characters, length, ...}; in the pre-C++11 ABI it is one pointer, and the length lies 24 bytes
 * before the characters.
 */
static __always_inline __u32 read_string_ivalue(__u64 object, bool old_abi, char *text,
						__u64 *characters)
{
	__u64 words[2]; /* characters, length */
	__u32 bytes;

	if (bpf_probe_read_user(words, sizeof(words), (void *)(object + 16)))
		return PT_TEXT_READ_FAILED;
	if (words[0] < 0x10000 && bpf_probe_read_user(words, sizeof(words), (void *)(object + 24)))
		return PT_TEXT_READ_FAILED;
	if (old_abi && bpf_probe_read_user(&words[1], sizeof(words[1]), (void *)(words[0] - 24)))
		return PT_TEXT_READ_FAILED;
	if (words[1] > 0x10000000)
		return PT_TEXT_READ_FAILED;
	bytes = words[1] < PT_TEXT_BYTES ? words[1] : PT_TEXT_BYTES;
	if (bytes && bpf_probe_read_user(text, bytes, (void *)words[0]))
		return PT_TEXT_READ_FAILED;
	*characters = words[0];
	return words[1];
}

/* A name's bytes from `offset` on. Two of these hold what PT_NAME_BYTES leaves after the first
 * record. */
static __always_inline void write_more_text(__u64 sp, __u64 characters, __u32 length, __u32 offset)
{
	struct pt_text_more_record *record;
	__u32 bytes = length - offset;

	if (length <= offset)
		return;
	record = reserve(sizeof(*record));
	if (!record)
		return;
	fill_head(&record->head, sp, 0, PT_TEXT_MORE, sizeof(*record));
	/* What is compared is what is used: the verifier knows no other bound. */
	asm volatile("" : "+r"(bytes));
	if (bytes > PT_TEXT_MORE_BYTES)
		bytes = PT_TEXT_MORE_BYTES;
	record->offset = offset;
	record->bytes = bytes;
	if (bpf_probe_read_user(record->text, bytes, (void *)(characters + offset))) {
		record->bytes = 0;
		count_drop(PT_DROP_READ_FAILED);
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#include "bpf/autograd.bpf.h"
#include "bpf/guards.bpf.h"
#include "bpf/ranges.bpf.h"
#include "bpf/inputs.bpf.h"
#include "bpf/row_inputs.bpf.h"
#include "bpf/python_stacks.bpf.h"

static __always_inline void write_annotation_begin(__u64 sp, __u64 stack, bool old_abi)
{
	struct pt_text_record *record;
	__u64 characters = 0;
	__u32 length;
	__u64 top;

	/* Arguments: the name, then an optional string: the name is the last but one. */
	top = read_word(stack + 8);
	if (config_record_shapes && top && (__u32)read_word(top - 8) != IVALUE_NONE)
		write_annotation_inputs(sp);
	record = reserve(sizeof(*record));
	if (!record)
		return;
	fill_head(&record->head, sp, 0, PT_ANNOTATION_BEGIN, sizeof(*record));
	record->reserved = 0;
	length = PT_TEXT_READ_FAILED;
	if (top)
		length = read_string_ivalue(read_word(top - 2 * IVALUE_BYTES), old_abi,
					    record->text, &characters);
	record->length = length;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	if (length == PT_TEXT_READ_FAILED) {
		count_drop(PT_DROP_READ_FAILED);
		return;
	}
	write_more_text(sp, characters, length, PT_TEXT_BYTES);
	write_more_text(sp, characters, length, PT_TEXT_BYTES + PT_TEXT_MORE_BYTES);
}

static __always_inline void write_handle(__u64 sp, __u8 kind, __u64 stack)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));
	__u64 top;

	if (!record)
		return;
	fill_head(&record->head, sp, 0, kind, sizeof(*record));
	/* The handle is the last value: the only argument of the exit, the result of the enter. */
	top = read_word(stack + 8);
	record->value = top ? read_word(top - IVALUE_BYTES) : 0;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Dispatcher::callBoxed(op, stack): the operator by its OperatorDef*, and annotations by their
 * enter and exit. */
static __noinline int on_boxed_begin(struct pt_regs *ctx, __u64 cookie)
{
	struct annotation_key key = {.tgid = current_tgid()};
	struct pt_pointer_record *record;
	__u64 sp = PT_REGS_SP(ctx);
	__u64 stack;
	__u32 *step;

	if (config_record_shapes && cookie >> 48)
		on_inputs(ctx, cookie, PT_INPUTS);
	key.operator_def = read_word(read_register(ctx, (cookie >> 24) & 0xff));
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(&record->head, sp, cookie, PT_BOXED_BEGIN, sizeof(*record));
	record->value = key.operator_def;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);

	step = bpf_map_lookup_elem(&annotation_operators, &key);
	if (!step)
		return 0;
	stack = read_register(ctx, (cookie >> 32) & 0xff);
	if ((*step & PT_ANNOTATION_STEP_MASK) == PT_ANNOTATION_ENTER) {
		struct pending_enter pending = {.stack = stack, .sp = sp};
		__u32 tid = (__u32)bpf_get_current_pid_tgid();

		write_annotation_begin(sp, stack, *step & PT_ANNOTATION_OLD_STRINGS);
		bpf_map_update_elem(&pending_enters, &tid, &pending, BPF_ANY);
	} else {
		write_handle(sp, PT_ANNOTATION_END, stack);
	}
	return 0;
}

static __noinline int on_boxed_end(struct pt_regs *ctx, __u64 cookie)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct pending_enter *pending = bpf_map_lookup_elem(&pending_enters, &tid);
	__u64 sp = PT_REGS_SP(ctx);
	struct pt_record *record;

	/* The enter's own exit: below its entry's stack pointer, with no callBoxed of its own in
	 * between. */
	if (pending && sp <= pending->sp) {
		write_handle(sp, PT_ANNOTATION_HANDLE, pending->stack);
		bpf_map_delete_elem(&pending_enters, &tid);
	}
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(record, sp, cookie, PT_SPAN_END, sizeof(*record));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* torch::autograd::Node*: its vtable names its class; a PyNode's class is that of its Python
 * object. */
static __noinline int on_node_begin(struct pt_regs *ctx, __u64 cookie)
{
	struct annotation_key key = {.tgid = current_tgid()};
	__u64 node = read_register(ctx, (cookie >> 24) & 0xff);
	__u16 object_offset = cookie >> 32;
	struct node_head head = {};
	__u64 vtable;
	__u64 python_type = 0;
	__u64 wakeup = BPF_RB_NO_WAKEUP;
	struct pt_node_record *record;
	__u32 *node_class;

	/* The engine's row has no inputs, and no offsets in its cookie. */
	if (config_record_shapes && cookie >> 48)
		on_node_inputs(ctx, cookie);
	read_node_head(&head, node, cookie);
	vtable = head.words[0];
	key.operator_def = vtable;
	node_class = bpf_map_lookup_elem(&node_vtables, &key);
	if (unlikely(!node_class)) {
		__u32 seen = PT_NODE_SEEN;

		/* The loader reads the name from the process, which may end soon: it is told at
		 * once, but not again and again when the map is full. */
		if (!bpf_map_update_elem(&node_vtables, &key, &seen, BPF_NOEXIST))
			wakeup = BPF_RB_FORCE_WAKEUP;
	}
	if (object_offset && !(node_class && *node_class == PT_NODE_PLAIN)) {
		__u64 object = 0;

		/* Other nodes may be smaller: what is read behind them is ignored, and so is a
		 * failure. */
		if (!bpf_probe_read_user(&object, sizeof(object), (void *)(node + object_offset)))
			bpf_probe_read_user(&python_type, sizeof(python_type),
					    (void *)(object + 8));
	}
	if (python_type && node_class && *node_class == PT_NODE_PYTHON) {
		record = reserve(sizeof(*record));
		if (!record)
			return 0;
		fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_NODE_BEGIN, sizeof(*record));
		/* PyTypeObject: ob_base (refcount, type, size), then tp_name. */
		if (bpf_probe_read_user_str(record->type_name, sizeof(record->type_name),
					    (void *)read_word(python_type + 24)) < 0)
			record->type_name[0] = 0;
	} else {
		record = reserve(PT_NODE_RECORD_SHORT_BYTES);
		if (!record)
			return 0;
		fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_NODE_BEGIN,
			  PT_NODE_RECORD_SHORT_BYTES);
	}
	record->vtable = vtable;
	record->python_type = python_type;
	bpf_ringbuf_submit(record, wakeup);
	write_node_forward(PT_REGS_SP(ctx), cookie, &head, node);
	return 0;
}

static __always_inline int on_sized_begin(struct pt_regs *ctx, __u64 cookie)
{
	write_pointer(PT_REGS_SP(ctx), cookie, PT_SIZED_BEGIN,
		      read_register(ctx, (cookie >> 24) & 0xff));
	return 0;
}

static __always_inline int write_plain(struct pt_regs *ctx, __u64 cookie, __u8 kind)
{
	struct pt_record *record = reserve(sizeof(*record));

	if (unlikely(!record))
		return 0;
	fill_head(record, PT_REGS_SP(ctx), cookie, kind, sizeof(*record));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Rows that have a stack of Python's. */
static __always_inline bool begins_row(__u8 role)
{
	const __u64 rows = 1ULL << PT_ROLE_BEGIN | 1ULL << PT_ROLE_BOXED_BEGIN |
			   1ULL << PT_ROLE_NODE_BEGIN | 1ULL << PT_ROLE_LITERAL_BEGIN |
			   1ULL << PT_ROLE_GUARD_BEGIN | 1ULL << PT_ROLE_FRAME_BEGIN |
			   1ULL << PT_ROLE_PLACED_BEGIN | 1ULL << PT_ROLE_WORK_BEGIN |
			   1ULL << PT_ROLE_INPUTS_BEGIN | 1ULL << PT_ROLE_OPERATOR_BEGIN |
			   1ULL << PT_ROLE_OPERATOR_CALL;

	if (role >= 64)
		return role == PT_ROLE_RANGE_PUSH || role == PT_ROLE_RANGE_MARK ||
		       role == PT_ROLE_SIZED_BEGIN;
	return rows >> role & 1;
}

/* Of these rows the end is always seen, or an exception's catch. */
static __always_inline bool is_operator(__u8 role)
{
	return role == PT_ROLE_OPERATOR_BEGIN || role == PT_ROLE_BEGIN ||
	       role == PT_ROLE_OPERATOR_CALL || role == PT_ROLE_INPUTS_BEGIN;
}

/* "/uprobe" says nothing: libbpf before 0.7 knows programs by names with a slash only. */
SEC("kprobe/uprobe")
int on_probe(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u8 role = cookie >> 16;

	if (unlikely(stopped))
		return 0;
	if (config_with_stack) {
		if (begins_row(role))
			on_python_stack(PT_REGS_SP(ctx), cookie, is_operator(role));
		else if (role == PT_ROLE_END || role == PT_ROLE_CATCH)
			on_python_row_end(cookie);
	}
	/* In the order of how often they come. */
	if (role == PT_ROLE_END)
		return write_plain(ctx, cookie, PT_SPAN_END);
	if (role == PT_ROLE_OPERATOR_BEGIN)
		return on_operator_begin(ctx, cookie);
	if (config_record_shapes && role == PT_ROLE_OPERATOR_CALL)
		return on_operator_call(ctx, cookie);
	if (config_record_shapes && role == PT_ROLE_INPUTS_BEGIN) {
		on_inputs(ctx, cookie, PT_INPUTS);
		role = PT_SPAN_BEGIN;
	}
	if (unlikely(role > PT_ROLE_CATCH)) {
		if (config_record_shapes && role == PT_ROLE_SPILLED_INPUTS)
			return on_inputs(ctx, cookie, PT_SPILLED_INPUTS);
		switch (role) {
		case PT_ROLE_SEQUENCE:
			return write_sequence(entry_sp(ctx, cookie),
					      operator_sequence(ctx, cookie));
		case PT_ROLE_BOXED_BEGIN:
			return on_boxed_begin(ctx, cookie);
		case PT_ROLE_BOXED_END:
			return on_boxed_end(ctx, cookie);
		case PT_ROLE_NODE_BEGIN:
			return on_node_begin(ctx, cookie);
		case PT_ROLE_LITERAL_BEGIN:
			role = PT_LITERAL_BEGIN;
			break;
		case PT_ROLE_COST:
			role = PT_COST;
			break;
		case PT_ROLE_COST_AGAIN:
			role = PT_COST_AGAIN;
			break;
		case PT_ROLE_ALLOCATION:
			return on_allocation(ctx);
		case PT_ROLE_FREE:
			return on_free(ctx);
		case PT_ROLE_CPU_OUT_OF_MEMORY:
			return on_cpu_out_of_memory(ctx);
		case PT_ROLE_DEVICE_MEMORY:
			return on_device_memory(ctx);
		case PT_ROLE_DEVICE_OUT_OF_MEMORY:
			return on_device_out_of_memory(ctx);
		case PT_ROLE_SIZED_BEGIN:
			return on_sized_begin(ctx, cookie);
		case PT_ROLE_RANGE_PUSH:
		case PT_ROLE_RANGE_POP:
		case PT_ROLE_RANGE_MARK:
			return on_range(ctx, cookie);
		default:
			/* Only begins have a place whose row has inputs. */
			if (config_record_shapes)
				write_row_inputs(ctx, cookie);
			return on_guard(ctx, cookie);
		}
	}
	return write_plain(ctx, cookie, role);
}

/* The floor: what the kernel takes for the same probes when nothing is recorded (tests/bench). */
SEC("kprobe/uprobe")
int on_probe_empty(struct pt_regs *ctx)
{
	return 0;
}
