/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads the arguments with which Python calls a custom Function or an annotation. torch turns these
 * arguments into values of its own only while a profiler runs, so they are read from Python's
 * objects. The offsets are those of CPython 3.9 to 3.14; layouts that differ between these are in
 * struct pt_torch_layout.
 */
#ifndef PROFTRACE_BPF_PYTHON_VALUES_H
#define PROFTRACE_BPF_PYTHON_VALUES_H

#include "bpf/shared/python_types.bpf.h"
#include "bpf/shared/values.bpf.h"

#define MOST_PYTHON_BASES 12
#define MOST_PYTHON_ITEMS 256

enum python_kind {
	PYTHON_OTHER,
	PYTHON_TENSOR,
	PYTHON_NONE,
	PYTHON_BOOL,
	PYTHON_INT,
	PYTHON_FLOAT,
	PYTHON_COMPLEX,
	PYTHON_LIST,
	PYTHON_TUPLE,
	PYTHON_DICT,
	PYTHON_TEXT,
	PYTHON_UNREADABLE,
};

/* The names of Python's and torch's own types, as words of eight characters. */
#define TEXT_BOOL 0x6c6f6f62ULL
#define TEXT_INT 0x746e69ULL
#define TEXT_FLOAT 0x74616f6c66ULL
#define TEXT_COMPLEX 0x78656c706d6f63ULL
#define TEXT_NONE_TYPE 0x65707954656e6f4eULL
#define TEXT_LIST 0x7473696cULL
#define TEXT_TUPLE 0x656c707574ULL
#define TEXT_DICT 0x74636964ULL
#define TEXT_STR 0x727473ULL
#define TEXT_TORCH_C 0x435f2e6863726f74ULL
#define TEXT_TENSOR_BASE 0x42726f736e65542eULL /* .TensorB */
#define TEXT_HIDDEN_BASE 0x726f736e65545f2eULL /* ._Tensor */

static __always_inline __u32 python_kind_of_name(const __u64 *name, __u32 depth)
{
	switch (name[0]) {
	case TEXT_BOOL:
		return PYTHON_BOOL;
	case TEXT_INT:
		return PYTHON_INT;
	case TEXT_FLOAT:
		return PYTHON_FLOAT;
	case TEXT_COMPLEX: /* torch accepts only this type itself */
		return depth ? PYTHON_OTHER : PYTHON_COMPLEX;
	case TEXT_NONE_TYPE:
		return PYTHON_NONE;
	case TEXT_LIST:
		return PYTHON_LIST;
	case TEXT_TUPLE:
		return PYTHON_TUPLE;
	case TEXT_DICT:
		return PYTHON_DICT;
	case TEXT_STR:
		return PYTHON_TEXT;
	case TEXT_TORCH_C:
		if (name[1] == TEXT_TENSOR_BASE || name[1] == TEXT_HIDDEN_BASE)
			return PYTHON_TENSOR;
	}
	return PYTHON_OTHER;
}

/* Returns an object's kind, by the names of its type and of this type's bases, except classes that
 * were made by running code. So a class that the job defines cannot change the kind. The function
 * is global, so that it is verified once, and not for each call. */
__noinline __u32 python_kind(__u64 object)
{
	__u64 type = 0;

	if (bpf_probe_read_user(&type, sizeof(type), (void *)(object + PYTHON_TYPE)))
		return PYTHON_UNREADABLE;
	for (__u32 i = 0; i < MOST_PYTHON_BASES; ++i) {
		__u64 name[3] = {};
		__u64 text = 0;
		__u64 flags = 0;
		__u32 kind;

		if (!type)
			return PYTHON_OTHER;
		if (bpf_probe_read_user(&flags, sizeof(flags),
					(void *)(type + PYTHON_TYPE_FLAGS)) ||
		    bpf_probe_read_user(&text, sizeof(text), (void *)(type + PYTHON_TYPE_NAME)))
			return PYTHON_UNREADABLE;
		if (!(flags & PYTHON_HEAP_TYPE)) {
			bpf_probe_read_user_str(name, sizeof(name), (void *)text);
			kind = python_kind_of_name(name, i);
			if (kind)
				return kind;
		}
		if (bpf_probe_read_user(&type, sizeof(type), (void *)(type + PYTHON_TYPE_BASE)))
			return PYTHON_UNREADABLE;
	}
	return PYTHON_OTHER;
}

