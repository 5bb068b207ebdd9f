/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Reads values of the target (tensors, scalars, lists) into the buffer of one call
 * (--record-shapes). No references are held, because the caller keeps each argument alive until the
 * call is over. Without the option, nothing of this is verified or run.
 */
#ifndef PROFTRACE_BPF_VALUES_H
#define PROFTRACE_BPF_VALUES_H

#include "bpf/shared/common.bpf.h"
#include "bpf/shared/ivalue.bpf.h"

/* Set by the loader. In a job, these are elsewhere (bpf/job/job_inputs.h). */
#ifndef config_record_shapes
const volatile bool config_record_shapes = false;
const volatile __u32 config_input_buffers = 1;
#endif

/* The signatures. This is an array because it is looked up at every operator; numbers begin with
 * 1. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader: 28 MB with --record-shapes */
	__type(key, __u32);
	__type(value, struct pt_signature);
} signatures SEC(".maps");

/* Signatures of autograd nodes. Key: the tgid in the tracer's PID namespace; value: a key of
 * `signatures`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u32);
} node_signatures SEC(".maps");

/* The most words of values; more are cut. This is enough for 2000 tensors of three dimensions,
 * which take 4 words each. */
#define INPUT_WORDS 8192
#define MOST_RECORD_WORDS 251
#define INPUT_HEAD_WORDS (PT_INPUTS_HEAD_BYTES / 8)
/* The number of dimensions that TensorImpl's SizesAndStrides holds inline. */
#define INLINE_DIMENSIONS 5
#define MOST_DIMENSIONS 64
/* The most items of a list of scalars that are put: torch does not show longer lists
 * (SCALAR_LIST_LENGTH_LIMIT, profiler/collection.cpp). */
#define MOST_SCALARS 30
#define MOST_TENSORS 4096
#define MOST_STACK_VALUES 1024
/* A c10::Scalar has a tag, and at byte 16 its value of 16 bytes. */
#define SCALAR_WORDS 4

/* The words of TensorImpl from sizes_and_strides_ to key_set_; they are the same in 1.13 to
 * 2.15. */
#define TENSOR_WORDS 15
#define TENSOR_DIMENSIONS 0
#define TENSOR_SIZES 1 /* inline; else the address of all sizes and strides */
#define TENSOR_STRIDES 6
#define TENSOR_NUMEL 12
#define TENSOR_TYPE 13 /* its low 16 bits */
#define TENSOR_KEYS 14

/* A Python list or tuple (bpf/kernel/python_values.bpf.h). */
struct item_sequence {
	__u64 items; /* address of the first one */
	__u64 count;
	__u32 kind; /* enum python_kind that all items so far have */
	__u8 is_tuple;
	__u8 is_told;
	__u16 reserved;
};

/* The buffer in which the values of one call are put together. There is not one for each CPU,
 * because a task that is preempted here keeps its buffer. */
struct input_buffer {
	__u64 busy;
	__u64 position; /* the index in `words` at which the next value is put */
	__u64 flags;
	__u64 count;   /* how many arguments there are */
	__u64 spilled; /* how many of them are in vector registers */
	__u64 sp;
	__u64 bp;
	__u64 arguments[PT_ARGUMENT_STACK + PT_MOST_STACK_WORDS]; /* by enum pt_argument_place */
	/* For a row outside the dispatcher, these have a bit for each word of its arguments; else
	 * they are 0. `unknown`: the word is not known. `contents`: the word is what the object
	 * will contain whose address is the argument. */
	__u64 unknown;
	__u64 contents;
	/* State of the walk through an object. It is here and not in the programs' stack frames,
	 * because all nested calls together have 512 bytes of stack on kernels before 6.13. */
	__u64 values;  /* address of the first value: of a boxed call, or of a Python sequence */
	__u64 address; /* address of the first element: of a list, or of a dict's table */
	__u64 stride;  /* bytes from one of these elements to the next */
	struct item_sequence sequence;
	__u64 items[2 * MOST_SCALARS];
	/* The head, the values, and room for one last value, or for a last record that begins
	 * among them. */
	__u64 words[INPUT_WORDS + sizeof(struct pt_inputs_record) / 8];
};

/* In a job there is one buffer for each thread. */
#ifndef BUFFERS_ARE_OF_THREADS
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct input_buffer);
} input_buffers SEC(".maps");

