/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records autograd nodes. Either the engine begins a node's row, or the node does. */
#ifndef PROFTRACE_BPF_NODES_H
#define PROFTRACE_BPF_NODES_H

#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/common.bpf.h"
#include "bpf/shared/guards.bpf.h"
#include "bpf/shared/registers.bpf.h"

/* Vtables of autograd nodes that each process has run; value: enum pt_node_class. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct address_key);
	__type(value, __u32);
} node_vtables SEC(".maps");

/* Code in a job finds the class in another way (bpf/job/job_helpers.h). */
#ifndef NODE_CLASS
/* Returns the enum pt_node_class of a vtable; 0 = not known yet. */
static __always_inline __u32 find_node_class(const struct address_key *key)
{
	__u32 *known = bpf_map_lookup_elem(&node_vtables, key);

	return known ? *known : 0;
}
#define NODE_CLASS(key) find_node_class(key)
#endif

/* Writes, in pieces, the part of a type's name that does not fit into the node's record. The last
 * piece is shorter than it could be, which tells the reader that the name ends. */
static __noinline int write_rest_of_type_name(__u64 sp, __u64 characters)
{
	struct long_name *name = take_name();
	long bytes = name ? read_long_name(name, characters) : 0;
	__u32 length = bytes - 1;

	give_name_back(name);
	if (bytes <= 0)
		return 0;
#pragma unroll
	for (int i = 0; i < 3; ++i) {
		__u32 offset = PT_TYPE_NAME_BYTES - 1 + i * PT_TEXT_MORE_BYTES;

		if (length >= offset)
			write_text_part(sp, characters, length - offset, offset);
	}
	return 0;
}

/* Writes the begin of the torch::autograd::Node at `node`. The node's class is named by its vtable,
 * or, if it is a PyNode, by the class of its Python object. The row's inputs have been written
 * before (write_inputs_before). */
static __noinline int write_node_begin(struct pt_regs *ctx, __u64 node, __u64 cookie)
{
	struct address_key key = {.tgid = current_tgid()};
	__u16 object_offset = cookie >> 32;
	struct node_head head = {};
	__u64 vtable;
	__u64 python_type = 0;
	bool is_new = false;
	__u64 time_ns;
	struct pt_node_record *record;
	__u32 node_class;
	__u64 long_type_name = 0;
	__u64 characters;
	long bytes;

	read_node_head(&head, node, cookie);
	vtable = head.words[0];
	key.address = vtable;
	node_class = NODE_CLASS(&key);
	if (unlikely(!node_class)) {
		__u32 seen = PT_NODE_SEEN;

		/* The loader reads the class's name from the process, which may end soon. So the
		 * loader is told at once, but not again and again when the map is full. */
		if (!bpf_map_update_elem(&node_vtables, &key, &seen, BPF_NOEXIST))
			is_new = true;
	}
	if (object_offset && node_class != PT_NODE_PLAIN) {
		__u64 object = 0;

		/* A node that is no PyNode may be smaller than this offset. The word behind it, or
		 * a failure to read that word, is ignored. */
		if (!bpf_probe_read_user(&object, sizeof(object), (void *)(node + object_offset)))
			bpf_probe_read_user(&python_type, sizeof(python_type),
					    (void *)(object + 8));
	}
	if (python_type && node_class == PT_NODE_PYTHON) {
		record = reserve(sizeof(*record));
		if (!record)
			return 0;
		fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_NODE_BEGIN, sizeof(*record));
		/* PyTypeObject: ob_base (refcount, type, size), then tp_name. */
		characters = read_word(python_type + 24);
		bytes = bpf_probe_read_user_str(record->type_name, sizeof(record->type_name),
						(void *)characters);
		if (bytes < 0)
			record->type_name[0] = 0;
		if (bytes == sizeof(record->type_name))
			long_type_name = characters;
	} else {
		record = reserve(PT_NODE_RECORD_SHORT_BYTES);
		if (!record)
			return 0;
		fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_NODE_BEGIN,
			  PT_NODE_RECORD_SHORT_BYTES);
	}
	/* The record must not be read again once it is submitted, because others may change it
	 * then. */
	time_ns = record->head.time_ns;
	record->vtable = vtable;
	record->python_type = python_type;
	submit(record);
	if (unlikely(long_type_name))
		write_rest_of_type_name(PT_REGS_SP(ctx), long_type_name);
	if (unlikely(is_new))
		wake_loader();
	write_node_forward(time_ns, PT_REGS_SP(ctx), cookie, &head, node);
	return 0;
}

static __always_inline int on_node_begin(struct pt_regs *ctx, __u64 cookie)
{
	return write_node_begin(ctx, read_register(ctx, (cookie >> 24) & 0xff), cookie);
}

static __noinline int on_placed_node(struct pt_regs *ctx, __u64 cookie)
{
	__u32 key = cookie >> 48;
	struct pt_place *place = key ? VALUE_PLACE(&key) : NULL;

	if (!place)
		return 0;
	cookie = (cookie & ~PT_COOKIE_PLACE(0xffff)) | place->address;
	return write_node_begin(ctx, value_at(ctx, place), cookie);
}

#endif
