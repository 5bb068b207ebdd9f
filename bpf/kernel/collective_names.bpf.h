/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records what torch.distributed tells of a collective in its row record_param_comms: the number in
 * its group, whether it is point to point, the group's name and description, and the collective's
 * own name. Among a row's inputs torch shows numbers and lists, but neither texts nor tuples, so
 * these are written as keyword values, as they are in torch's own trace.
 *
 * The row's values (ParamCommsUtils.hpp), behind the tensors if there are any:
 *   2.11            (number, is point to point), (name, description), rank, collective, ...
 *   earlier 2.x     number, name, rank, collective, ... or with an address in place of the name
 *   1.13            number, rank, collective, ...
 * The kind of each value tells what it is, so that no table of versions is needed.
 */
#ifndef PROFTRACE_BPF_COLLECTIVE_NAMES_H
#define PROFTRACE_BPF_COLLECTIVE_NAMES_H

#include "bpf/kernel/python_keywords.bpf.h"

/* Where intermediate values are in input_buffer's `items`. */
#define COLLECTIVE_VALUES 0 /* four IValues */
#define COLLECTIVE_TUPLE 8  /* the number of elements, and two of them */
#define COLLECTIVE_STRING 13

/* The tags of Tuple and of String minus the tag of Bool, in c10::IValue::Tag. */
#define IVALUE_TUPLE_AFTER_BOOL 1
#define IVALUE_STRING_AFTER_BOOL 2

#define MOST_COLLECTIVE_TEXT_BYTES 256

#define COLLECTIVE_PAYLOAD(i) (COLLECTIVE_VALUES + 2 * (i))
#define COLLECTIVE_TAG(i) (COLLECTIVE_VALUES + 2 * (i) + 1)
#define COLLECTIVE_ELEMENT(i) (COLLECTIVE_TUPLE + 1 + 2 * (i))
#define COLLECTIVE_ELEMENT_TAG(i) (COLLECTIVE_TUPLE + 2 + 2 * (i))

/* Puts the text of an IValue's string. Its std::string may have either ABI: {characters, length,
 * room or the characters themselves}, or one pointer to the characters, with length and room before
 * them. */
static __noinline int put_value_string(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *string = &buffer->items[COLLECTIVE_STRING];
	__u64 place = object + walk->signature->layout.object_header;
	__u64 cut = 0;
	__u64 address;
	__u64 bytes;

	if (!read_words(buffer, string, 24, place))
		return 0;
	address = string[0];
	bytes = string[1];
	if (address != place + 16 && (bytes < 16 || string[2] < bytes)) {
		if (!read_words(buffer, string, 16, address - 24))
			return 0;
		bytes = string[0];
		if (string[1] < bytes)
			bytes = ~0ULL;
	}
	if (bytes >> 28) {
		buffer->flags |= PT_INPUTS_IMPLAUSIBLE;
		return 0;
	}
	if (bytes > MOST_COLLECTIVE_TEXT_BYTES) {
		bytes = MOST_COLLECTIVE_TEXT_BYTES;
		cut = PT_VALUE_TEXT_IS_CUT;
	}
	put(buffer, bytes << 32 | cut | PT_VALUE_TEXT);
	put_characters(buffer, address, bytes);
	return 0;
}

/* A keyword's name with zeros behind it. Names are volatile, so that they are in .rodata: libbpf
 * before 0.6 does not find a section that the compiler makes for constants of one size. */
union keyword_name {
	char text[32];
	__u64 words[4];
};
static const volatile union keyword_name name_seq = {.text = "Seq"};
static const volatile union keyword_name name_is_p2p = {.text = "Is P2P"};
static const volatile union keyword_name name_group = {.text = "Process Group Name"};
static const volatile union keyword_name name_description = {.text = "Process Group Description"};
static const volatile union keyword_name name_collective = {.text = "Collective name"};

static __noinline int put_keyword_name(struct input_buffer *buffer, __u64 bytes,
				       const volatile __u64 *words)
{
	put(buffer, bytes << 32 | PT_VALUE_TEXT);
	for (__u32 i = 0; i < 4; ++i) {
		if (8 * i >= bytes)
			break;
		put(buffer, words[i]);
	}
	++buffer->count;
	return 0;
}

#define PUT_NAME(buffer, name, text) put_keyword_name(buffer, sizeof(text) - 1, (name).words)