static __always_inline struct input_buffer *take_buffer(void)
{
	__u32 first = bpf_get_smp_processor_id() * 2;

	for (__u32 i = 0; i < 4; ++i) {
		__u32 key = (first + i) % config_input_buffers;
		struct input_buffer *buffer = bpf_map_lookup_elem(&input_buffers, &key);

		if (buffer && __sync_val_compare_and_swap(&buffer->busy, 0, 1) == 0)
			return buffer;
	}
	return NULL;
}
#endif

/* Whether words may be read at an address. For BPF programs the kernel checks that. */
#ifndef MAY_BE_WORDS
#define MAY_BE_WORDS(address) true
#endif

struct input_walk {
	struct input_buffer *buffer;
	struct pt_signature *signature;
};

static __always_inline void put(struct input_buffer *buffer, __u64 word)
{
	__u64 position = buffer->position;

	if (position >= INPUT_WORDS) {
		buffer->flags |= PT_INPUTS_CUT;
		return;
	}
	buffer->words[position] = word;
	buffer->position = position + 1;
}

static __always_inline void put_other(struct input_buffer *buffer, __u64 flags)
{
	buffer->flags |= flags;
	put(buffer, PT_VALUE_OTHER);
}

static __always_inline bool read_words(struct input_buffer *buffer, __u64 *words, __u32 bytes,
				       __u64 address)
{
	if (MAY_BE_WORDS(address) && !bpf_probe_read_user(words, bytes, (void *)address))
		return true;
	buffer->flags |= PT_INPUTS_FAILED;
	return false;
}

/* Returns words of the target: read into `words`, or (in a job, bpf/job/job_inputs.h) at their
 * own address. NULL: they cannot be read. Words at their own address may change between two
 * uses. */
#ifndef view_words
static __always_inline const __u64 *view_words(struct input_buffer *buffer, __u64 *words,
					       __u32 bytes, __u64 address)
{
	return read_words(buffer, words, bytes, address) ? words : NULL;
}
#endif

static __noinline int put_int(struct input_buffer *buffer, __u64 value)
{
	if ((__s64)(value << 8) >> 8 == (__s64)value) {
		put(buffer, value << 8 | PT_VALUE_INT);
	} else {
		put(buffer, PT_VALUE_WIDE_INT);
		put(buffer, value);
	}
	return 0;
}

/* Puts a c10::SymInt. A value below -2^62 is the address of a symbolic number. */
static __always_inline void put_symbolic_int(struct input_buffer *buffer, __u64 value)
{
	if ((__s64)value < -(1LL << 62))
		put(buffer, PT_VALUE_SYMBOLIC);
	else
		put_int(buffer, value);
}

static __always_inline void put_double(struct input_buffer *buffer, __u64 value)
{
	put(buffer, PT_VALUE_DOUBLE);
	put(buffer, value);
}

static __always_inline void put_bool(struct input_buffer *buffer, __u64 value)
{
	put(buffer, (value & 1) << 8 | PT_VALUE_BOOL);
}