static __always_inline int put_python_int(struct input_buffer *buffer,
					  struct pt_signature *signature, __u64 object)
{
	__u64 *digits = buffer->items; /* each has four bytes */
	bool negative;
	__u64 value;
	__u64 size;

	if (!read_words(buffer, digits, sizeof(size), object + PYTHON_SIZE))
		return 0;
	size = digits[0];
	if (signature->layout.python_long_tag) {
		negative = (size & 3) == 2;
		size >>= 3;
	} else {
		negative = (__s64)size < 0;
		size = negative ? -size : size;
	}
	if (size > 3) {
		/* torch cannot represent such a number either. */
		put_other(buffer, PT_INPUTS_IMPLAUSIBLE);
		return 0;
	}
	digits[0] = 0;
	digits[1] = 0;
	if (size && bpf_probe_read_user(digits, size * 4, (void *)(object + PYTHON_DIGITS)))
		buffer->flags |= PT_INPUTS_FAILED;
	value = (digits[0] & 0xffffffff) | digits[0] >> 32 << PYTHON_DIGIT_BITS |
		digits[1] << 2 * PYTHON_DIGIT_BITS;
	return put_int(buffer, negative ? -value : value);
}

/* Puts the object if it is a number. Returns whether it is. */
static __always_inline int put_python_number(struct input_buffer *buffer,
					     struct pt_signature *signature, __u64 object,
					     __u32 kind)
{
	__u64 *words = buffer->items;

	words[0] = 0;
	words[1] = 0;
	switch (kind) {
	case PYTHON_BOOL:
		read_words(buffer, words, 4, object + PYTHON_DIGITS);
		put_bool(buffer, words[0]);
		return 1;
	case PYTHON_INT:
		put_python_int(buffer, signature, object);
		return 1;
	case PYTHON_FLOAT:
		read_words(buffer, words, 8, object + PYTHON_VALUE);
		put_double(buffer, words[0]);
		return 1;
	case PYTHON_COMPLEX:
		read_words(buffer, words, 16, object + PYTHON_VALUE);
		put(buffer, PT_VALUE_COMPLEX);
		put(buffer, words[0]);
		put(buffer, words[1]);
		return 1;
	}
	return 0;
}

static long put_python_item(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;
	__u64 item = 0;
	__u32 kind;

	if (!read_words(buffer, &item, sizeof(item), sequence->items + 8 * i))
		return 1;
	kind = python_kind(item);
	if (kind == PYTHON_UNREADABLE)
		buffer->flags |= PT_INPUTS_FAILED;
	if (kind == PYTHON_TENSOR || kind == PYTHON_TEXT || kind == PYTHON_OTHER) {
		sequence->is_told = false;
		return 1;
	}
	if (kind > PYTHON_COMPLEX || (!sequence->is_tuple && i && kind != sequence->kind))
		buffer->flags |= PT_INPUTS_UNTOLD;
	sequence->kind = kind;
	put_python_number(buffer, walk->signature, item, kind);
	return buffer->flags != 0;
}

/* Counts a list of numbers of one kind, or a tuple of numbers of any kinds, as an argument, because
 * torch makes a value of both. torch shows the numbers only of a list that is not too long. Other
 * lists and tuples are left out, as torch does, or get PT_INPUTS_UNTOLD. */
static __noinline int put_python_sequence(struct input_walk *walk, __u64 object, bool is_tuple)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;
	__u64 position = buffer->position;
	__u64 count;

	sequence->items = object + walk->signature->layout.python_items;
	sequence->kind = PYTHON_OTHER;
	sequence->is_tuple = is_tuple;
	sequence->is_told = true;
	if (!read_words(buffer, &sequence->count, sizeof(sequence->count), object + PYTHON_SIZE) ||
	    (!is_tuple && !read_words(buffer, &sequence->items, sizeof(sequence->items),
				      object + PYTHON_LIST_ITEMS)))
		return 0;
	count = sequence->count;
	if (!count && !is_tuple)
		return 0; /* the type of an empty list cannot be told */
	put(buffer, count << 8 | PT_VALUE_LIST);
	bpf_loop(count < MOST_SCALARS ? count : MOST_SCALARS, put_python_item, walk, 0);
	if (!sequence->is_told) {
		buffer->position = position; /* torch makes no value of it */
		return 0;
	}
	++buffer->count;
	if (is_tuple || count > MOST_SCALARS || sequence->kind == PYTHON_NONE) {
		buffer->position = position;
		put_other(buffer, 0);
	}
	return 0;
}

