/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads the inputs of operators where the operators' rows begin (--record-shapes). The loader tells
 * where the arguments are (struct pt_signature).
 */
#ifndef PROFTRACE_BPF_INPUTS_H
#define PROFTRACE_BPF_INPUTS_H

#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/values.bpf.h"

/* Code in a job finds these elsewhere (bpf/job/job_inputs.h). */
#ifndef SIGNATURE
#define SIGNATURE(key) bpf_map_lookup_elem(&signatures, key)
#define NODE_SIGNATURE(key) bpf_map_lookup_elem(&node_signatures, key)
#endif

/* Puts the tensors of a c10::IListRef. It has two words of payload, and then a tag: 0 = an
 * ArrayRef, 1 = the address of a c10::List. */
static __always_inline int put_tensor_items(struct input_walk *walk, __u64 address)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 object = 0;

	if (!read_words(buffer, buffer->items, 24, address)) {
		put_other(buffer, 0);
	} else if ((__u32)buffer->items[2] == 0) {
		put_tensors(walk, buffer->items[0], buffer->items[1], 8);
	} else if ((__u32)buffer->items[2] == 1 &&
		   read_words(buffer, &object, sizeof(object), buffer->items[0])) {
		put_value_list(walk, object);
	} else {
		put_other(buffer, PT_INPUTS_FAILED);
	}
	return 0;
}

static long put_vector_tensor(__u32 i, struct input_walk *walk)
{
	long stop = put_list_tensor(i, walk);

	walk->buffer->count = i + 1;
	return stop;
}

static __noinline int put_tensor_vector(struct input_walk *walk, __u64 address)
{
	struct input_buffer *buffer = walk->buffer;
	struct vector_ends ends;
	__u64 count;

	buffer->count = 0;
	if (!read_vector(buffer, address, &ends))
		return 0;
	count = (ends.end - ends.begin) / 8;
	if (count > MOST_TENSORS) {
		buffer->flags |= PT_INPUTS_CUT;
		return 0;
	}
	buffer->address = ends.begin;
	buffer->stride = 8;
	bpf_loop(count, put_vector_tensor, walk, 0);
	return 0;
}

static __always_inline __u64 argument_word(struct input_buffer *buffer, __u32 place)
{
	if (unlikely(buffer->unknown >> (place & 63) & 1))
		buffer->flags |= PT_INPUTS_UNTOLD;
	return place < PT_ARGUMENT_STACK + PT_MOST_STACK_WORDS ? buffer->arguments[place] : 0;
}

/* Whether an optional argument has a value. */
static __always_inline bool has_value(struct input_buffer *buffer, const struct pt_argument *place,
				      __u64 word)
{
	__u8 flag = 0;

	switch (place->flag) {
	case PT_ARGUMENT_NOWHERE:
		return true;
	case PT_ARGUMENT_NULL_IS_NONE:
		return word || !argument_word(buffer, place->second);
	case PT_ARGUMENT_IN_MEMORY:
		if (bpf_probe_read_user(&flag, 1, (void *)(word + (__s64)place->flag_offset)))
			buffer->flags |= PT_INPUTS_FAILED;
		return flag & 1;
	}
	return argument_word(buffer, place->flag) >> 8 * (place->flag_offset & 7) & 1;
}

static __always_inline bool is_content(struct input_buffer *buffer, const struct pt_argument *place)
{
	return buffer->contents >> (place->place & 63) & 1;
}

static __always_inline void put_argument_tensor(struct input_walk *walk, __u64 address)
{
	__u64 impl = 0;

	if (read_words(walk->buffer, &impl, sizeof(impl), address))
		put_tensor(walk->buffer, walk->signature, impl);
}

