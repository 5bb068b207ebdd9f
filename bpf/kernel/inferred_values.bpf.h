/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads Python objects for which torch would infer a type (torch::jit::tryToInferType): an
 * annotation is called with a list or a tuple of them. If an object is of any other class, the
 * inputs get PT_INPUTS_UNTOLD, because it is not known what torch would make of it.
 */
#ifndef PROFTRACE_BPF_INFERRED_VALUES_H
#define PROFTRACE_BPF_INFERRED_VALUES_H

#include "bpf/kernel/python_values.bpf.h"

/* Finds the items of a list or a tuple; a list has them outside of its object. Returns whether
 * they were found; if so, the sequence's `items` and `count` are set. */
static __always_inline bool find_python_items(struct input_walk *walk, __u64 object, bool is_tuple)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;

	sequence->items = object + walk->signature->layout.python_items;
	if (!read_words(buffer, &sequence->count, sizeof(sequence->count), object + PYTHON_SIZE) ||
	    (!is_tuple && !read_words(buffer, &sequence->items, sizeof(sequence->items),
				      object + PYTHON_LIST_ITEMS)))
		return false;
	if (sequence->count <= MOST_PYTHON_ITEMS)
		return true;
	buffer->flags |= PT_INPUTS_CUT;
	return false;
}

/* Puts an item of a list or a tuple that is itself a value. All items of a list must have the type
 * of its first one. */
static long put_inferred_item(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;
	struct pt_signature *signature = walk->signature;
	__u64 item = 0;
	__u32 kind;

	if (!read_words(buffer, &item, sizeof(item), sequence->items + 8 * i))
		return 1;
	kind = python_kind(item);
	if (kind == PYTHON_UNREADABLE)
		buffer->flags |= PT_INPUTS_FAILED;
	if (kind == PYTHON_OTHER || kind == PYTHON_LIST || kind == PYTHON_TUPLE ||
	    kind == PYTHON_DICT || (!sequence->is_tuple && kind != sequence->kind))
		buffer->flags |= PT_INPUTS_UNTOLD;
	if (buffer->flags || !sequence->is_told)
		return buffer->flags != 0;
	if (kind == PYTHON_TENSOR) {
		if (read_words(buffer, &item, sizeof(item), item + signature->layout.python_tensor))
			put_tensor(buffer, signature, item);
	} else {
		put_python_number(buffer, signature, item, kind);
	}
	return buffer->flags != 0;
}

static __noinline int put_inferred_sequence(struct input_walk *walk, __u64 object, bool is_tuple)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;
	__u32 kind = PYTHON_OTHER;
	__u64 first = 0;

	if (!find_python_items(walk, object, is_tuple))
		return 0;
	if (!sequence->count && !is_tuple)
		return 0; /* an empty list has no type of items, so it is no value */
	++buffer->count;
	if (!is_tuple) {
		if (!read_words(buffer, &first, sizeof(first), sequence->items))
			return 0;
		kind = python_kind(first);
	}
	sequence->kind = kind;
	sequence->is_tuple = is_tuple;
	sequence->is_told = true;
	/* torch shows the items of lists of tensors, and of short lists of numbers. */
	if (kind == PYTHON_TENSOR) {
		put(buffer, sequence->count << 8 | PT_VALUE_TENSORS);
	} else if (kind >= PYTHON_BOOL && kind <= PYTHON_COMPLEX &&
		   sequence->count <= MOST_SCALARS) {
		put(buffer, sequence->count << 8 | PT_VALUE_LIST);
	} else {
		sequence->is_told = false;
		put_other(buffer, 0);
	}
	bpf_loop(sequence->count, put_inferred_item, walk, 0);
	return 0;
}

static long put_inferred_value(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	struct pt_signature *signature = walk->signature;
	__u64 object = 0;
	__u32 kind;

	if (!read_words(buffer, &object, sizeof(object), buffer->values + 8 * i))
		return 1;
	kind = python_kind(object);
	switch (kind) {
	case PYTHON_TENSOR:
		++buffer->count;
		if (read_words(buffer, &object, sizeof(object),
			       object + signature->layout.python_tensor))
			put_tensor(buffer, signature, object);
		break;
	case PYTHON_NONE:
	case PYTHON_TEXT:
		++buffer->count;
		put_other(buffer, 0);
		break;
	case PYTHON_LIST:
	case PYTHON_TUPLE:
		put_inferred_sequence(walk, object, kind == PYTHON_TUPLE);
		break;
	case PYTHON_DICT:
		/* An empty dict has no element type, so no value is put. */
		if (read_words(buffer, &object, sizeof(object), object + PYTHON_SIZE) && object)
			buffer->flags |= PT_INPUTS_UNTOLD;
		break;
	case PYTHON_UNREADABLE:
		buffer->flags |= PT_INPUTS_FAILED;
		break;
	case PYTHON_OTHER:
		buffer->flags |= PT_INPUTS_UNTOLD;
		break;
	default:
		++buffer->count;
		put_python_number(buffer, signature, object, kind);
	}
	return buffer->flags != 0;
}

/* Puts the items of `object`, which is a list or a tuple; null: there is no such object, and
 * nothing is put. */
static __noinline int put_inferred_values(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u32 kind;

	buffer->count = 0;
	if (!object)
		return 0;
	kind = python_kind(object);
	if (kind == PYTHON_UNREADABLE)
		buffer->flags |= PT_INPUTS_FAILED;
	else if (kind != PYTHON_LIST && kind != PYTHON_TUPLE)
		buffer->flags |= PT_INPUTS_UNTOLD;
	if (buffer->flags)
		return 0;
	if (!find_python_items(walk, object, kind == PYTHON_TUPLE))
		return 0;
	buffer->values = buffer->sequence.items;
	bpf_loop(buffer->sequence.count, put_inferred_value, walk, 0);
	return 0;
}

/* Puts an argument of a call in which torch makes a value of every argument, or throws. torch shows
 * nothing of an argument that is neither a tensor nor a number. */
static long put_python_argument(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 object = 0;
	__u64 impl = 0;
	__u64 count = buffer->count;
	__u32 kind;

	if (!read_words(buffer, &object, sizeof(object), buffer->values + 8 * i))
		return 1;
	kind = python_kind(object);
	switch (kind) {
	case PYTHON_TENSOR:
		if (read_words(buffer, &impl, sizeof(impl),
			       object + walk->signature->layout.python_tensor))
			put_tensor(buffer, walk->signature, impl);
		break;
	case PYTHON_NONE:
	case PYTHON_TEXT:
	case PYTHON_TUPLE:
	case PYTHON_DICT:
		put_other(buffer, 0);
		break;
	case PYTHON_LIST:
		put_inferred_sequence(walk, object, false);
		if (buffer->count == count) /* the list is empty: torch throws */
			buffer->flags |= PT_INPUTS_UNTOLD;
		break;
	default: /* data types and similar objects, which are numbers to torch */
		if (!put_python_number(buffer, walk->signature, object, kind))
			buffer->flags |=
			    kind == PYTHON_UNREADABLE ? PT_INPUTS_FAILED : PT_INPUTS_UNTOLD;
	}
	buffer->count = count + 1;
	return buffer->flags != 0;
}

static __always_inline void put_python_arguments(struct input_walk *walk, __u64 tuple)
{
	__u64 count = open_python_tuple(walk, tuple);

	if (python_kind(tuple) != PYTHON_TUPLE)
		walk->buffer->flags |= PT_INPUTS_IMPLAUSIBLE;
	else
		bpf_loop(count, put_python_argument, walk, 0);
}

#endif
