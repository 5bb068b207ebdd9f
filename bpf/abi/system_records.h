/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * System activity (--activities syscalls,io,sched,faults): the records that bpf/kernel/system.bpf.c
 * writes into a ring of its own, and that a capture holds unchanged. They belong to
 * bpf/abi/records.h and follow its rules. Each record is written when its activity is over, and has
 * the begin of the activity in head.time_ns.
 */
#ifndef PROFTRACE_BPF_ABI_SYSTEM_RECORDS_H
#define PROFTRACE_BPF_ABI_SYSTEM_RECORDS_H

#include "bpf/abi/python_records.h"
#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/* Tells which table a system call's number is from. Only calls of x86-64 have names and
 * arguments. */
enum pt_system_abi {
	PT_SYSTEM_X86_64 = 0,
	PT_SYSTEM_I386 = 1, /* by int 0x80, or from a 32-bit program */
	PT_SYSTEM_X32 = 2,  /* numbers without the bit that marks x32 */
	PT_SYSTEM_ABIS = 3,
};

#define PT_SYSTEM_CALLS 1024		       /* numbers of x86-64 are below this */
#define PT_SYSTEM_FOREIGN_CALL PT_SYSTEM_CALLS /* the entry for all calls of other ABIs */

/* Describes one system call: the value of the map `system_calls`, by the call's number.
 * Arguments are given as their number + 1; 0 = the call has no such argument. `address` and
 * `address_bytes` may be fields of the structure: PT_SYSTEM_FIRST_FIELD + the field's number. */
struct pt_system_call {
	pt_u8 arguments; /* how many it takes, at most 6 */
	pt_u8 flags;	 /* enum pt_system_call_flag */
	pt_u8 fd;	 /* the file descriptor that the call works on */
	pt_u8 path;
	pt_u8 directory; /* the file descriptor that `path` starts at; 0 = the current directory;
			  * PT_SYSTEM_DIRECTORY_AT_BEGIN = the current directory at the call's
			  * begin */
	pt_u8 second_path;
	pt_u8 second_directory; /* without `second_path`: the file that the bytes go to */
	pt_u8 time;		/* address of a timespec; may have PT_SYSTEM_TIME_IS_LEFT */
	pt_u8 address;		/* of a struct sockaddr */
	pt_u8 address_bytes;
	pt_u8 structure;       /* address of a structure whose first fields are recorded */
	pt_u8 structure_bytes; /* bytes of these fields, at most PT_SYSTEM_STRUCTURE_BYTES */
	pt_u8 field_bytes;     /* bytes of each of these fields: 4 or 8 */
	pt_u8 shape;	       /* enum pt_system_call_shape: follows from the fields above */
	pt_u8 is_recorded;
	pt_u8 message_bytes; /* not 0: `structure` is the address of structs mmsghdr of this
			      * size, and one field is recorded: the bytes that all of them moved */
};
PT_STATIC_ASSERT(sizeof(struct pt_system_call) == 16, "pt_system_call");

/* The `directory` of a call that changes the current directory. */
#define PT_SYSTEM_DIRECTORY_AT_BEGIN 0x80

/* Set in `time` if the call, at its end, writes the time that is left to where `time` points. */
#define PT_SYSTEM_TIME_IS_LEFT 0x80

enum pt_system_call_flag {
	PT_SYSTEM_CALL_IS_IO = 1,      /* it works on files or the network, so `io` records it */
	PT_SYSTEM_CALL_GIVES_FILE = 2, /* its result is a file descriptor */
	PT_SYSTEM_CALL_RENAMES = 4,    /* files may have other names after the call */
	/* On success `path` is gone, so the new program's path is recorded. */
	PT_SYSTEM_CALL_EXECS = 8,
	PT_SYSTEM_CALL_FILLS_ADDRESS = 16,    /* `address` is read at the call's end, because the
					       * call writes it; an argument `address_bytes` is
					       * the address of its size (int) */
	PT_SYSTEM_CALL_SECOND_IS_TEXT = 32,   /* `second_path` does not start at a directory */
	PT_SYSTEM_CALL_TIME_IS_TIMEVAL = 128, /* microseconds instead of nanoseconds */
};