static __noinline int put_tensor(struct input_buffer *buffer, struct pt_signature *signature,
				 __u64 impl)
{
	const struct pt_torch_layout *layout = &signature->layout;
	__u64 words[TENSOR_WORDS]; /* the kernel checks a read to the stack faster than one to a
				      map */
	const __u64 *tensor;
	__u64 position = buffer->position;
	__u64 flags = PT_TENSOR_STRIDED;
	__u64 numel = 1;
	__u64 used = 0;
	__u64 dimensions;
	__u64 type;

	if (impl == layout->undefined_tensor || !impl) {
		put_other(buffer, 0);
		return 0;
	}
	tensor = view_words(buffer, words, sizeof(words),
			    impl + layout->key_set_offset - 8 * TENSOR_KEYS);
	if (!tensor) {
		put_other(buffer, 0);
		return 0;
	}
	if (tensor[TENSOR_KEYS] & layout->nested_keys) {
		put_other(buffer, 0);
		return 0;
	}
	if (layout->symbolic_bit && tensor[TENSOR_TYPE] >> (layout->symbolic_bit & 63) & 1) {
		put_other(buffer, 0); /* only Python knows its sizes */
		return 0;
	}
	if (tensor[TENSOR_KEYS] & layout->unstrided_keys)
		flags = 0;
	dimensions = *(const volatile __u64 *)&tensor[TENSOR_DIMENSIONS];
	type = *(const volatile __u64 *)&tensor[TENSOR_TYPE] & 0xffff;
	if (dimensions > MOST_DIMENSIONS || type >= layout->dtypes) {
		put_other(buffer, PT_INPUTS_IMPLAUSIBLE);
		return 0;
	}
	if (position >= INPUT_WORDS) {
		buffer->flags |= PT_INPUTS_CUT;
		return 0;
	}
	buffer->words[position] = flags << 32 | type << 16 | dimensions << 8 | PT_VALUE_TENSOR;
	if (dimensions > INLINE_DIMENSIONS) {
		if (read_words(buffer, &buffer->words[position + 1], dimensions * 16,
			       tensor[TENSOR_SIZES]))
			buffer->position = position + 1 + 2 * dimensions;
		else
			put_other(buffer, 0);
		return 0;
	}
	for (__u32 i = 0; i < INLINE_DIMENSIONS; ++i) {
		if (i >= dimensions)
			break;
		numel *= tensor[TENSOR_SIZES + i];
		used |= tensor[TENSOR_SIZES + i];
		if (flags)
			used |= tensor[TENSOR_STRIDES + i];
	}
	/* Some sparse tensors have 0 as their number of elements (sampled_addmm of 1.13). */
	if (numel != tensor[TENSOR_NUMEL] && (flags || tensor[TENSOR_NUMEL])) {
		put_other(buffer, PT_INPUTS_IMPLAUSIBLE);
		return 0;
	}
	if (used >> 32) {
		for (__u32 i = 0; i < INLINE_DIMENSIONS; ++i) {
			if (i >= dimensions)
				break;
			buffer->words[position + 1 + i] = tensor[TENSOR_SIZES + i];
			buffer->words[position + 1 + dimensions + i] = tensor[TENSOR_STRIDES + i];
		}
		used = 1 + 2 * dimensions;
	} else {
		for (__u32 i = 0; i < INLINE_DIMENSIONS; ++i) {
			if (i >= dimensions)
				break;
			buffer->words[position + 1 + i] =
			    tensor[TENSOR_SIZES + i] | tensor[TENSOR_STRIDES + i] << 32;
		}
		*(volatile __u64 *)&buffer->words[position] |= (__u64)PT_TENSOR_PACKED << 32;
		used = 1 + dimensions;
	}
	buffer->position = position + used;
	return 0;
}

static __noinline int put_scalar(struct input_buffer *buffer, struct pt_signature *signature,
				 __u64 address)
{
	const struct pt_torch_layout *layout = &signature->layout;
	__u64 *scalar = buffer->items;
	__u32 tag;

	if (!read_words(buffer, scalar, 8 * SCALAR_WORDS, address)) {
		put_other(buffer, 0);
		return 0;
	}
	tag = (__u32)scalar[0];
	if (tag == 0) {
		put_double(buffer, scalar[2]);
	} else if (tag == 1) {
		put_int(buffer, scalar[2]);
	} else if (tag == layout->scalar_bool_tag) {
		put_bool(buffer, scalar[2]);
	} else if (tag == layout->scalar_complex_tag) {
		put(buffer, PT_VALUE_COMPLEX);
		put(buffer, scalar[2]);
		put(buffer, scalar[3]);
	} else if (tag == layout->scalar_uint_tag) {
		put(buffer, PT_VALUE_WIDE_UINT);
		put(buffer, scalar[2]);
	} else {
		put(buffer, PT_VALUE_SYMBOLIC);
	}
	return 0;
}

/* Puts an IValue if it is a number, as torch's isScalar() decides. Returns whether it is one. */
static __noinline int put_number(struct input_buffer *buffer, struct pt_signature *signature,
				 __u64 payload, __u32 tag)
{
	const struct pt_torch_layout *layout = &signature->layout;
	/* c10::complex is aligned to 16 bytes. */
	__u64 complex_offset = (layout->object_header + 15) & ~15ULL;

	if (tag == IVALUE_DOUBLE) {
		put_double(buffer, payload);
	} else if (tag == IVALUE_INT) {
		put_int(buffer, payload);
	} else if (tag == layout->value_bool_tag) {
		put_bool(buffer, payload);
	} else if (tag == IVALUE_COMPLEX) {
		if (!read_words(buffer, buffer->items, 16, payload + complex_offset)) {
			put_other(buffer, 0);
			return 1;
		}
		put(buffer, PT_VALUE_COMPLEX);
		put(buffer, buffer->items[0]);
		put(buffer, buffer->items[1]);
	} else if (layout->value_uint_tag && tag == layout->value_uint_tag) {
		put(buffer, PT_VALUE_WIDE_UINT);
		put(buffer, payload);
	} else if (tag > IVALUE_INT && tag < layout->value_bool_tag) {
		put(buffer, PT_VALUE_SYMBOLIC);
	} else {
		return 0;
	}
	return 1;
}

