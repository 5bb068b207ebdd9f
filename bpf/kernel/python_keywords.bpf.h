/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads the dict of keyword values that an annotation is called with
 * (torch._C._profiler._RecordFunctionFast). torch shows numbers, texts and lists of texts. It
 * leaves out None, complex numbers, other lists, and tuples of numbers. For any other value it
 * shows "NULL".
 */
#ifndef PROFTRACE_BPF_PYTHON_KEYWORDS_H
#define PROFTRACE_BPF_PYTHON_KEYWORDS_H

#include "bpf/shared/guards.bpf.h"
#include "bpf/kernel/inferred_values.bpf.h"

static __always_inline bool is_python_text(__u64 object, __u64 *type_flags)
{
	*type_flags = read_word(read_word(object + PYTHON_TYPE) + PYTHON_TYPE_FLAGS);
	return *type_flags & (PYTHON_BYTES_TYPE | PYTHON_TEXT_TYPE);
}

/* Puts at most half of PT_MOST_VALUE_TEXT_BYTES bytes of a text. */
static __noinline int put_characters(struct input_buffer *buffer, __u64 address, __u64 bytes)
{
	__u64 position = buffer->position;
	__u64 words;

	if (position >= INPUT_WORDS) {
		buffer->flags |= PT_INPUTS_CUT;
		return 0;
	}
	barrier_var(bytes);
	if (bytes > PT_MOST_VALUE_TEXT_BYTES / 2)
		bytes = PT_MOST_VALUE_TEXT_BYTES / 2;
	if (!bytes)
		return 0;
	words = (bytes + 7) / 8;
	/* Zeros fill up the last word, so that equal texts are equal words. */
	buffer->words[position + words - 1] = 0;
	if (bpf_probe_read_user(&buffer->words[position], bytes, (void *)address))
		buffer->flags |= PT_INPUTS_FAILED;
	buffer->position = position + words;
	return 0;
}

/* Puts a str or a bytes, or an object of a class derived from these. */
static __noinline int put_python_text(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	struct python_characters text = {};
	__u64 flags = 0;
	__u64 cut = 0;

	is_python_text(object, &flags);
	if (flags & PYTHON_BYTES_TYPE) {
		text.address = object + PYTHON_BYTES_TEXT;
		text.bytes = read_word(object + PYTHON_SIZE);
	} else {
		find_characters(object, walk->signature->layout.python_long_tag ? 40 : 48, &text);
	}
	if (!text.address) {
		buffer->flags |= PT_INPUTS_FAILED;
		return 0;
	}
	if (text.bytes > PT_MOST_VALUE_TEXT_BYTES) {
		text.bytes = PT_MOST_VALUE_TEXT_BYTES;
		cut = PT_VALUE_TEXT_IS_CUT;
	}
	put(buffer, text.bytes << 32 | cut | (__u64)text.width << 8 | PT_VALUE_TEXT);
	put_characters(buffer, text.address, text.bytes);
	if (text.bytes > PT_MOST_VALUE_TEXT_BYTES / 2)
		put_characters(buffer, text.address + PT_MOST_VALUE_TEXT_BYTES / 2,
			       text.bytes - PT_MOST_VALUE_TEXT_BYTES / 2);
	return 0;
}

static long put_keyword_item(__u32 i, struct input_walk *walk)
{
	struct item_sequence *sequence = &walk->buffer->sequence;
	__u64 flags;
	__u64 item = 0;

	if (!read_words(walk->buffer, &item, sizeof(item), sequence->items + 8 * i))
		return 1;
	if (sequence->is_tuple) {
		__u32 kind = python_kind(item);

		sequence->is_told = kind != PYTHON_TENSOR && kind != PYTHON_TEXT && kind;
		return !sequence->is_told;
	}
	sequence->is_told = is_python_text(item, &flags);
	if (sequence->is_told)
		put_python_text(walk, item);
	return !sequence->is_told || walk->buffer->flags;
}

/* Puts a list or a tuple if torch shows it. Returns whether torch does: a list whose items are all
 * texts, or a tuple with an item that is a tensor, a text or an object of a class that is not known
 * here. Such a tuple is shown as "NULL". */
static __noinline int put_keyword_sequence(struct input_walk *walk, __u64 object, bool is_tuple)
{
	struct input_buffer *buffer = walk->buffer;
	struct item_sequence *sequence = &buffer->sequence;

	if (!find_python_items(walk, object, is_tuple))
		return 0;
	sequence->is_tuple = is_tuple;
	sequence->is_told = true;
	if (!is_tuple)
		put(buffer, sequence->count << 8 | PT_VALUE_LIST);
	bpf_loop(sequence->count, put_keyword_item, walk, 0);
	if (!is_tuple)
		return sequence->is_told;
	if (!sequence->is_told)
		put(buffer, PT_VALUE_NULL);
	return !sequence->is_told;
}

