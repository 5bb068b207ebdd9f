/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Python stacks (--with-stack): the layout of CPython's objects in memory, and the records of code
 * objects and of stacks. These records belong to bpf/abi/records.h and follow its rules.
 */
#ifndef PROFTRACE_BPF_ABI_PYTHON_RECORDS_H
#define PROFTRACE_BPF_ABI_PYTHON_RECORDS_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/*
 * The layout of CPython 3.9 to 3.15 in one process: the value of the map `python_layouts`. Offsets
 * are in bytes. Up to 3.10 a frame is a PyFrameObject, from 3.11 on a _PyInterpreterFrame.
 */
struct pt_python_layout {
	pt_u64 interpreters;	    /* address of _PyRuntime.interpreters.head */
	pt_u32 version;		    /* 0x030b = 3.11 */
	pt_u16 interpreter_next;    /* in a PyInterpreterState */
	pt_u16 interpreter_threads; /* to the pointer to its first PyThreadState */
	pt_u16 thread_next;	    /* in a PyThreadState */
	pt_u16 thread_id;	    /* pthread_self() of its thread: the base of the segment fs */
	pt_u16 thread_frame; /* to the pointer to its innermost frame, or (thread_indirect) to
			      * the pointer to the structure that has it */
	/* 0 = thread_frame leads to the frame itself; else 1 + the frame pointer's offset in the
	 * structure (3.11 and 3.12: _PyCFrame). */
	pt_u16 thread_indirect;
	pt_u16 frame_bytes; /* how much of a frame is read: up to the end of the last field
			       below, at most PT_PYTHON_FRAME_BYTES */
	pt_u16 frame_code;
	pt_u16 frame_previous;
	pt_u16
	    frame_instruction; /* the address of an instruction; up to 3.10 its number (4 bytes) */
	pt_u16 frame_owner;    /* 1 byte; 0 = frames have none */
	pt_u16 owner_limit;    /* frames whose owner is this or more do not run Python code */
	pt_u16 frame_locals;   /* the first local variable; may lie behind frame_bytes */
	pt_u16 code_file;      /* in a PyCodeObject: pointers to str */
	pt_u16 code_name;
	pt_u16 code_qualified_name; /* 0 = none (up to 3.10) */
	pt_u16 code_first_line;	    /* 4 bytes */
	pt_u16 code_lines;	    /* pointer to the bytes of co_linetable, or co_lnotab (3.9) */
	/* The code's instructions begin here (3.11 and later); 0 = they lie elsewhere. */
	pt_u16 code_instructions;
	pt_u16 text_length;  /* in a str: 8 bytes, in characters */
	pt_u16 text_state;   /* 4 bytes: bits 2..4 bytes a character, bit 6 ASCII */
	pt_u16 text_ascii;   /* where the characters of an ASCII str begin */
	pt_u16 text_wide;    /* where the characters of any other compact str begin */
	pt_u16 bytes_length; /* in a bytes: 8 bytes */
	pt_u16 bytes_data;
	pt_u16 cell_value; /* in a cell: the pointer to the object that it holds */
	/* The bits of a frame's references that are not part of an address: 3 in 3.14. */
	pt_u16 pointer_tags;
	/* By how many bits frame_instruction is shifted down: 1 in 3.9, where it counts bytes. */
	pt_u8 instruction_shift;
	/* By how many bits the 4 bytes at text_state are shifted down before their bits are as
	 * described there. */
	pt_u8 text_shift;
	/* 1 byte, not 0 = C code called the frame (3.11). The offset is 0 if frames do not tell. */
	pt_u16 frame_entry;
	pt_u16 code_arguments; /* 4 bytes: how many positional arguments the code takes */
	pt_s16 state_place;    /* from a thread's control block (pthread_self()) to its pointer
				* to its PyThreadState; 0 = not known */
	pt_u16 object_head;    /* how much longer the head of each object is than with a global
				* interpreter lock: all fields behind it are moved by so much */
	pt_u16 code_copies;    /* in a PyCodeObject: to the pointers to the copies of its
				* instructions, one for each thread, which follow their number
				* (8 bytes); 0 = it has none. The first copy is the one at
				* code_instructions. */
	pt_u16 frame_copy;     /* 4 bytes: which of the copies the frame runs */
	pt_u16 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_python_layout) == 88, "pt_python_layout");