static __always_inline int put_argument(struct input_walk *walk, const struct pt_argument *place,
					__u64 word)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 value = 0;

	switch (place->kind) {
	case PT_ARGUMENT_TENSOR:
		if (is_content(buffer, place))
			put_tensor(buffer, walk->signature, word);
		else
			put_argument_tensor(walk, word);
		return 0;
	case PT_ARGUMENT_TENSORS:
		put_tensors(walk, word, argument_word(buffer, place->second), 8);
		return 0;
	case PT_ARGUMENT_TENSOR_ARRAY:
		if (read_words(buffer, buffer->items, 16, word))
			put_tensors(walk, buffer->items[0], buffer->items[1], 8);
		return 0;
	case PT_ARGUMENT_TENSOR_ITEMS:
		return put_tensor_items(walk, word);
	case PT_ARGUMENT_TENSOR_VECTOR:
		return put_tensor_vector(walk, word);
	case PT_ARGUMENT_STACK_VALUES:
		put_stack(walk, word);
		return 0;
	case PT_ARGUMENT_LIST:
		return put_empty_list(walk, word);
	case PT_ARGUMENT_OBJECT_VECTOR:
		return put_empty_vector(buffer, word);
	case PT_ARGUMENT_INT_VECTOR:
		return put_int_vector(buffer, word);
	case PT_ARGUMENT_INT:
		return put_int(buffer, word);
	case PT_ARGUMENT_BYTE:
		return put_int(buffer, (__u64)(__s64)(__s8)word);
	case PT_ARGUMENT_BOOL:
		put_bool(buffer, word);
		return 0;
	case PT_ARGUMENT_DOUBLE:
		put_double(buffer, word);
		return 0;
	case PT_ARGUMENT_SYMBOLIC_INT:
		if (is_content(buffer, place))
			put_symbolic_int(buffer, word);
		else if (read_words(buffer, &value, sizeof(value), word))
			put_symbolic_int(buffer, value);
		return 0;
	case PT_ARGUMENT_SYMBOLIC_WORD:
		put_symbolic_int(buffer, word);
		return 0;
	case PT_ARGUMENT_SCALAR:
		return put_scalar(buffer, walk->signature, word);
	case PT_ARGUMENT_INTS:
		return put_numbers(buffer, word, argument_word(buffer, place->second), false);
	case PT_ARGUMENT_DOUBLES:
		return put_numbers(buffer, word, argument_word(buffer, place->second), true);
	case PT_ARGUMENT_SCALARS:
		return put_scalars(buffer, walk->signature, word,
				   argument_word(buffer, place->second));
	case PT_ARGUMENT_NAMES:
		put(buffer, argument_word(buffer, place->second) ? PT_VALUE_OTHER : PT_VALUE_LIST);
		return 0;
	}
	put_other(buffer, 0);
	return 0;
}

static long visit_argument(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	struct pt_argument *place;
	__u64 word;

	if (i >= PT_MOST_ARGUMENTS)
		return 1;
	place = &walk->signature->arguments[i];
	if (likely(place->kind == PT_ARGUMENT_TENSOR && place->flag == PT_ARGUMENT_NOWHERE &&
		   place->place < PT_ARGUMENT_VECTOR_REGISTER &&
		   !(buffer->unknown | buffer->contents))) {
		/* This is the fast path: most arguments are tensors of operators. */
		put_argument_tensor(walk, argument_word(buffer, place->place) +
					      (__s64)place->value_offset);
	} else if (place->kind == PT_ARGUMENT_OTHER) {
		put_other(buffer, 0);
	} else if (place->kind == PT_ARGUMENT_SAVED_DOUBLE) {
		__u64 base = place->place ? buffer->bp : buffer->sp;

		word = 0;
		read_words(buffer, &word, sizeof(word), base + (__s64)place->value_offset);
		put_double(buffer, word);
	} else {
		word = place->place < PT_ARGUMENT_VECTOR_REGISTER
			   ? argument_word(buffer, place->place)
			   : 0;
		if (is_content(buffer, place) && ((place->kind != PT_ARGUMENT_TENSOR &&
						   place->kind != PT_ARGUMENT_SYMBOLIC_INT) ||
						  place->flag != PT_ARGUMENT_NOWHERE))
			buffer->flags |= PT_INPUTS_UNTOLD;
		if (!has_value(buffer, place, word)) {
			if (place->kind == PT_ARGUMENT_TENSOR_VECTOR)
				buffer->count = 0;
			else
				put_other(buffer, 0);
		} else if (place->place >= PT_ARGUMENT_VECTOR_REGISTER) {
			++buffer->spilled;
			put(buffer, (__u64)(place->place - PT_ARGUMENT_VECTOR_REGISTER) << 8 |
					PT_VALUE_SPILLED);
		} else if (place->kind == PT_ARGUMENT_BOOL_ARRAY) {
			word >>= 8 * (place->value_offset & 7);
			put(buffer, (__u64)place->second << 8 | PT_VALUE_LIST);
			for (__u32 k = 0; k < 8; ++k) {
				if (k >= place->second)
					break;
				put_bool(buffer, word >> 8 * k);
			}
		} else {
			if (place->kind == PT_ARGUMENT_BYTE || place->kind == PT_ARGUMENT_BOOL)
				word >>= 8 * (place->value_offset & 7);
			else
				word += (__s64)place->value_offset;
			put_argument(walk, place, word);
		}
	}
	return buffer->flags != 0;
}

struct input_sending {
	struct input_buffer *buffer;
	__u64 sp;
	__u64 site;
	__u64 total; /* words of values */
	__u64 kind;
};