/* Tells which data, beside the arguments, the record of a call has. */
enum pt_system_call_shape {
	PT_SYSTEM_CALL_IS_PLAIN = 0, /* no other data */
	PT_SYSTEM_CALL_HAS_PATH = 1, /* one path */
	PT_SYSTEM_CALL_IS_LONG = 2,  /* anything else, or several of these */
};

enum pt_system_flag {
	PT_SYSTEM_OPEN_AT_BEGIN = 1, /* the call or wait was under way when recording began:
				      * head.time_ns is that moment */
	PT_SYSTEM_UNFINISHED = 2,    /* the call's thread ended first, or the recording did:
				      * `result` means nothing */
	PT_SYSTEM_HAS_TIME = 4,	     /* PT_SYSTEM_CALL: two words, seconds and nanoseconds */
	PT_SYSTEM_HAS_PATH = 8,
	PT_SYSTEM_PATH_CUT = 16,
	PT_SYSTEM_PATH_UNREAD = 32,
	PT_SYSTEM_HAS_SECOND_PATH = 64,
	PT_SYSTEM_HAS_STRUCTURE = 128,
};

#define PT_SYSTEM_FIRST_FIELD 7	     /* the number behind those of the arguments */
#define PT_SYSTEM_STRUCTURE_BYTES 64 /* the longest is that of clone3 in its first version */
#define PT_SYSTEM_ADDRESS_BYTES 112  /* of a struct sockaddr */
#define PT_SYSTEM_PATH_BYTES 896     /* of one path, with its NUL */
#define PT_SYSTEM_TAIL_BYTES (48 + 16 + PT_SYSTEM_ADDRESS_BYTES + 8 + 2 * PT_SYSTEM_PATH_BYTES)

/* PT_SYSTEM_CALL: a system call. head.site is the call's number; head.sp is the id of its file
 * (PT_SYSTEM_FILE), 0 = none. The argument of restart_syscall is the number of the call that it
 * continues; 0 = not known. */
struct pt_system_call_record {
	struct pt_record head;
	pt_u64 duration_ns;
	/* A value below 0 and above -4096 is an error, which may be ERESTARTSYS or another one that
	 * programs never see. */
	pt_s64 result;
	/* Records of this thread that were lost before this one; 65535 = that or more. */
	pt_u16 lost;
	pt_u8 abi;   /* enum pt_system_abi */
	pt_u8 flags; /* enum pt_system_flag */
	pt_u8 arguments;
	pt_u8 address_bytes; /* a multiple of 8 */
	pt_u16 path_bytes;   /* of both paths, each with its NUL */
	/* The arguments; then the time; then the address. If there is a path: two ids (u32) of
	 * the directories that the paths start at, and the paths (with PT_SYSTEM_HAS_SECOND_PATH
	 * alone: two empty paths, and the second id is that of the file that the bytes go to).
	 * Then, from the next multiple of 8 to the record's end, the first fields of the
	 * structure. */
	pt_u8 tail[PT_SYSTEM_TAIL_BYTES];
};
#define PT_SYSTEM_CALL_HEAD_BYTES 48
PT_STATIC_ASSERT(sizeof(struct pt_system_call_record) ==
		     PT_SYSTEM_CALL_HEAD_BYTES + PT_SYSTEM_TAIL_BYTES,
		 "pt_system_call_record");

/* PT_OFF_CPU: a thread was off the CPU, from being switched out to being switched in. head.site
 * is the CPU that it left. head.sp is how long its wake-up took, in ns: from the moment at which
 * the waker woke it until it could run (an idle CPU has to be woken first, too). 0 = not known;
 * older captures have no such value. */
