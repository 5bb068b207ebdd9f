/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Python stacks (--with-stack): how CPython lies in memory, and the records of code objects and of
 * stacks. Rules as in bpf/abi/records.h, which these records belong to.
 */
#ifndef PROFTRACE_BPF_ABI_PYTHON_RECORDS_H
#define PROFTRACE_BPF_ABI_PYTHON_RECORDS_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/*
 * How CPython 3.9 to 3.15 lies in memory, in one process: the value of the map `python_layouts`.
 * Offsets in bytes. Up to 3.10 a frame is a PyFrameObject, from 3.11 on a _PyInterpreterFrame.
 */
struct pt_python_layout {
	pt_u64 interpreters;	    /* address of _PyRuntime.interpreters.head */
	pt_u32 version;		    /* 0x030b = 3.11 */
	pt_u16 interpreter_next;    /* in a PyInterpreterState */
	pt_u16 interpreter_threads; /* to the pointer to its first PyThreadState */
	pt_u16 thread_next;	    /* in a PyThreadState */
	pt_u16 thread_id;	    /* pthread_self() of its thread: the base of the segment fs */
	pt_u16 thread_frame;	/* to the pointer to its innermost frame, or (thread_indirect) to
				   that to what has it */
	pt_u16 thread_indirect; /* set = 1 + where it is there (3.11 and 3.12: _PyCFrame) */
	pt_u16 frame_bytes;	/* how much of a frame is read: up to the end of the last field
				   below, at most PT_PYTHON_FRAME_BYTES */
	pt_u16 frame_code;
	pt_u16 frame_previous;
	pt_u16
	    frame_instruction; /* the address of an instruction; up to 3.10 its number (4 bytes) */
	pt_u16 frame_owner;    /* 1 byte; 0 = frames have none */
	pt_u16 owner_limit;    /* frames with an owner from here on are none of Python's code */
	pt_u16 frame_locals;   /* the first local variable; may lie behind frame_bytes */
	pt_u16 code_file;      /* in a PyCodeObject: pointers to str */
	pt_u16 code_name;
	pt_u16 code_qualified_name; /* 0 = none (up to 3.10) */
	pt_u16 code_first_line;	    /* 4 bytes */
	pt_u16 code_lines;	    /* pointer to the bytes of co_linetable, or co_lnotab (3.9) */
	pt_u16 code_instructions;   /* its instructions lie here (from 3.11 on); 0 = elsewhere */
	pt_u16 text_length;	    /* in a str: 8 bytes, in characters */
	pt_u16 text_state;	    /* 4 bytes: bits 2..4 bytes a character, bit 6 ASCII */
	pt_u16 text_ascii;	    /* where the characters begin */
	pt_u16 text_wide;	    /* the same of a str that is not ASCII, but compact */
	pt_u16 bytes_length;	    /* in a bytes: 8 bytes */
	pt_u16 bytes_data;
	pt_u16 cell_value;	 /* in a cell: the pointer to what it holds */
	pt_u16 pointer_tags;	 /* bits of a frame's references that are no address: 3 in 3.14 */
	pt_u8 instruction_shift; /* 3.9: frame_instruction counts bytes: shift by 1 */
	pt_u8 text_shift;	 /* bits of the 4 bytes at text_state below those of text_state */
	pt_u16 frame_entry;	 /* 1 byte: C code called it (3.11); 0 = frames do not say it */
	pt_u16 code_arguments;	 /* 4 bytes: how many arguments by position it takes */
	pt_s16 state_place;	 /* from a thread's control block (pthread_self()) to where it keeps
				    its PyThreadState; 0 = not known */
	pt_u16 object_head;	 /* how much longer the head of each object is than with a global
				    interpreter lock: all that lies behind it lies so much further */
	pt_u16 code_copies;	 /* in a PyCodeObject: to the pointers to the copies of its
				    instructions, one a thread, behind their number (8 bytes); 0 = it
				    has none. The first is what lies at code_instructions. */
	pt_u16 frame_copy;	 /* 4 bytes: which of the copies the frame runs */
	pt_u16 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_python_layout) == 88, "pt_python_layout");
#define PT_PYTHON_FRAME_BYTES 128