static long send_piece(__u32 i, struct input_sending *sending)
{
	struct input_buffer *buffer = sending->buffer;
	__u64 sent = i * MOST_RECORD_WORDS;
	struct pt_inputs_record *record;
	__u64 words;

	if (sent > INPUT_WORDS || (i && sent >= sending->total))
		return 1;
	words = sending->total - sent;
	if (words > MOST_RECORD_WORDS)
		words = MOST_RECORD_WORDS;
	if (unlikely(threads_with_losses) && !announce_loss()) {
		note_loss();
		return 1;
	}
	/* The record's head lies before its values: in the room that words[] begins with, or over
	 * values that have been sent already. */
	record = (void *)&buffer->words[sent];
	fill_head(&record->head, sending->sp, sending->site, i ? PT_INPUTS_MORE : sending->kind,
		  PT_INPUTS_HEAD_BYTES + 8 * words);
	record->count = buffer->count;
	record->flags = buffer->flags;
	record->spilled = buffer->spilled;
	record->words = i ? sent : sending->total;
	if (!copy_record(record, PT_INPUTS_HEAD_BYTES + 8 * words)) {
		note_loss();
		return 1;
	}
	return 0;
}

static __noinline int send_inputs(struct input_buffer *buffer, __u64 sp, __u64 site, __u8 kind)
{
	struct input_sending sending = {.buffer = buffer, .sp = sp, .site = site, .kind = kind};

	if (!buffer->flags) /* with a flag set, the values are not sent: they are not complete or
			       not right */
		sending.total = buffer->position - INPUT_HEAD_WORDS;
	if (sending.total <= MOST_RECORD_WORDS)
		return send_piece(0, &sending);
	return bpf_loop(sending.total / MOST_RECORD_WORDS + 1, send_piece, &sending, 0);
}

/* Clears the buffer: it has no values, and every argument's word counts as known. */
static __always_inline void clear_inputs(struct input_buffer *buffer,
					 const struct pt_signature *signature)
{
	buffer->position = INPUT_HEAD_WORDS;
	buffer->flags = 0;
	buffer->spilled = 0;
	buffer->count = signature->count;
	buffer->unknown = 0;
	buffer->contents = 0;
}

/* Reads all arguments of `signature`; the registers must be in the buffer. The function is
 * global, so that it is verified once, and not for each of its callers. */
__noinline int read_inputs(struct input_buffer *buffer, struct pt_signature *signature, __u64 sp)
{
	struct input_walk walk = {.buffer = buffer, .signature = signature};
	__u32 words;

	if (!config_record_shapes)
		return 0;
	if (!buffer || !signature)
		return 0;
	words = signature->stack_words;
	clear_inputs(buffer, signature);
	barrier_var(words);
	if (words > PT_MOST_STACK_WORDS)
		words = PT_MOST_STACK_WORDS;
	if (words)
		read_words(buffer, &buffer->arguments[PT_ARGUMENT_STACK], words * 8,
			   sp + 8 * (__u64)signature->first_word);
	bpf_loop(signature->count, visit_argument, &walk, 0);
	return 0;
}

static __always_inline void write_inputs(struct pt_regs *ctx, __u64 site,
					 struct pt_signature *signature, __u32 kind)
{
	struct input_buffer *buffer = take_buffer();

	if (!buffer) {
		note_no_buffer();
		return;
	}
	buffer->arguments[PT_RDI] = LOAD_REGISTER(PT_REGS_PARM1(ctx));
	buffer->arguments[PT_RSI] = LOAD_REGISTER(PT_REGS_PARM2(ctx));
	buffer->arguments[PT_RDX] = LOAD_REGISTER(PT_REGS_PARM3(ctx));
	buffer->arguments[PT_RCX] = LOAD_REGISTER(PT_REGS_PARM4(ctx));
	buffer->arguments[PT_R8] = LOAD_REGISTER(PT_REGS_PARM5(ctx));
	buffer->arguments[PT_R9] = LOAD_REGISTER(ctx->r9);
	buffer->sp = PT_REGS_SP(ctx);
	buffer->bp = LOAD_REGISTER(ctx->bp);
	read_inputs(buffer, signature, PT_REGS_SP(ctx));
	send_inputs(buffer, PT_REGS_SP(ctx), site, kind);
	*(volatile __u64 *)&buffer->busy = 0;
}

static __always_inline __u64 call_facts(__s64 number, __u64 count, __u64 flags)
{
	return ((__u64)(number + 1) & ((1ULL << PT_CALL_SEQUENCE_BITS) - 1)) |
	       count << PT_CALL_SEQUENCE_BITS | flags << 56;
}