struct pt_off_cpu_record {
	struct pt_record head;
	pt_u64 duration_ns;
	/* The last part of `duration_ns`, in which the thread could run and had no CPU. */
	pt_u64 run_queue_ns;
	pt_u32 waker_pid; /* 0 = nobody woke it, or an interrupt did */
	pt_u32 waker_tid;
	pt_u32 state;	 /* task_struct.__state when it left the CPU: 0 = it could have run on */
	pt_s32 call;	 /* the system call that it was in, or that restart_syscall continued; -1
			  * = none */
	pt_u16 cpu;	 /* the CPU that it came to */
	pt_u16 lost;	 /* as pt_system_call_record.lost */
	pt_u8 abi;	 /* of `call` */
	pt_u8 flags;	 /* enum pt_system_flag */
	pt_u8 off_flags; /* enum pt_off_cpu_flag */
	pt_u8 lock;	 /* enum pt_awaited_lock */
};
PT_STATIC_ASSERT(sizeof(struct pt_off_cpu_record) == 64, "pt_off_cpu_record");

enum pt_off_cpu_flag {
	PT_OFF_CPU_VOLUNTARY = 1,  /* the kernel counts it as voluntary */
	PT_OFF_CPU_IO = 2,	   /* it waited for a disk (task_struct.in_iowait) */
	PT_OFF_CPU_FAULT = 4,	   /* it was in a page fault */
	PT_OFF_CPU_NEW = 8,	   /* it was a new thread, which had not run before */
	PT_OFF_CPU_FILE_LOCK = 16, /* it waited for a lock of fcntl(F_SETLKW) */
	PT_OFF_CPU_NO_FILE = 32,   /* in poll(2) or select(2) without any file */
	/* These two are set only in futex(2); older captures have neither of them. */
	PT_OFF_CPU_LOCK = 64,	/* it waited for a lock that another thread holds */
	PT_OFF_CPU_EVENT = 128, /* it waited for anything else that another thread does */
};

/* Tells more about the lock that a thread waits for; older captures have no such values. */
enum pt_awaited_lock {
	PT_AWAITED_ANY = 0, /* no lock, or nothing more is known of it */
	PT_AWAITED_GIL = 1, /* the lock of Python's interpreter; PT_OFF_CPU_LOCK is set as well */
};

/* The facts by which the lock that a Python process waits for is recognized: the value of the map
 * `waiting_pythons`. */
struct pt_waiting_python {
	pt_u64 gil; /* the address of the interpreter's lock; 0 = not known */
	struct pt_python_layout python;
};
PT_STATIC_ASSERT(sizeof(struct pt_waiting_python) == 96, "pt_waiting_python");

/* An upper bound for the size of struct _gil_runtime_state, which has the interpreter's lock, its
 * condition and its mutex. */
#define PT_PYTHON_GIL_BYTES 256
#define PT_PYTHON_TYPE_NAME 24	    /* in a PyTypeObject: tp_name */
#define PT_PYTHON_LOCK_OF_OBJECT 16 /* in the objects of the locks below: the semaphore */
#define PT_PYTHON_SEMAPHORE_MOST 36 /* in a _multiprocessing.SemLock: 4 bytes, maxvalue */

enum pt_python_lock {
	PT_PYTHON_NO_LOCK = 0,
	PT_PYTHON_LOCK = 1,	  /* _thread.lock, which is also the lock of a Condition's waiter */
	PT_PYTHON_OWNED_LOCK = 2, /* a lock that only its holder gives back */
	PT_PYTHON_GIL = 3,	  /* the interpreter's own lock */
};

#define PT_WAIT_REGISTERS 6	/* rbx, rbp, r12 to r15 */
#define PT_WAIT_STACK_WORDS 128 /* words that are read from the stack pointer on */

/* A thread that was waiting on a semaphore's word when its recording began. It is a value of the
 * map `begun_waits`. */
struct pt_begun_wait {
	pt_u32 pid;	  /* tgid, in the tracer's PID namespace */
	pt_u32 lock;	  /* the loader's answer: enum pt_python_lock */
	pt_u64 thread_id; /* pthread_self() */
	pt_u64 word;	  /* address of the word that it waits for */
	pt_u64 sp;
	pt_u64 registers[PT_WAIT_REGISTERS];
};
PT_STATIC_ASSERT(sizeof(struct pt_begun_wait) == 80, "pt_begun_wait");

/* PT_FAULT: a page fault, at an address of user space, that was resolved. head.sp is the id of the
 * file that is mapped there. */
