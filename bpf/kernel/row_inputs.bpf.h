/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads the inputs of rows outside the dispatcher's functions (--record-shapes). The words of their
 * arguments are at places that the analysis of data flow has found; each place is valid where the
 * row begins.
 */
#ifndef PROFTRACE_BPF_ROW_INPUTS_H
#define PROFTRACE_BPF_ROW_INPUTS_H

#include "bpf/shared/guards.bpf.h"
#include "bpf/kernel/collective_names.bpf.h"
#include "bpf/kernel/inferred_values.bpf.h"
#include "bpf/shared/inputs.bpf.h"
#include "bpf/kernel/python_keywords.bpf.h"

/* The places of rows' inputs, filled by the loader. The key is in struct pt_place. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65535);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pt_row_inputs);
} row_inputs SEC(".maps");

/* Signatures of operators that are called with the dispatcher's code inlined. Key: tgid and
 * OperatorDef*; value: key of `signatures`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct address_key);
	__type(value, __u32);
} operator_signatures SEC(".maps");

struct row_walk {
	struct pt_regs *ctx;
	struct pt_row_inputs *row;
	struct input_buffer *buffer;
};

static long load_row_word(__u32 i, struct row_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	const struct pt_place *place;
	__u64 value;

	if (i >= PT_ROW_WORDS)
		return 1;
	place = &walk->row->words[i];
	if (place->base == PT_PLACE_UNKNOWN) {
		buffer->unknown |= 1ULL << i;
		return 0;
	}
	value = place->base >= PT_PLACE_ADDRESS ? place->address
						: hardware_register(walk->ctx, place->base);
	value += (__s64)place->offsets[0];
	for (int k = 1; k < PT_PLACE_OFFSETS; ++k) {
		__u64 word = 0;

		if (k >= place->count)
			break;
		read_words(buffer, &word, sizeof(word), value);
		value = word + (__s64)place->offsets[k];
	}
	if (place->is_byte)
		value &= 0xff;
	if (place->is_content)
		buffer->contents |= 1ULL << i;
	buffer->arguments[i] = value;
	return 0;
}

static __noinline struct pt_signature *
row_signature(struct pt_regs *ctx, const struct pt_row_inputs *row, const struct pt_place *place)
{
	struct address_key key = {.tgid = current_tgid()};
	__u32 number = row->signature;
	__u32 *found;

	if (!number) {
		key.address = value_at(ctx, place);
		found = bpf_map_lookup_elem(&operator_signatures, &key);
		if (!found)
			return NULL;
		number = *found;
	}
	return bpf_map_lookup_elem(&signatures, &number);
}

/* Puts the inputs of a row whose signature has one argument that stands for all of them. Returns
 * false for a signature with other arguments. */
static __always_inline bool put_row_values(struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;

	switch (walk->signature->arguments[0].kind) {
	case PT_ARGUMENT_VALUES:
		put_values(walk, buffer->arguments[0], buffer->arguments[1]);
		return true;
	case PT_ARGUMENT_LAST_VALUES:
		put_last_values(walk, buffer->arguments[0], buffer->arguments[1]);
		return true;
	case PT_ARGUMENT_PYTHON_VALUES:
		put_python_values(walk, buffer->arguments[0]);
		return true;
	case PT_ARGUMENT_PYTHON_ARGUMENTS:
		put_python_arguments(walk, buffer->arguments[0]);
		return true;
	case PT_ARGUMENT_INFERRED_VALUES:
		put_inferred_values(walk, buffer->arguments[0]);
		return true;
	}
	return false;
}

/* Puts the facts that torch's traces have of the row beside its inputs, as keyword values. Returns
 * false if there are none. */
static __always_inline bool put_row_keywords(struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;

	switch (walk->signature->arguments[0].kind) {
	case PT_ARGUMENT_INFERRED_VALUES:
		if (!buffer->arguments[1])
			return false;
		put_keywords(walk, buffer->arguments[1]);
		return true;
	case PT_ARGUMENT_VALUES:
		return put_collective(walk, buffer->arguments[0], buffer->arguments[1]);
	}
	return false;
}

/* Writes a row's inputs, before the record of the row itself. The program itself calls this
 * function, because the kernel allows no more than eight nested calls. */
static __noinline int write_row_inputs(struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = PT_REGS_SP(ctx); /* read once, or the compiler shares the address of this field,
				      which the kernel refuses */
	__u32 key = cookie >> 48;
	struct pt_place *place = key ? bpf_map_lookup_elem(&value_places, &key) : NULL;
	struct pt_signature *signature;
	struct input_buffer *buffer;
	struct input_walk walk = {};
	struct row_walk words = {.ctx = ctx};

	if (!place || !place->inputs)
		return 0;
	key = place->inputs;
	words.row = bpf_map_lookup_elem(&row_inputs, &key);
	if (!words.row)
		return 0;
	signature = row_signature(ctx, words.row, place);
	if (!signature)
		return 0;
	walk.signature = signature;
	buffer = take_buffer();
	if (!buffer) {
		note_loss();
		return 0;
	}
	walk.buffer = buffer;
	clear_inputs(buffer, signature);
	__builtin_memset(buffer->arguments, 0, PT_ROW_WORDS * sizeof(buffer->arguments[0]));
	words.buffer = buffer;
	bpf_loop(words.row->count, load_row_word, &words, 0);
	if (!put_row_values(&walk))
		bpf_loop(signature->count, visit_argument, &walk, 0);
	send_inputs(buffer, sp, cookie, PT_INPUTS);
	if (put_row_keywords(&walk))
		send_inputs(buffer, sp, cookie, PT_KEYWORDS);
	*(volatile __u64 *)&buffer->busy = 0;
	return 0;
}

#endif