static __noinline int write_call_without_inputs(__u64 sp, __u64 site, __s64 number)
{
	struct pt_pointer_record *record = reserve(PT_CALL_HEAD_BYTES);

	if (!record)
		return 0;
	fill_head(&record->head, sp, site, PT_OPERATOR_CALL, PT_CALL_HEAD_BYTES);
	record->value = call_facts(number, 0, PT_INPUTS_CUT);
	submit(record);
	return 0;
}

/* Writes the begin and the inputs in one record, or in several if the inputs are too long.
 * `time_ns`: from time_in_order(). */
static __noinline int write_call(struct input_buffer *buffer, __u64 sp, __u64 site, __s64 number,
				 __u64 time_ns)
{
	__u64 words = buffer->flags ? 0 : buffer->position - INPUT_HEAD_WORDS;
	struct pt_call_record *record = (void *)buffer->words;

	if (unlikely(words > MOST_RECORD_WORDS)) {
		send_inputs(buffer, sp, site, PT_INPUTS);
		return write_operator_begin(sp, site, number, time_ns);
	}
	if (unlikely(threads_with_losses) && !announce_loss()) {
		note_loss();
		return 0;
	}
	fill_head_at(&record->head, time_ns ?: bpf_ktime_get_ns(), sp, site, PT_OPERATOR_CALL,
		     PT_CALL_HEAD_BYTES + 8 * words);
	record->facts = call_facts(number, buffer->count, buffer->flags);
	if (!copy_record(record, PT_CALL_HEAD_BYTES + 8 * words))
		note_loss();
	return 0;
}

/* Handles PT_ROLE_OPERATOR_CALL. */
static __noinline int on_operator_call(struct pt_regs *ctx, __u64 cookie)
{
	/* The time is taken first, so that the time of reading counts as a cost of the probe. */
	__u64 time_ns = bpf_ktime_get_ns();
	__u32 key = cookie >> 48;
	struct pt_signature *signature = SIGNATURE(&key);
	struct input_buffer *buffer;
	__s64 number;
	__u64 begin;
	__u64 sp;

	if (!signature)
		return 0;
	begin = signature->begin;
	sp = entry_sp(ctx, begin);
	number = operator_sequence(ctx, begin);
	buffer = take_buffer();
	if (unlikely(!buffer))
		return write_call_without_inputs(sp, cookie, number);
	buffer->arguments[0] = LOAD_REGISTER(ctx->bx);
	buffer->arguments[1] = LOAD_REGISTER(ctx->bp);
	buffer->arguments[2] = LOAD_REGISTER(ctx->r12);
	buffer->arguments[3] = LOAD_REGISTER(ctx->r13);
	buffer->arguments[4] = LOAD_REGISTER(ctx->r14);
	buffer->arguments[5] = LOAD_REGISTER(ctx->r15);
	read_inputs(buffer, signature, PT_REGS_SP(ctx));
	write_call(buffer, sp, cookie, number, time_in_order(time_ns));
	*(volatile __u64 *)&buffer->busy = 0;
	return 0;
}

/* Writes the inputs of a row in a record of their own, before the record of the row
 * (PT_ROLE_SPILLED_INPUTS: after it). The program itself calls this, because on kernels before 6.13
 * all nested calls together have 512 bytes of stack. */
static __noinline int write_inputs_before(struct pt_regs *ctx, __u64 cookie)
{
	__u8 role = cookie >> 16;
	struct pt_signature *signature;
	__u32 key = cookie >> 48;
	__u32 tgid;
	__u32 *found;

	if (role == PT_ROLE_NODE_BEGIN && key) {
		/* The cookie of the engine's own row has no offsets in bits 48..63, and that row
		 * has no inputs. */
		tgid = current_tgid();
		found = NODE_SIGNATURE(&tgid);
		key = found ? *found : 0;
	} else if (role != PT_ROLE_INPUTS_BEGIN && role != PT_ROLE_SPILLED_INPUTS &&
		   role != PT_ROLE_BOXED_BEGIN) {
		return 0;
	}
	if (!key)
		return 0;
	signature = SIGNATURE(&key);
	if (signature)
		write_inputs(ctx, cookie, signature,
			     role == PT_ROLE_SPILLED_INPUTS ? PT_SPILLED_INPUTS : PT_INPUTS);
	return 0;
}

/* Writes the inputs of an annotation that has an argument. The argument is a text, of which torch
 * shows nothing. */
static __always_inline void write_annotation_inputs(__u64 sp)
{
	struct pt_inputs_record *record = reserve(PT_INPUTS_HEAD_BYTES + 8);

	if (!record)
		return;
	fill_head(&record->head, sp, 0, PT_INPUTS, PT_INPUTS_HEAD_BYTES + 8);
	record->count = 1;
	record->flags = 0;
	record->spilled = 0;
	record->words = 1;
	record->values[0] = PT_VALUE_OTHER;
	submit(record);
}

#endif