/* Returns the first entry of a dict's table. `size`: the table's size, or the word that tells
 * it. */
static __always_inline __u64 first_entry(const struct pt_signature *signature, __u64 table,
					 __u64 size)
{
	if (signature->layout.python_dict_kind)
		return table + PYTHON_TABLE_INDEX +
		       (1ULL << (size >> PYTHON_TABLE_INDEX_SHIFT & 63));
	return table + PYTHON_OLD_TABLE_INDEX +
	       (size > 0xffffffff ? 8 * size
		: size > 0xffff	  ? 4 * size
		: size > 0xff	  ? 2 * size
				  : size);
}

/* Whether all keys of the table are texts, so that its entries have no hash. `size`: as for
 * first_entry(). */
static __always_inline bool has_texts_alone(const struct pt_signature *signature, __u64 size)
{
	return signature->layout.python_dict_kind && (size >> PYTHON_TABLE_KIND_SHIFT & 0xff);
}

/* Looks at a dict, and never puts anything. torch makes a value only of a dict whose keys have one
 * type other than text, and leaves out any other dict. Sets PT_INPUTS_UNTOLD if the first key may
 * be of such a type, because it is not known what torch shows then. */
static __noinline int put_python_dict(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *words = buffer->items;
	__u64 address;
	__u64 size;
	__u32 kind;

	/* The type of an empty dict cannot be told, so torch makes no value of it. */
	if (!read_words(buffer, words, sizeof(*words), object + PYTHON_SIZE) || !words[0] ||
	    !read_words(buffer, words, sizeof(*words), object + PYTHON_DICT_TABLE))
		return 0;
	address = words[0];
	if (!read_words(buffer, words, sizeof(*words), address + PYTHON_TABLE_SIZE))
		return 0;
	size = words[0];
	if (has_texts_alone(walk->signature, size))
		return 0;
	address = first_entry(walk->signature, address, size);
	if (!read_words(buffer, words, sizeof(*words), address + PYTHON_ENTRY_KEY))
		return 0;
	/* A null pointer is an entry that was taken out. */
	kind = words[0] ? python_kind(words[0]) : PYTHON_UNREADABLE;
	if (kind != PYTHON_TENSOR && kind != PYTHON_TEXT && kind != PYTHON_OTHER)
		buffer->flags |= PT_INPUTS_UNTOLD;
	return 0;
}

/* Puts an item of the arguments. Leaves out an item of which torch makes no value, as torch
 * does. */
static long put_python_value(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	struct pt_signature *signature = walk->signature;
	__u64 object = 0;
	__u64 impl = 0;
	__u32 kind;

	if (!read_words(buffer, &object, sizeof(object), buffer->values + 8 * i))
		return 1;
	kind = python_kind(object);
	if (kind == PYTHON_UNREADABLE)
		buffer->flags |= PT_INPUTS_FAILED;
	if (kind == PYTHON_TENSOR) {
		++buffer->count;
		if (read_words(buffer, &impl, sizeof(impl),
			       object + signature->layout.python_tensor))
			put_tensor(buffer, signature, impl);
	} else if (kind && signature->layout.python_numbers) {
		if (kind == PYTHON_NONE) {
			++buffer->count;
			put_other(buffer, 0);
		} else if (kind == PYTHON_LIST || kind == PYTHON_TUPLE) {
			put_python_sequence(walk, object, kind == PYTHON_TUPLE);
		} else if (kind == PYTHON_DICT) {
			put_python_dict(walk, object);
		} else if (put_python_number(buffer, signature, object, kind)) {
			++buffer->count;
		}
	}
	return buffer->flags != 0;
}

/* Returns how many items the tuple has, and sets buffer->values to their address. Returns 0 if the
 * tuple cannot be read or has too many items. */
static __always_inline __u64 open_python_tuple(struct input_walk *walk, __u64 tuple)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 count = 0;

	buffer->count = 0;
	if (!read_words(buffer, &count, sizeof(count), tuple + PYTHON_SIZE))
		return 0;
	if (count > MOST_PYTHON_ITEMS) {
		buffer->flags |= PT_INPUTS_CUT;
		return 0;
	}
	buffer->values = tuple + walk->signature->layout.python_items;
	return count;
}

static __always_inline void put_python_values(struct input_walk *walk, __u64 tuple)
{
	bpf_loop(open_python_tuple(walk, tuple), put_python_value, walk, 0);
}

#endif
