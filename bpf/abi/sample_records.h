/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Samples (--sample): the structures that the programs in bpf/kernel/samples.bpf.c hand to the
 * tracer, which finds the names while the process lives, and the records that the tracer writes.
 */
#ifndef PROFTRACE_BPF_ABI_SAMPLE_RECORDS_H
#define PROFTRACE_BPF_ABI_SAMPLE_RECORDS_H

#include "bpf/abi/python_records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/* A process that is sampled: the value of the map `sampled`. */
struct pt_sampled_process {
	/* If its version is 0, the process has no Python, or one whose layout is not known. */
	struct pt_python_layout python;
};

/* The registers that a stack is unwound with: the instruction pointer, and the registers that a
 * function must preserve. */
struct pt_user_registers {
	pt_u64 ip;
	pt_u64 sp;
	pt_u64 bp;
	pt_u64 bx;
	pt_u64 r12;
	pt_u64 r13;
	pt_u64 r14;
	pt_u64 r15;
	pt_s64 call; /* the system call that the thread is in; < 0 = none */
};
PT_STATIC_ASSERT(sizeof(struct pt_user_registers) == 72, "pt_user_registers");

/* A thread of a sampled process, as the iterator `list_threads` finds it. */
struct pt_thread_state {
	pt_u64 time_ns;	  /* CLOCK_MONOTONIC */
	pt_u64 switches;  /* how often it was taken off a CPU */
	pt_u64 thread_id; /* pthread_self(): the base of the thread's segment fs */
	pt_u32 pid;	  /* tgid, in the tracer's PID namespace */
	pt_u32 tid;
	pt_u32 on_cpu; /* 1 = it is running, or was running until the list's reader took its CPU:
			* the following fields are out of date */
	pt_u32 state;  /* task_struct.__state: 0 = it waits for a CPU, 1 = it sleeps, 2 = it
			* sleeps and no signal wakes it */
	struct pt_user_registers registers;
};
PT_STATIC_ASSERT(sizeof(struct pt_thread_state) == 112, "pt_thread_state");

struct pt_sampled_frame {
	pt_u64 code; /* 0 = not a frame of Python code, but one by which C enters the interpreter */
	pt_u64 instruction; /* its address in the code object, or (up to 3.10) its number */
	/* The addresses of the code object's file and name when the frame was read. They tell later
	 * whether the same code object is still at this address. */
	pt_u64 file;
	pt_u64 name;
};

#define PT_SAMPLE_FRAMES 128
#define PT_SAMPLE_STACK_BYTES 32768
#define PT_WAKER_STACK_BYTES 8192 /* of a waker: few, because interrupts wait meanwhile */
/* This bit of pt_sampled_frame.instruction says that C code called the frame (in versions of Python
 * whose frames tell it). */
#define PT_SAMPLE_FRAME_IS_ENTRY (1ULL << 63)

/* A thread that was running when the clock struck, or that wakes another thread. */
struct pt_raw_sample {
	pt_u64 time_ns;
	pt_u32 pid;
	pt_u32 tid;
	pt_u32 frame_count;
	pt_u32 flags; /* of enum pt_python_stack_flag */
	pt_u32 stack_bytes;
	pt_u32 woken_tid; /* the thread that this one wakes; 0 = none */
	struct pt_user_registers registers;
	struct pt_sampled_frame frames[PT_SAMPLE_FRAMES]; /* innermost first */
	pt_u8 stack[PT_SAMPLE_STACK_BYTES];		  /* from registers.sp on */
};
#define PT_RAW_SAMPLE_HEAD_BYTES (32 + 72 + PT_SAMPLE_FRAMES * 32)
PT_STATIC_ASSERT(sizeof(struct pt_raw_sample) == PT_RAW_SAMPLE_HEAD_BYTES + PT_SAMPLE_STACK_BYTES,
		 "pt_raw_sample");

/* The records of a capture. They belong to bpf/abi/records.h and follow its rules. */

/* A thread was looked at `count` times, each `period_ns` after the last, first at head.time_ns. */
struct pt_sample_record {
	struct pt_record head;
	pt_u64 period_ns;
	pt_u32 count;
	pt_u32 frame; /* id of the innermost frame; 0 = nothing could be read */
	pt_s32 call;  /* the system call that the thread is in; -1 = none */
	pt_u8 state;  /* enum pt_sample_state */
	pt_u8 flags;  /* enum pt_sample_flag */
	pt_u8 reserved[2];
};
PT_STATIC_ASSERT(sizeof(struct pt_sample_record) == 48, "pt_sample_record");

enum pt_sample_state {
	PT_SAMPLE_RUNNING = 0,
	PT_SAMPLE_RUNNABLE = 1, /* it waits for a CPU */
	PT_SAMPLE_SLEEPING = 2,
	PT_SAMPLE_UNINTERRUPTIBLE = 3, /* it sleeps, and no signal wakes it: mostly for a disk */
	PT_SAMPLE_STOPPED = 4,	       /* by a signal or a debugger */
};

enum pt_sample_flag {
	PT_SAMPLE_NATIVE_CUT = 1, /* the outermost native frames are missing */
	PT_SAMPLE_PYTHON_CUT = 2, /* the outermost Python frames are missing */
};

/* PT_WAKER: the frame that a thread was in when it woke another thread. head has the thread that
 * woke the other one, and the time. */
struct pt_waker_record {
	struct pt_record head;
	pt_u32 frame; /* as pt_sample_record.frame */
	pt_u32 woken_tid;
	pt_u8 flags; /* enum pt_sample_flag */
	pt_u8 reserved[7];
};
PT_STATIC_ASSERT(sizeof(struct pt_waker_record) == 40, "pt_waker_record");

enum pt_sample_frame_kind {
	PT_SAMPLE_FRAME_PYTHON = 0,
	PT_SAMPLE_FRAME_NATIVE = 1,
	PT_SAMPLE_FRAME_KERNEL = 2, /* a system call */
};

#define PT_SAMPLE_TEXT_BYTES 1992
struct pt_sample_function_record {
	struct pt_record head;
	pt_u32 id; /* unique in this recording, from 1 on */
	pt_s32 first_line;
	pt_u16 name_bytes;
	pt_u16 file_bytes;
	pt_u8 kind; /* enum pt_sample_frame_kind */
	pt_u8 reserved[3];
	/* The name, then the file, in UTF-8. The record ends behind both. */
	char text[PT_SAMPLE_TEXT_BYTES];
};
PT_STATIC_ASSERT(sizeof(struct pt_sample_function_record) == 2032, "pt_sample_function_record");
#define PT_SAMPLE_FUNCTION_HEAD_BYTES 40

struct pt_sample_frame_record {
	struct pt_record head;
	pt_u32 id;     /* unique in this recording, from 1 on */
	pt_u32 parent; /* the caller's frame; 0 = none */
	pt_u32 function;
	pt_s32 line; /* 0 = not known */
};
PT_STATIC_ASSERT(sizeof(struct pt_sample_frame_record) == 40, "pt_sample_frame_record");

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
