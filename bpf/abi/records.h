/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The records that the BPF programs write into the ring and that a capture file holds: shared by
 * BPF (C11) and C++.
 *
 * Every record begins with struct pt_record and is pt_record.words * 8 bytes long. New kinds are
 * only appended, and a kind's layout only grows at its end, so that a reader skips a kind that it
 * does not know by its size. Fields have fixed widths, little endian, with explicit padding. No
 * reader may trust the contents, because they come from a foreign process.
 */
#ifndef PROFTRACE_BPF_ABI_RECORDS_H
#define PROFTRACE_BPF_ABI_RECORDS_H

#ifdef __cplusplus
#include <cstdint>
namespace proftrace::abi
{
typedef uint64_t pt_u64;
typedef uint32_t pt_u32;
typedef uint16_t pt_u16;
typedef uint8_t pt_u8;
typedef int16_t pt_s16;
typedef int32_t pt_s32;
typedef int64_t pt_s64;
typedef int8_t pt_s8;
#define PT_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
typedef __u64 pt_u64;
typedef __u32 pt_u32;
typedef __u16 pt_u16;
typedef __u8 pt_u8;
typedef __s16 pt_s16;
typedef __s32 pt_s32;
typedef __s64 pt_s64;
typedef __s8 pt_s8;
#define PT_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* The kinds of records. record_kinds.def lists and describes them. */
enum pt_kind {
#define PT_RECORD_KIND(name, number, structure, least, roles) name = number,
#include "bpf/abi/record_kinds.def"
#undef PT_RECORD_KIND
};

/* Says what a kind of record is for, besides telling of an event of its thread. The values are
 * bits. */
enum pt_kind_role {
	PT_ROLE_DEFINES = 1, /* it describes something that later records refer to by a number */
	PT_ROLE_STACKS = 2,  /* it tells of Python's code and stacks, and has no time of its own */
	PT_ROLE_PROCESSES = 4, /* it tells which process a thread belongs to */
};

/* The stack pointer is kept as sp >> 3, cut to 32 bits. Stack pointers are compared by their signed
 * difference, which is right within +-8 GiB. */
struct pt_record {
	pt_u64 time_ns; /* CLOCK_MONOTONIC */
	pt_u32 pid;	/* tgid, in the tracer's PID namespace */
	pt_u32 tid;
	pt_u32 sp;   /* user stack pointer >> 3 at the probe */
	pt_u16 site; /* index into the probe plan's sites; 0 = none */
	pt_u8 kind;  /* enum pt_kind */
	pt_u8 words; /* size of the whole record in units of 8 bytes */
};
PT_STATIC_ASSERT(sizeof(struct pt_record) == 24, "pt_record");

struct pt_pointer_record {
	struct pt_record head;
	pt_u64 value;
};
PT_STATIC_ASSERT(sizeof(struct pt_pointer_record) == 32, "pt_pointer_record");

#define PT_TYPE_NAME_BYTES 64

struct pt_node_record {
	struct pt_record head;
	pt_u64 vtable;	    /* of the Node */
	pt_u64 python_type; /* PyTypeObject* of a PyNode's object, else meaningless; 0 = not read */
	/* This field is there only if the vtable is known to be PyNode's: tp_name and a NUL. If the
	 * name fills the field, PT_TEXT_MORE records follow, the last not full. */
	char type_name[PT_TYPE_NAME_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_node_record) == 104, "pt_node_record");
#define PT_NODE_RECORD_SHORT_BYTES 40

#define PT_TEXT_BYTES 248

/* A name: at most its first PT_TEXT_BYTES; `length` is the full length, or 0xffffffff if the
 * name could not be read. */
struct pt_text_record {
	struct pt_record head;
	pt_u32 length;
	pt_u32 reserved;
	char text[PT_TEXT_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_text_record) == 280, "pt_text_record");
#define PT_TEXT_READ_FAILED 0xffffffffu

/* The part of a longer name from `offset` on. Several such records may follow, up to PT_NAME_BYTES
 * of the name. */
#define PT_TEXT_MORE_BYTES 2000
#define PT_NAME_BYTES 4096 /* names are cut here */
struct pt_text_more_record {
	struct pt_record head;
	pt_u32 offset;
	pt_u32 bytes;
	char text[PT_TEXT_MORE_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_text_more_record) == 2032, "pt_text_more_record");

/* A row that has an object of its own, by whose address it is identified. Such a row may begin and
 * end on different threads. */
struct pt_guard_record {
	struct pt_record head;
	pt_u64 handle; /* the address of the object */
	pt_u64 object; /* PT_FRAME_BEGIN: the frame's code, which does not move, while frames may */
	pt_u32 scope;  /* at::RecordScope, as the target passed it */
	pt_u32 length; /* of the name, as PT_TEXT_LENGTH; or PT_TEXT_READ_FAILED */
	/* This field is there only if the name is not the site's own; else the record ends before
	 * it. */
	char text[PT_TEXT_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_guard_record) == 296, "pt_guard_record");
#define PT_GUARD_RECORD_SHORT_BYTES 48

struct pt_pair_record {
	struct pt_record head;
	pt_u64 handle;
	pt_u64 object;
};
PT_STATIC_ASSERT(sizeof(struct pt_pair_record) == 40, "pt_pair_record");

struct pt_fork_record {
	struct pt_record head; /* pid, tid: of the parent; site: 1 = both share memory (vfork) */
	pt_u32 child_pid;
	pt_u32 child_tid;
};
PT_STATIC_ASSERT(sizeof(struct pt_fork_record) == 32, "pt_fork_record");

struct pt_exit_record {
	struct pt_record head;
	pt_u32 group_dead; /* 1 = the last thread of the process */
	pt_u32 exit_code;  /* as in wait(): the signal in bits 0..6, exit()'s argument in 8..15 */
	char comm[16];
};
PT_STATIC_ASSERT(sizeof(struct pt_exit_record) == 48, "pt_exit_record");

/*
 * Inputs: a sequence of values. Each value begins with a word whose low byte is its enum pt_value.
 * The values of a PT_INPUTS and of its PT_INPUTS_MOREs are one sequence, cut at any word.
 */
struct pt_inputs_record {
	struct pt_record head;
	pt_u16 count;  /* PT_INPUTS: of arguments; PT_KEYWORDS: of names, each with a value */
	pt_u8 flags;   /* of enum pt_inputs_flag */
	pt_u8 spilled; /* PT_INPUTS: how many PT_VALUE_SPILLED there are; PT_KEYWORDS: 1 = torch
			  takes the row's scope from the keyword "scope" */
	pt_u32 words;  /* words of all values; PT_INPUTS_MORE: words before these */
	pt_u64 values[251];
};
PT_STATIC_ASSERT(sizeof(struct pt_inputs_record) == 2040, "pt_inputs_record");
#define PT_INPUTS_HEAD_BYTES 32

/* The begin of an operator, with its inputs if they fit. If they do not fit, they come before it,
 * in a PT_INPUTS. */
struct pt_call_record {
	struct pt_record head;
	pt_u64 facts; /* bits 0..47: the sequence number + 1, 0 = none; 48..55: the number of
		       * arguments; 56..63: enum pt_inputs_flag */
	pt_u64 values[251];
};
PT_STATIC_ASSERT(sizeof(struct pt_call_record) == 2040, "pt_call_record");
#define PT_CALL_HEAD_BYTES 32
#define PT_CALL_SEQUENCE_BITS 48

enum pt_inputs_flag {
	PT_INPUTS_CUT = 1,	   /* there was no room for all values: `values` is not complete */
	PT_INPUTS_FAILED = 2,	   /* something could not be read */
	PT_INPUTS_IMPLAUSIBLE = 4, /* something that should be a tensor or a list is not one */
	PT_INPUTS_UNTOLD = 8,	   /* it is not known what torch shows of a Python object */
};

enum pt_value {
	PT_VALUE_OTHER = 0,	/* torch shows nothing of it: None, a string, an undefined tensor */
	PT_VALUE_TENSOR = 1,	/* bits 8..15 dimensions, 16..31 dtype, 32.. enum pt_tensor_flag;
				   then a word or two a dimension */
	PT_VALUE_INT = 2,	/* bits 8..63, signed */
	PT_VALUE_WIDE_INT = 3,	/* the next word */
	PT_VALUE_WIDE_UINT = 4, /* the next word */
	PT_VALUE_BOOL = 5,	/* bit 8 */
	PT_VALUE_DOUBLE = 6,	/* the next word */
	PT_VALUE_COMPLEX = 7,	/* the next two words */
	PT_VALUE_LIST = 8,	/* a list of scalars; bits 8..63: how many values follow */
	PT_VALUE_TENSORS = 9,	/* a list of tensors; bits 8..63: how many values follow */
	PT_VALUE_SPILLED = 10,	/* a double in vector register number bits 8..15 */
	PT_VALUE_SYMBOLIC = 11, /* a number that torch.compile traces with */
	/* These are only in PT_KEYWORDS, where a PT_VALUE_LIST is a list of texts. */
	PT_VALUE_TEXT = 12, /* bits 8..15 bytes a character, 0 = UTF-8; bit 16 set = cut; bits 32..
			       how many bytes, which follow */
	PT_VALUE_NULL = 13, /* torch shows "NULL" */
};
#define PT_VALUE_TEXT_IS_CUT (1ULL << 16)
#define PT_MOST_VALUE_TEXT_BYTES 4080 /* two whole records' */

enum pt_tensor_flag {
	PT_TENSOR_STRIDED = 1, /* its strides are known */
	/* Each dimension has one word: its size in the low half, its stride in the high half. If
	 * this is not set, words with all sizes come first, then words with all strides. */
	PT_TENSOR_PACKED = 2,
};

/* PT_ALLOCATION and PT_FREE do not need sp and site: these hold bits 0..31 and 32..47 of the
 * block's address. An address has more bits only in a process that asks mmap for such addresses
 * (5-level paging). */

struct pt_memory_record {
	struct pt_record head;
	pt_u64 address;
	pt_s64 bytes;
	pt_u64 allocated; /* in the device's allocator, after this */
	pt_u64 reserved;
	pt_u8 device_type;  /* c10::DeviceType: 0 = CPU, 1 = CUDA */
	pt_s8 device_index; /* -1 = none */
	pt_u8 is_stacked;   /* as PT_STACKED_ALLOCATION */
	pt_u8 reserved_bytes[5];
};
PT_STATIC_ASSERT(sizeof(struct pt_memory_record) == 64, "pt_memory_record");

/*
 * The attach cookie of a probe tells the program what to do:
 *   bits 0..15 site, 16..23 role, 24..31 register that holds the argument (enum pt_register),
 *   48..63 the place of the record's name (a key of the map `value_places`), 0 = none,
 *   32..47 PT_ROLE_NODE_BEGIN and PT_ROLE_PLACED_NODE: offset of the Python object's pointer in a
 *          PyNode, 0 = do not read;
 *          PT_ROLE_BOXED_BEGIN: the register that holds the Stack* (enum pt_register).
 *          PT_ROLE_GUARD_* and PT_ROLE_FRAME_*: signed: the handle is the register in bits 24..31
 *          (here by its hardware number) plus this.
 */
enum pt_role {
	PT_ROLE_BEGIN = 1,
	PT_ROLE_END = 2,
	PT_ROLE_CATCH = 3,
	PT_ROLE_BOXED_BEGIN = 4,
	PT_ROLE_BOXED_END = 5,
	PT_ROLE_NODE_BEGIN = 6,
	PT_ROLE_LITERAL_BEGIN = 7,
	PT_ROLE_COST = 8,
	PT_ROLE_GUARD_BEGIN = 9,
	PT_ROLE_GUARD_END = 10,
	PT_ROLE_GUARD_UNWOUND = 11, /* the end in code that runs only for an exception */
	PT_ROLE_FRAME_BEGIN = 12,
	PT_ROLE_FRAME_END = 13,
	PT_ROLE_PLACED_BEGIN = 14, /* an operator; its OperatorDef* is at the cookie's place */
	PT_ROLE_ANNOTATION_GUARD = 15,
	PT_ROLE_WORK_TITLE = 16,
	PT_ROLE_WORK_BEGIN = 17, /* the handle is the address of the pointer to the work */
	/* Roles of --record-shapes; the place is the number of a pt_signature (the map
	 * `signatures`). */
	PT_ROLE_INPUTS_BEGIN = 18, /* PT_ROLE_BEGIN, and the inputs */
	PT_ROLE_SPILLED_INPUTS = 19,
	/* PT_ROLE_NODE_BEGIN in the middle of a function, where the Node* is at the cookie's
	 * place. */
	PT_ROLE_PLACED_NODE = 20,
	PT_ROLE_WORK_END = 21, /* as PT_ROLE_WORK_BEGIN, for a work whose end ends the row */
	PT_ROLE_UNWOUND = 22,  /* PT_CATCH; the handle is the address of the stack pointer */
	/* The group is in the register of bits 24..27; the handle is where it counts (4 bytes). An
	 * offset of 0: the call takes no number. */
	PT_ROLE_GROUP_CALL = 23,
	/* Entries of functions in libc10 (--profile-memory), whose arguments have fixed places. */
	PT_ROLE_ALLOCATION = 32,	/* ProfiledCPUMemoryReporter::New(void*, size_t) */
	PT_ROLE_FREE = 33,		/* ProfiledCPUMemoryReporter::Delete(void*) */
	PT_ROLE_CPU_OUT_OF_MEMORY = 34, /* ProfiledCPUMemoryReporter::OutOfMemory(size_t) */
	PT_ROLE_DEVICE_MEMORY = 35, /* reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t,
				       Device) */
	PT_ROLE_DEVICE_OUT_OF_MEMORY = 36, /* reportOutOfMemoryToProfiler(int64_t, size_t, size_t,
					      Device) */
	/* At a call of getStepCallbacksUnlessEmpty, where the dispatch key set is known
	   (PT_KEY_SET_*). */
	PT_ROLE_OPERATOR_BEGIN = 40, /* PT_ROLE_BEGIN, and the sequence number */
	PT_ROLE_SEQUENCE = 41,	     /* the sequence number alone */
	/* PT_ROLE_OPERATOR_BEGIN, and the inputs (--record-shapes); the place is the number of a
	   pt_signature, which has the rest of the cookie. */
	PT_ROLE_OPERATOR_CALL = 50,
	PT_ROLE_COST_AGAIN = 51,
	/* Entries of functions that mark ranges for other profilers (ITT, NVTX). A range is an
	   annotation, whose handle is its thread's (PT_RANGE_HANDLE). */
	PT_ROLE_RANGE_PUSH = 70,  /* f(const char *name) */
	PT_ROLE_RANGE_POP = 71,	  /* f() */
	PT_ROLE_RANGE_MARK = 72,  /* f(const char *name): a range that is over at once */
	PT_ROLE_SIZED_BEGIN = 80, /* PT_ROLE_BEGIN, with the value of the argument */
	/* For jumps only: where Python, as it ends, frees its threads' states. No record. */
	PT_ROLE_PYTHON_END = 81,
};

/* The handle of all ranges of a thread: the last one ends first. It is odd; pointers are even. */
#define PT_RANGE_HANDLE(tid) ((unsigned long long)(tid) << 32 | 1)

/*
 * Tells where the dispatch key set is, and which keys matter: bits 24..27 a register (by its
 * hardware number); bit 28 set = the set is in memory there, at the signed offset of bits 32..47;
 * bits 48..56 the bytes from the stack pointer there up to that of the entry, in units of 8; bits
 * 57..62 the lowest of the three autograd keys; bit 63 set = only the highest key of the set counts
 * (before 2.2).
 * PT_ROLE_PLACED_BEGIN: bits 24..47 are as above, where bit 29 is set; the rest is in the process's
 * struct pt_autograd_layout.
 * PT_ROLE_GUARD_BEGIN: bit 31 set = torch gives the row the thread's sequence number.
 * PT_ROLE_NODE_BEGIN: bits 48..55 and 56..63 are the offsets in a Node of its sequence number and
 * of its thread, in units of 8; 0 = not known. PT_ROLE_PLACED_NODE has these bits in
 * pt_place.address.
 */
#define PT_KEY_SET_IN_MEMORY 0x10
#define PT_KEY_SET_KNOWN 0x20
#define PT_GUARD_HAS_SEQUENCE 0x80
#define PT_FRAME_WORDS_LIMIT 512
#define PT_COOKIE_KEYS(frame_words, lowest_key, highest_only)                                      \
	((unsigned long long)((frame_words)&0x1ff) << 48 |                                         \
	 (unsigned long long)((lowest_key)&0x3f) << 57 |                                           \
	 (unsigned long long)!!(highest_only) << 63)
#define PT_COOKIE_NODE(sequence, thread)                                                           \
	((unsigned long long)((sequence) / 8 & 0xff) << 48 |                                       \
	 (unsigned long long)((thread) / 8 & 0xff) << 56)

/* A thread_local variable. It lies at `offset` in the memory of the tls_index (of the ABI for TLS:
 * module, offset) whose address is `index`. */
struct pt_thread_variable {
	pt_u64 index; /* 0 = not known */
	pt_s64 offset;
};

/* The variables from which one process's sequence numbers come: the value of the map
 * `autograd_layouts`. */
struct pt_autograd_layout {
	struct pt_thread_variable sequence;	 /* the next number */
	struct pt_thread_variable thread_number; /* 0 = the thread has none yet */
	struct pt_thread_variable grad_mode;	 /* bit 0 of a byte */
	struct pt_thread_variable grad_mode_set; /* a byte: 0 = not initialised, and on */
	pt_u32 lowest_key;
	pt_u32 highest_only;
};
PT_STATIC_ASSERT(sizeof(struct pt_autograd_layout) == 72, "pt_autograd_layout");

enum pt_register {
	PT_RDI = 0,
	PT_RSI = 1,
	PT_RDX = 2,
	PT_RCX = 3,
	PT_R8 = 4,
	PT_R9 = 5,
};

#define PT_COOKIE(site, role, reg, offset)                                                         \
	((unsigned long long)((site)&0xffff) | (unsigned long long)((role)&0xff) << 16 |           \
	 (unsigned long long)((reg)&0xff) << 24 | (unsigned long long)((offset)&0xffff) << 32)
/* Tells which of two links a probe is in, because its link may be replaced by another one. No role
 * uses this bit. */
#define PT_COOKIE_GENERATION (1ULL << 30)
#define PT_COOKIE_PLACE(place) ((unsigned long long)((place)&0xffff) << 48)

/*
 * How to find a value of the target, from its registers on: value = base + offsets[0], then for
 * each further offset value = *(u64 *)value + offset. With an index, which is for an element of an
 * array, a register's value is also added, after the offset of one step.
 */
#define PT_PLACE_OFFSETS 6
enum pt_place_base {
	PT_PLACE_RAX = 0, /* registers by their hardware numbers: rax, rcx, rdx, rbx, rsp, rbp, rsi,
			     rdi, r8 to r15 */
	PT_PLACE_ADDRESS = 16,	/* the address in pt_place.address */
	PT_PLACE_CONSTANT = 17, /* the number in pt_place.address, which is no address */
	PT_PLACE_UNKNOWN = 18,
};
enum pt_place_form {
	PT_PLACE_WORD = 0,	    /* the value itself */
	PT_PLACE_C_STRING = 1,	    /* the address of a text that ends with NUL */
	PT_PLACE_PYTHON_STRING = 2, /* the address of a Python str */
	PT_PLACE_NOTHING = 3,	    /* no name is read: only the inputs of the row */
	PT_PLACE_PYTHON_TYPE = 4,   /* the address of a Python type, whose name is read */
	PT_PLACE_SYMBOL = 5,	    /* the number of a c10::Symbol (32 bits), whose text the loader
				       reads. Only for PT_ROLE_PLACED_BEGIN */
};
struct pt_place {
	pt_u64 address; /* for two of the bases, and for PT_COOKIE_NODE's bits */
	pt_s32 offsets[PT_PLACE_OFFSETS];
	pt_u8 base;	   /* enum pt_place_base */
	pt_u8 count;	   /* of offsets, at least 1 */
	pt_u8 form;	   /* enum pt_place_form */
	pt_u8 text_offset; /* PT_PLACE_PYTHON_STRING: sizeof(PyASCIIObject) */
	pt_u32 inputs;	   /* of the row that begins there: key of the map `row_inputs`, 0 = none */
	pt_u8 is_byte;	   /* set = only the lowest byte is the value */
	pt_u8 is_content;  /* set = what the object at the argument's address will contain */
	pt_u8 index;	   /* 1 + a register by its hardware number, 0 = no index */
	pt_u8 index_shift; /* added: register << shift */
	pt_u8 index_step;  /* after which of the offsets, from 0 */
	pt_u8 reserved;
	/* 1 + the index of the place that is read instead if this place gives 0; 0 = none. */
	pt_u16 otherwise;
};
PT_STATIC_ASSERT(sizeof(struct pt_place) == 48, "pt_place");

/* How an argument is passed, and whether torch shows it. */
enum pt_argument_kind {
	PT_ARGUMENT_OTHER = 0,	       /* torch shows nothing of it */
	PT_ARGUMENT_TENSOR = 1,	       /* address of an at::Tensor */
	PT_ARGUMENT_TENSORS = 2,       /* address of the first at::Tensor, count */
	PT_ARGUMENT_TENSOR_ITEMS = 3,  /* address of a c10::IListRef<at::Tensor> */
	PT_ARGUMENT_TENSOR_VECTOR = 4, /* address of a std::vector<at::Tensor>: each element is an
					  argument */
	PT_ARGUMENT_INT = 5,
	PT_ARGUMENT_BYTE = 6, /* a signed one: ScalarType, Layout, MemoryFormat */
	PT_ARGUMENT_BOOL = 7,
	PT_ARGUMENT_DOUBLE = 8,
	PT_ARGUMENT_SYMBOLIC_INT = 9,	/* address of a c10::SymInt */
	PT_ARGUMENT_SCALAR = 10,	/* address of a c10::Scalar */
	PT_ARGUMENT_INTS = 11,		/* address, count; of int64_t or c10::SymInt */
	PT_ARGUMENT_DOUBLES = 12,	/* address, count */
	PT_ARGUMENT_SCALARS = 13,	/* address, count */
	PT_ARGUMENT_NAMES = 14,		/* address, count: shown only when empty */
	PT_ARGUMENT_BOOL_ARRAY = 15,	/* a std::array<bool, `second`> */
	PT_ARGUMENT_STACK_VALUES = 16,	/* address of a std::vector<c10::IValue>: each element is an
					   argument */
	PT_ARGUMENT_SAVED_DOUBLE = 17,	/* at offset `value_offset` from rsp (`place` 0) or rbp */
	PT_ARGUMENT_SYMBOLIC_WORD = 50, /* the word of a c10::SymInt */
	PT_ARGUMENT_LIST = 60,		/* address of a c10::List, shown only when empty */
	PT_ARGUMENT_OBJECT_VECTOR = 64, /* address of a std::vector, shown only when empty */
	PT_ARGUMENT_INT_VECTOR = 65,	/* address of a std::vector<int64_t> */
	PT_ARGUMENT_TENSOR_ARRAY = 66,	/* address of an ArrayRef<at::Tensor> */
	/* Kinds of arguments that stand for all inputs of a row outside the dispatcher's functions
	 * (struct pt_row_inputs). */
	PT_ARGUMENT_VALUES = 61,	/* address of the first c10::IValue, count: each is an
					   argument */
	PT_ARGUMENT_LAST_VALUES = 62,	/* address of a std::vector<c10::IValue>, count: each of its
					   last ones is an argument */
	PT_ARGUMENT_PYTHON_VALUES = 63, /* address of a Python tuple: each tensor is an argument,
					   and each number where layout.python_numbers is set */
	PT_ARGUMENT_PYTHON_ARGUMENTS = 67, /* address of a Python tuple: each item is an argument */
	/* Address of a Python list or tuple, null = none: each item that torch infers a type of is
	 * an argument. Then the address of a dict of keyword values, null = none; `value_offset` 1
	 * = its value "scope" is the row's scope. */
	PT_ARGUMENT_INFERRED_VALUES = 68,
};

/* Where an argument's word is when the probe is hit. */
enum pt_argument_place {
	PT_ARGUMENT_REGISTER = 0, /* + enum pt_register, or (PT_ROLE_OPERATOR_CALL) 0 to 5 for rbx,
				     rbp, r12 to r15 */
	PT_ARGUMENT_STACK = 6,	  /* + index of the word behind the signature's first_word */
	PT_ARGUMENT_VECTOR_REGISTER = 0xe0, /* + number: not readable at the entry */
	PT_ARGUMENT_IN_MEMORY = 0xfd,	 /* of a flag: it is `flag_offset` bytes from the address */
	PT_ARGUMENT_NULL_IS_NONE = 0xfe, /* of a flag: a null address is no value, unless the
					    count is 0, too */
	PT_ARGUMENT_NOWHERE = 0xff,
};

struct pt_argument {
	pt_u8 kind;	     /* enum pt_argument_kind */
	pt_u8 place;	     /* enum pt_argument_place */
	pt_u8 second;	     /* place of a count */
	pt_u8 flag;	     /* place of an optional's flag; PT_ARGUMENT_NOWHERE = no optional */
	pt_s16 value_offset; /* bytes: from the address to the value, or (of numbers below 8 bytes)
				inside the word */
	pt_s16 flag_offset;  /* bytes: from the address to the flag */
};
PT_STATIC_ASSERT(sizeof(struct pt_argument) == 8, "pt_argument");

/* The layout of torch's objects in memory, in one process. */
struct pt_torch_layout {
	pt_u64 undefined_tensor; /* address of the one UndefinedTensorImpl */
	pt_u64 tensor_vtable;	 /* of a c10::TensorType */
	pt_u64 nested_keys; /* in TensorImpl::key_set_: torch shows no sizes of tensors with it */
	pt_u64 unstrided_keys; /* in key_set_, too: sparse and other tensors without strides */
	pt_u16 key_set_offset; /* in a TensorImpl; all other fields are found from it */
	pt_u16 dtypes;	       /* the numbers of valid data types are below this */
	pt_u8 scalar_uint_tag; /* c10::Scalar::Tag; 0xff = none */
	pt_u8 scalar_complex_tag;
	pt_u8 scalar_bool_tag;
	pt_u8 value_bool_tag; /* c10::IValue::Tag */
	pt_u8 value_uint_tag; /* 0 = none */
	pt_u8 object_header;  /* sizeof(c10::intrusive_ptr_target) */
	pt_u8 symbolic_bit; /* TensorImpl::has_symbolic_sizes_strides_, counted from its data type's
			       lowest bit on; 0 = none */
	pt_u8 python_tensor;   /* offset of the TensorImpl* in a Python tensor; 0 = not known */
	pt_u8 python_items;    /* offset of the first item in a tuple */
	pt_u8 python_long_tag; /* not 0: Python's ints have tags, and a str is shorter (3.12) */
	pt_u8
	    python_numbers; /* set = torch shows the numbers among a custom Function's arguments */
	pt_u8 python_dict_kind; /* 1 = a dict's table tells the kind of its keys (3.11); 2 = and
				 * values outside of the table have a head (3.13) */
};
PT_STATIC_ASSERT(sizeof(struct pt_torch_layout) == 48, "pt_torch_layout");

#define PT_MOST_ARGUMENTS 48
#define PT_MOST_STACK_WORDS 128
struct pt_signature {
	struct pt_torch_layout layout;
	pt_u32 count;
	pt_u16 first_word;  /* of the stack, counted from the stack pointer at the probe */
	pt_u16 stack_words; /* how many are read, at most PT_MOST_STACK_WORDS */
	pt_u64 begin;	    /* PT_ROLE_OPERATOR_CALL: bits 24..63 as PT_ROLE_OPERATOR_BEGIN's cookie
			       has them */
	struct pt_argument arguments[PT_MOST_ARGUMENTS];
};
PT_STATIC_ASSERT(sizeof(struct pt_signature) == 448, "pt_signature");

/* The inputs of a row that is only a part of a function. The words of its arguments each have a
 * place of their own, where the row begins. */
#define PT_ROW_WORDS 20 /* numbered as enum pt_argument_place: six registers, then the stack */
struct pt_row_inputs {
	pt_u32 signature; /* a key of the map `signatures`; 0 = that of the operator (the map
			     `operator_signatures`) */
	pt_u32 count;	  /* of words */
	struct pt_place words[PT_ROW_WORDS];
};
PT_STATIC_ASSERT(sizeof(struct pt_row_inputs) == 968, "pt_row_inputs");

/* The effect of an operator on annotations: the value of the map `annotation_operators`. */
enum pt_annotation_step {
	PT_ANNOTATION_ENTER = 1,
	PT_ANNOTATION_EXIT = 2,
	PT_ANNOTATION_STEP_MASK = 0xff,
	PT_ANNOTATION_OLD_STRINGS = 0x100, /* std::string of the pre-C++11 ABI */
};

/* Tells how the nodes with a vtable are named: the value of the map `node_vtables`. */
enum pt_node_class {
	PT_NODE_SEEN = 1,   /* the loader has been told of the vtable */
	PT_NODE_PYTHON = 2, /* PyNode's: its nodes are named by their Python objects */
	PT_NODE_PLAIN = 3,  /* any other: its nodes are named by its class */
};

/* The reasons why records are dropped: indexes into the map `drops`. */
enum pt_drop {
	PT_DROP_RING_FULL = 0,
	PT_DROP_READ_FAILED = 1,
	PT_DROP_FORK = 2, /* a PT_FORK was lost: the loader does not know of the child */
	PT_DROP_EXIT = 3, /* a PT_THREAD_EXIT was lost: the loader does not see a process's end */
	PT_DROP_COUNT = 4,
};

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