static long put_list_tensor(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 address = buffer->address + i * buffer->stride;
	__u64 value[2];

	value[1] = IVALUE_TENSOR;
	if (!read_words(buffer, &value[0], sizeof(value[0]), address) ||
	    (buffer->stride == IVALUE_BYTES &&
	     !read_words(buffer, &value[1], sizeof(value[1]), address + sizeof(value[0]))))
		return 1;
	if ((__u32)value[1] == IVALUE_TENSOR)
		put_tensor(buffer, walk->signature, value[0]);
	else
		put_other(buffer, (__u32)value[1] == IVALUE_NONE ? 0 : PT_INPUTS_IMPLAUSIBLE);
	return buffer->flags != 0;
}

/* Puts an array of tensors. `stride`: 8 in an array of at::Tensor, IVALUE_BYTES in one of
 * c10::IValue. */
static __always_inline void put_tensors(struct input_walk *walk, __u64 address, __u64 count,
					__u64 stride)
{
	if (count > MOST_TENSORS) {
		put_other(walk->buffer, PT_INPUTS_CUT);
		return;
	}
	put(walk->buffer, count << 8 | PT_VALUE_TENSORS);
	walk->buffer->address = address;
	walk->buffer->stride = stride;
	bpf_loop(count, put_list_tensor, walk, 0);
}

struct vector_ends {
	__u64 begin;
	__u64 end;
};

static __always_inline bool read_vector(struct input_buffer *buffer, __u64 address,
					struct vector_ends *ends)
{
	if (!read_words(buffer, &ends->begin, sizeof(*ends), address))
		return false;
	if (ends->end < ends->begin) {
		buffer->flags |= PT_INPUTS_IMPLAUSIBLE;
		return false;
	}
	return true;
}

/* The number of words of a c10::List's object behind the header: a vector of IValues, and the
 * type of its elements. */
#define LIST_WORDS 4
#define LIST_BEGIN 0
#define LIST_END 1
#define LIST_ELEMENT_TYPE 3

static __noinline int put_value_list(struct input_walk *walk, __u64 object)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 *list = buffer->items;
	__u64 begin;
	__u64 count;

	if (!read_words(buffer, list, 8 * LIST_WORDS,
			object + walk->signature->layout.object_header)) {
		put_other(buffer, 0);
		return 0;
	}
	begin = list[LIST_BEGIN];
	if (list[LIST_END] < begin) {
		put_other(buffer, PT_INPUTS_IMPLAUSIBLE);
		return 0;
	}
	count = (list[LIST_END] - begin) / IVALUE_BYTES;
	/* TorchScript has special types for tensors of a certain shape, which are recognized by
	 * their vtables. */
	if (!read_words(buffer, list, sizeof(*list), list[LIST_ELEMENT_TYPE])) {
		put_other(buffer, 0);
		return 0;
	}
	if (list[0] == walk->signature->layout.tensor_vtable) {
		put_tensors(walk, begin, count, IVALUE_BYTES);
		return 0;
	}
	if (count > MOST_SCALARS ||
	    (count && !read_words(buffer, buffer->items, count * IVALUE_BYTES, begin))) {
		put_other(buffer, 0);
		return 0;
	}
	put(buffer, count << 8 | PT_VALUE_LIST);
	for (__u32 i = 0; i < MOST_SCALARS; ++i) {
		if (i >= count)
			break;
		if (!put_number(buffer, walk->signature, buffer->items[2 * i],
				(__u32)buffer->items[2 * i + 1])) {
			/* The first element tells whether this is a list of numbers. Any other
			 * element that is no number is implausible. */
			buffer->position -= 1;
			put_other(buffer, i ? PT_INPUTS_IMPLAUSIBLE : 0);
			break;
		}
	}
	return 0;
}