struct pt_fault_record {
	struct pt_record head;
	pt_u64 duration_ns;
	pt_u64 address;
	pt_u64 offset; /* of the address in the file, in bytes */
	pt_u16 lost;
	pt_u8 area;	   /* enum pt_fault_area */
	pt_u8 fault_flags; /* enum pt_fault_flag */
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_fault_record) == 56, "pt_fault_record");

enum pt_fault_area {
	PT_FAULT_UNKNOWN = 0,
	PT_FAULT_HEAP = 1,  /* memory of brk(2) */
	PT_FAULT_STACK = 2, /* of the first thread */
	PT_FAULT_FILE = 3,
	PT_FAULT_ANONYMOUS = 4, /* mmap without a file: large blocks, stacks of other threads */
};

enum pt_fault_flag {
	PT_FAULT_MAJOR = 1, /* it read from a disk */
	PT_FAULT_WRITE = 2,
	PT_FAULT_IN_KERNEL = 4, /* caused by the kernel for the thread, in a system call */
};

/* PT_REQUEST: a request to the kernel through io_uring. head.site is its opcode, head.sp the id of
 * its file, and head.tid the thread that submitted it (with IORING_SETUP_SQPOLL, a thread of the
 * kernel). */
struct pt_request_record {
	struct pt_record head;
	pt_u64 duration_ns;
	pt_s64 result;
	pt_u64 offset; /* in bytes; all ones = at the file's position, or not known */
	pt_u64 bytes;  /* bytes that were asked for; all ones = not known */
	pt_u64 user_data;
	pt_u16 lost;
	pt_u8 flags; /* enum pt_system_flag */
	pt_u8 reserved[5];
};
PT_STATIC_ASSERT(sizeof(struct pt_request_record) == 72, "pt_request_record");

enum pt_system_file_kind {
	PT_SYSTEM_FILE_OTHER = 0,
	PT_SYSTEM_FILE_REGULAR = 1,
	PT_SYSTEM_FILE_DIRECTORY = 2,
	PT_SYSTEM_FILE_DEVICE = 3,
	PT_SYSTEM_FILE_PIPE = 4,
	PT_SYSTEM_FILE_SOCKET = 5,
	PT_SYSTEM_FILE_ANONYMOUS = 6, /* it has no place in a file system: eventfd, epoll */
};

enum pt_system_file_flag {
	PT_SYSTEM_FILE_CUT = 1,	    /* the outermost names are missing */
	PT_SYSTEM_FILE_DELETED = 2, /* the file does not have this name any more */
	/* The file of a namespace, which has no name of its own. Its name here is that of its kind,
	 * such as "net". */
	PT_SYSTEM_FILE_NAMESPACE = 4,
};

#define PT_SYSTEM_FILE_BYTES 1984

/* PT_SYSTEM_FILE: describes a file, before all records with the file's id. */
struct pt_system_file_record {
	struct pt_record head; /* sp: its id, from 1 on */
	pt_u64 inode;
	pt_u32 device;
	pt_u16 bytes; /* of the text */
	pt_u8 kind;   /* enum pt_system_file_kind */
	pt_u8 flags;  /* enum pt_system_file_flag */
	/* The names of the file and of the folders that it is in, innermost first, each with its
	 * NUL; for a socket, a struct pt_socket_place. */
	pt_u8 text[PT_SYSTEM_FILE_BYTES];
};
#define PT_SYSTEM_FILE_HEAD_BYTES 40
PT_STATIC_ASSERT(sizeof(struct pt_system_file_record) ==
		     PT_SYSTEM_FILE_HEAD_BYTES + PT_SYSTEM_FILE_BYTES,
		 "pt_system_file_record");

struct pt_socket_place {
	pt_u16 family;	   /* AF_INET, … */
	pt_u16 type;	   /* SOCK_STREAM, … */
	pt_u16 local_port; /* in the host's order */
	pt_u16 peer_port;
	pt_u8 local[16]; /* with AF_INET, the first 4 bytes */
	pt_u8 peer[16];
};
PT_STATIC_ASSERT(sizeof(struct pt_socket_place) == 40, "pt_socket_place");

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