/* Puts a dict if torch shows it, as "NULL". Returns whether torch does: a dict that is empty, or
 * whose first key is a tensor, a text or an object of a class that is not known here. */
static __noinline int put_keyword_dict(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *words = buffer->items;
	__u64 count;
	__u64 table;
	__u64 size;
	__u32 kind = PYTHON_TEXT;

	if (!read_words(buffer, words, sizeof(*words), object + PYTHON_SIZE))
		return 0;
	count = words[0];
	if (!read_words(buffer, words, sizeof(*words), object + PYTHON_DICT_TABLE))
		return 0;
	table = words[0];
	if (!read_words(buffer, words, sizeof(*words), table + PYTHON_TABLE_SIZE))
		return 0;
	size = words[0];
	if (count && !has_texts_alone(walk->signature, size)) {
		if (!read_words(buffer, words, sizeof(*words),
				first_entry(walk->signature, table, size) + PYTHON_ENTRY_KEY))
			return 0;
		kind = words[0] ? python_kind(words[0]) : PYTHON_OTHER;
	}
	if (kind >= PYTHON_NONE && kind <= PYTHON_DICT)
		return 0;
	put(buffer, PT_VALUE_NULL);
	return 1;
}

static __always_inline int put_keyword_value(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 flags;
	__u32 kind;

	if (is_python_text(object, &flags)) {
		put_python_text(walk, object);
		return 1;
	}
	kind = python_kind(object);
	switch (kind) {
	case PYTHON_NONE:
	case PYTHON_COMPLEX:
		return 0;
	case PYTHON_LIST:
	case PYTHON_TUPLE:
		return put_keyword_sequence(walk, object, kind == PYTHON_TUPLE);
	case PYTHON_DICT:
		return put_keyword_dict(walk, object);
	case PYTHON_UNREADABLE:
		buffer->flags |= PT_INPUTS_FAILED;
		return 0;
	}
	if (!put_python_number(buffer, walk->signature, object, kind))
		put(buffer, PT_VALUE_NULL);
	return 1;
}

static long put_keyword(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *words = buffer->items;
	__u64 position = buffer->position;
	__u64 value;
	__u64 flags;
	__u64 key;

	if (!read_words(buffer, words, 16, buffer->address + i * buffer->stride))
		return 1;
	key = words[0];
	value = words[1];
	if (buffer->values) {
		if (!read_words(buffer, words, sizeof(*words), buffer->values + 8 * i))
			return 1;
		value = words[0];
	}
	if (!key || !value)
		return 0; /* an entry that was taken out, or never set */
	if (!is_python_text(key, &flags)) {
		buffer->flags |= PT_INPUTS_IMPLAUSIBLE; /* torch throws for such a key */
		return 1;
	}
	put_python_text(walk, key);
	if (put_keyword_value(walk, value))
		++buffer->count;
	else
		buffer->position = position;
	return buffer->flags != 0;
}

/* Sets buffer->address to the first entry of the dict, and returns how many entries follow from
 * there. If the dict shares its table with other dicts, sets buffer->values to its values; else to
 * 0. */
static __noinline __u64 open_python_dict(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *words = buffer->items;
	bool is_new = walk->signature->layout.python_dict_kind;
	__u64 table;
	__u64 size;

	if (!read_words(buffer, words, 16, object + PYTHON_DICT_TABLE))
		return 0;
	table = words[0];
	buffer->values = words[1];
	if (buffer->values && walk->signature->layout.python_dict_kind > 1)
		buffer->values += 8;
	if (!read_words(buffer, words, sizeof(*words), table + PYTHON_TABLE_SIZE))
		return 0;
	size = words[0];
	buffer->address = first_entry(walk->signature, table, size);
	buffer->stride = 16;
	if (!has_texts_alone(walk->signature, size)) {
		buffer->address += PYTHON_ENTRY_KEY;
		buffer->stride = 24;
	}
	if (!read_words(buffer, words, sizeof(*words),
			table + (is_new ? PYTHON_TABLE_ENTRIES : PYTHON_OLD_TABLE_ENTRIES)))
		return 0;
	if (words[0] <= MOST_PYTHON_ITEMS)
		return words[0];
	buffer->flags |= PT_INPUTS_CUT;
	return 0;
}

static __always_inline void put_keywords(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 count;

	clear_inputs(buffer, walk->signature);
	buffer->count = 0;
	buffer->spilled = walk->signature->arguments[0].value_offset == 1;
	if (python_kind(object) != PYTHON_DICT) {
		buffer->flags |= PT_INPUTS_IMPLAUSIBLE;
		return;
	}
	count = open_python_dict(walk, object);
	bpf_loop(count, put_keyword, walk, 0);
}

#endif