static long put_stack_value(__u32 i, struct input_walk *walk)
{
	struct input_buffer *buffer = walk->buffer;
	__u64 words[2] = {};
	__u32 tag;

	if (!read_words(buffer, words, sizeof(words), buffer->values + i * IVALUE_BYTES))
		return 1;
	tag = (__u32)words[1];
	if (tag == IVALUE_TENSOR)
		put_tensor(buffer, walk->signature, words[0]);
	else if (tag == (__u32)walk->signature->layout.value_bool_tag + IVALUE_LIST_AFTER_BOOL)
		put_value_list(walk, words[0]);
	else if (!put_number(buffer, walk->signature, words[0], tag))
		put_other(buffer, 0);
	buffer->count = i + 1;
	return buffer->flags != 0;
}

static __always_inline int put_values(struct input_walk *walk, __u64 address, __u64 count)
{
	struct input_buffer *buffer = walk->buffer;

	buffer->count = 0;
	if (count > MOST_STACK_VALUES) {
		buffer->flags |= PT_INPUTS_CUT;
		return 0;
	}
	buffer->values = address;
	bpf_loop(count, put_stack_value, walk, 0);
	return 0;
}

/* Puts the whole stack of a boxed call, because torch shows also the values below the arguments. */
static __always_inline void put_stack(struct input_walk *walk, __u64 address)
{
	struct vector_ends ends;

	walk->buffer->count = 0;
	if (read_vector(walk->buffer, address, &ends))
		put_values(walk, ends.begin, (ends.end - ends.begin) / IVALUE_BYTES);
}

static __always_inline void put_last_values(struct input_walk *walk, __u64 address, __u64 count)
{
	struct input_buffer *buffer = walk->buffer;
	struct vector_ends ends;

	buffer->count = 0;
	if (!read_vector(buffer, address, &ends))
		return;
	if (count > (ends.end - ends.begin) / IVALUE_BYTES)
		buffer->flags |= PT_INPUTS_IMPLAUSIBLE;
	else
		put_values(walk, ends.end - count * IVALUE_BYTES, count);
}

/* Puts a list whose items are neither tensors nor numbers, which torch shows only if it is
 * empty. */
static __always_inline int put_empty(struct input_buffer *buffer, const struct vector_ends *ends)
{
	put(buffer, ends->end == ends->begin ? PT_VALUE_LIST : PT_VALUE_OTHER);
	return 0;
}

static __noinline int put_empty_list(struct input_walk *walk, __u64 address)
{
	struct input_buffer *buffer = walk->buffer;
	struct vector_ends ends;
	__u64 object = 0;

	if (read_words(buffer, &object, sizeof(object), address) &&
	    read_vector(buffer, object + walk->signature->layout.object_header, &ends))
		put_empty(buffer, &ends);
	return 0;
}

static __noinline int put_empty_vector(struct input_buffer *buffer, __u64 address)
{
	struct vector_ends ends;

	if (read_vector(buffer, address, &ends))
		put_empty(buffer, &ends);
	return 0;
}

/* Puts a list of numbers. `are_doubles`: if false, they are int64_t or c10::SymInt. */
static __noinline int put_numbers(struct input_buffer *buffer, __u64 address, __u64 count,
				  bool are_doubles)
{
	if (count > MOST_SCALARS ||
	    (count && !read_words(buffer, buffer->items, count * 8, address))) {
		put_other(buffer, 0);
		return 0;
	}
	put(buffer, count << 8 | PT_VALUE_LIST);
	for (__u32 i = 0; i < MOST_SCALARS; ++i) {
		if (i >= count)
			break;
		if (are_doubles)
			put_double(buffer, buffer->items[i]);
		else
			put_symbolic_int(buffer, buffer->items[i]);
	}
	return 0;
}

static __noinline int put_int_vector(struct input_buffer *buffer, __u64 address)
{
	struct vector_ends ends;

	if (read_vector(buffer, address, &ends))
		put_numbers(buffer, ends.begin, (ends.end - ends.begin) / 8, false);
	return 0;
}

static __noinline int put_scalars(struct input_buffer *buffer, struct pt_signature *signature,
				  __u64 address, __u64 count)
{
	if (count > MOST_SCALARS) {
		put_other(buffer, 0);
		return 0;
	}
	put(buffer, count << 8 | PT_VALUE_LIST);
	for (__u32 i = 0; i < MOST_SCALARS; ++i) {
		if (i >= count)
			break;
		put_scalar(buffer, signature, address + i * 8 * SCALAR_WORDS);
	}
	return 0;
}

#endif
