/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The code that TorchScript's interpreter runs when a row begins (--with-modules). The record
 * belongs to bpf/abi/records.h and follows its rules.
 */
#ifndef PROFTRACE_BPF_ABI_SCRIPT_RECORDS_H
#define PROFTRACE_BPF_ABI_SCRIPT_RECORDS_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/*
 * The layout of the interpreter in one process: the value of the map `script_layouts`. Offsets are
 * in bytes. A variable of each thread points to the state of the interpreter that the thread runs,
 * or is null.
 */
struct pt_script_layout {
	struct pt_thread_variable state;
	pt_u16 frames; /* in the state: begin and end of a vector of frames */
	/* From one frame to the next; a frame begins with the address of its code. */
	pt_u16 frame_bytes;
	pt_u16 frame_pc; /* 8 bytes: the number of the instruction that runs */
	pt_u16
	    code_nodes; /* in the code: begin and end of a vector, the node of each instruction */
};
PT_STATIC_ASSERT(sizeof(struct pt_script_layout) == 24, "pt_script_layout");

/* The most frames that are recorded. Calls within a graph are inlined, so a thread has few
 * frames. */
#define PT_SCRIPT_MOST_FRAMES 16

struct pt_script_frame {
	pt_u64 code; /* the address of the code that runs (torch::jit::interpreter::CodeImpl) */
	pt_u64 node; /* the address of the node in its graph (torch::jit::Node) */
};

/* The frames that a thread's interpreter has when the thread's next row begins, outermost first. */
struct pt_script_record {
	struct pt_record head;
	pt_u32 count; /* how many frames follow; 0 = they could not be read, or there are more */
	pt_u32 reserved;
	struct pt_script_frame frames[PT_SCRIPT_MOST_FRAMES];
};
PT_STATIC_ASSERT(sizeof(struct pt_script_record) == 288, "pt_script_record");
#define PT_SCRIPT_HEAD_BYTES 32

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