#define PT_PYTHON_MOST_FRAMES 128   /* of a stack: the innermost ones */
#define PT_PYTHON_NAME_BYTES 4000   /* of a name or a file's name that are kept */
#define PT_PYTHON_LINES_BYTES 65536 /* of a table of line numbers that are kept */

/* A code object that was not seen before, or its address is used again. Comes before each stack
 * that has it in the order of its thread; on other threads it may come a little later. */
struct pt_python_code_record {
	struct pt_record head; /* sp: 0 in captures; in a job's ring the copy of the instructions
				  that the thread runs (pt_python_layout.frame_copy) */
	pt_u64 address;
	pt_u32 id; /* of this recording, from 1 on */
	pt_s32 first_line;
};
PT_STATIC_ASSERT(sizeof(struct pt_python_code_record) == 40, "pt_python_code_record");

enum pt_python_part {
	PT_PYTHON_FILE = 0,
	PT_PYTHON_NAME = 1,
	PT_PYTHON_QUALIFIED_NAME = 2,
	PT_PYTHON_LINES = 3,	  /* co_linetable, or co_lnotab */
	PT_PYTHON_CLASS_NAME = 4, /* of an nn.Module: `id` is 0 */
};

/* A part of what the last PT_PYTHON_CODE of the same thread began, from `offset` on. */
#define PT_PYTHON_TEXT_BYTES 232
#define PT_PYTHON_MORE_TEXT_BYTES 1984
struct pt_python_text_record {
	struct pt_record head;
	pt_u32 id;
	pt_u32 offset; /* bytes */
	pt_u32 total;  /* bytes of the whole part, kept or not */
	pt_u16 bytes;  /* of it here */
	pt_u8 part;    /* enum pt_python_part */
	pt_u8 width;   /* bytes a character: 1 (Latin-1), 2 or 4; 0 = could not be read */
	/* PT_PYTHON_TEXT_BYTES or PT_PYTHON_MORE_TEXT_BYTES of room: the record's size says */
	pt_u8 text[PT_PYTHON_MORE_TEXT_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_python_text_record) == 2024, "pt_python_text_record");
#define PT_PYTHON_TEXT_HEAD_BYTES 40

/*
 * The Python stack of this thread from here on: the `common` outermost frames of the one before,
 * then the frames in `words`, outer ones first. A frame is a word: bits 0..31 the number of the
 * instruction (of two bytes), 32..62 the code's id, 63 set = the next word names the nn.Module
 * whose call it is, as the PT_PYTHON_MODULE that told of it: by its address, and above that (tier
 * patch) how many others had lain there before it.
 */
#define PT_PYTHON_MODULE_ADDRESS_BITS 48
struct pt_python_stack_record {
	struct pt_record head;
	pt_u16 common;
	pt_u16 count; /* of frames that follow */
	pt_u8 flags;  /* of enum pt_python_stack_flag */
	pt_u8 reserved[3];
	pt_u64 words[251];
};
PT_STATIC_ASSERT(sizeof(struct pt_python_stack_record) == 2040, "pt_python_stack_record");
#define PT_PYTHON_STACK_HEAD_BYTES 32
#define PT_PYTHON_FRAME_HAS_MODULE (1ULL << 63)

enum pt_python_stack_flag {
	PT_PYTHON_STACK_CUT = 1,    /* there are more frames further out */
	PT_PYTHON_STACK_FAILED = 2, /* further out something could not be read */
};

/* A `length` of a name (struct pt_guard_record): all bytes, and those of a character where the name
 * is a Python str's own characters, not UTF-8 (1: Latin-1, 2, 4). */
#define PT_TEXT_WIDTH_SHIFT 24
#define PT_TEXT_LENGTH(length) ((length)&0xffffff)
#define PT_TEXT_WIDTH(length) ((length) >> PT_TEXT_WIDTH_SHIFT & 7)

#ifdef __cplusplus
/* Records that are no events of their own time: what follows, however late, is understood by them.
 */
constexpr bool IsOfStacks(pt_u8 kind)
{
	return kind >= PT_PYTHON_CODE && kind <= PT_PYTHON_MODULE;
}

} /* namespace proftrace::abi */
#endif

#endif