/* Reads a tuple whose elements are in the object itself (c10::ivalue::TupleElements). Returns
 * whether it has two elements and could be read. */
static __noinline int read_pair(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *tuple = &buffer->items[COLLECTIVE_TUPLE];

	return read_words(buffer, tuple, 40, object + walk->signature->layout.object_header) &&
	       tuple[0] == 2;
}

static __noinline int put_collective_number(struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *items = buffer->items;
	__u32 bool_tag = walk->signature->layout.value_bool_tag;

	if ((__u32)items[COLLECTIVE_TAG(0)] == IVALUE_INT) {
		PUT_NAME(buffer, name_seq, "Seq");
		put_int(buffer, items[COLLECTIVE_PAYLOAD(0)]);
		return 0;
	}
	if (!read_pair(walk, items[COLLECTIVE_PAYLOAD(0)]) ||
	    (__u32)items[COLLECTIVE_ELEMENT_TAG(0)] != IVALUE_INT ||
	    (__u32)items[COLLECTIVE_ELEMENT_TAG(1)] != bool_tag)
		return 0;
	PUT_NAME(buffer, name_seq, "Seq");
	put_int(buffer, items[COLLECTIVE_ELEMENT(0)]);
	PUT_NAME(buffer, name_is_p2p, "Is P2P");
	put_bool(buffer, items[COLLECTIVE_ELEMENT(1)]);
	return 0;
}

static __noinline int put_collective_group(struct input_walk *walk, __u32 string_tag)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *items = buffer->items;
	__u64 description;

	if ((__u32)items[COLLECTIVE_TAG(1)] == string_tag) {
		PUT_NAME(buffer, name_group, "Process Group Name");
		return put_value_string(walk, items[COLLECTIVE_PAYLOAD(1)]);
	}
	if (!read_pair(walk, items[COLLECTIVE_PAYLOAD(1)]) ||
	    (__u32)items[COLLECTIVE_ELEMENT_TAG(0)] != string_tag ||
	    (__u32)items[COLLECTIVE_ELEMENT_TAG(1)] != string_tag)
		return 0;
	description = items[COLLECTIVE_ELEMENT(1)];
	PUT_NAME(buffer, name_group, "Process Group Name");
	put_value_string(walk, items[COLLECTIVE_ELEMENT(0)]);
	PUT_NAME(buffer, name_description, "Process Group Description");
	return put_value_string(walk, description);
}

/* Puts the keyword values of a row whose `count` values lie from `address` on. Returns 0 if the row
 * is not that of a collective, so that nothing is to be sent. */
static __noinline int put_collective(struct input_walk *walk, __u64 address, __u64 count)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *items = buffer->items;
	__u32 bool_tag = walk->signature->layout.value_bool_tag;
	__u32 tuple_tag = bool_tag + IVALUE_TUPLE_AFTER_BOOL;
	__u32 string_tag = bool_tag + IVALUE_STRING_AFTER_BOOL;
	__u64 name;
	__u32 tag;

	clear_inputs(buffer, walk->signature);
	buffer->count = 0;
	if (count < 5)
		return 0;
	if (!read_words(buffer, items, 16, address))
		return 1;
	tag = (__u32)items[1];
	if (tag != IVALUE_INT && tag != tuple_tag)
		address += IVALUE_BYTES;
	if (!read_words(buffer, &items[COLLECTIVE_VALUES], 64, address))
		return 1;
	tag = (__u32)items[COLLECTIVE_TAG(0)];
	if (tag != IVALUE_INT && tag != tuple_tag)
		return 0;
	tag = (__u32)items[COLLECTIVE_TAG(1)];
	if (tag == IVALUE_INT && (__u32)items[COLLECTIVE_TAG(2)] == string_tag)
		name = items[COLLECTIVE_PAYLOAD(2)];
	else if ((tag == IVALUE_INT || tag == string_tag || tag == tuple_tag) &&
		 (__u32)items[COLLECTIVE_TAG(2)] == IVALUE_INT &&
		 (__u32)items[COLLECTIVE_TAG(3)] == string_tag)
		name = items[COLLECTIVE_PAYLOAD(3)];
	else
		return 0;
	put_collective_number(walk);
	if (tag != IVALUE_INT)
		put_collective_group(walk, string_tag);
	PUT_NAME(buffer, name_collective, "Collective name");
	put_value_string(walk, name);
	return buffer->count;
}

#endif