#define PT_PYTHON_FRAME_BYTES 128

#define PT_PYTHON_MOST_FRAMES 128   /* most frames of a stack that are recorded: the innermost */
#define PT_PYTHON_NAME_BYTES 4000   /* most bytes of a name, or of a file's name, that are kept */
#define PT_PYTHON_LINES_BYTES 65536 /* most bytes of a table of line numbers that are kept */

/* A code object that was not seen before, or that has the address of an earlier one. The record
 * comes before each stack of its thread that has the code; on other threads it may come a little
 * later. */
struct pt_python_code_record {
	struct pt_record head; /* sp: 0 in captures; in a job's ring, the copy of the
				* instructions that the thread runs (pt_python_layout.frame_copy) */
	pt_u64 address;
	pt_u32 id; /* unique in this recording, from 1 on */
	pt_s32 first_line;
};
PT_STATIC_ASSERT(sizeof(struct pt_python_code_record) == 40, "pt_python_code_record");

enum pt_python_part {
	PT_PYTHON_FILE = 0,
	PT_PYTHON_NAME = 1,
	PT_PYTHON_QUALIFIED_NAME = 2,
	PT_PYTHON_LINES = 3,	  /* co_linetable, or co_lnotab */
	PT_PYTHON_CLASS_NAME = 4, /* of the last PT_PYTHON_MODULE; `id` is 0 */
};

/* A part (enum pt_python_part) of the code object that the last PT_PYTHON_CODE of the same thread
 * announced. A part may take several records; each has the bytes from `offset` on. */
#define PT_PYTHON_TEXT_BYTES 232
#define PT_PYTHON_MORE_TEXT_BYTES 1984
struct pt_python_text_record {
	struct pt_record head;
	pt_u32 id;
	pt_u32 offset; /* bytes */
	pt_u32 total;  /* bytes of the whole part, kept or cut */
	pt_u16 bytes;  /* how many bytes of the part are in this record */
	pt_u8 part;    /* enum pt_python_part */
	pt_u8 width;   /* bytes per character: 1 (Latin-1), 2 or 4; 0 = could not be read */
	/* Room for PT_PYTHON_TEXT_BYTES or PT_PYTHON_MORE_TEXT_BYTES; the record's size tells
	 * which. */
	pt_u8 text[PT_PYTHON_MORE_TEXT_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_python_text_record) == 2024, "pt_python_text_record");
#define PT_PYTHON_TEXT_HEAD_BYTES 40

/*
 * The Python stack of this thread from here on: the `common` outermost frames of the stack before,
 * then the frames in `words`, outer frames first. A frame is one word: bits 0..31 are the number of
 * the instruction (an instruction has two bytes), bits 32..62 the code's id. If bit 63 is set, the
 * frame is the call of an nn.Module, and the next word names the module as its PT_PYTHON_MODULE
 * did: by the module's address, and in the bits above that (tier patch) by how many other modules
 * had that address before.
 */
#define PT_PYTHON_MODULE_ADDRESS_BITS 48
struct pt_python_stack_record {
	struct pt_record head;
	pt_u16 common;
	pt_u16 count; /* how many frames follow */
	pt_u8 flags;  /* of enum pt_python_stack_flag */
	pt_u8 reserved[3];
	pt_u64 words[251];
};
PT_STATIC_ASSERT(sizeof(struct pt_python_stack_record) == 2040, "pt_python_stack_record");
#define PT_PYTHON_STACK_HEAD_BYTES 32
#define PT_PYTHON_FRAME_HAS_MODULE (1ULL << 63)

enum pt_python_stack_flag {
	PT_PYTHON_STACK_CUT = 1,    /* there are more frames beyond the outermost one */
	PT_PYTHON_STACK_FAILED = 2, /* frames beyond the outermost one could not be read */
};

/* The `length` of a name (struct pt_guard_record): the bytes of the whole name, and, if the text
 * is in the encoding of a Python str instead of UTF-8, the bytes per character (1: Latin-1, 2,
 * 4). */
#define PT_TEXT_WIDTH_SHIFT 24
#define PT_TEXT_LENGTH(length) ((length)&0xffffff)
#define PT_TEXT_WIDTH(length) ((length) >> PT_TEXT_WIDTH_SHIFT & 7)

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
