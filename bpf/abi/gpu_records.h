/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The contract between the GPU agent (userspace/agent/, inside the job) and the loader: the records
 * that the agent writes into a ring in shared memory and that a capture file holds in blocks of
 * their own, and the page by which both communicate. The rules are those of records.h: kinds are
 * only appended, a layout only grows at its end, no reader may trust the contents.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds. In every record, head.time_ns is the begin (0 = not
 * known), head.pid the process, and head.tid the OS thread of a call (0 = none); sp and site are 0.
 * The agent writes ids of its own PID namespace; the loader replaces them by its own before they
 * get into the capture.
 */
#ifndef PROFTRACE_BPF_ABI_GPU_RECORDS_H
#define PROFTRACE_BPF_ABI_GPU_RECORDS_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

enum pt_gpu_kind {
	PT_GPU_NAME = 96,      /* struct pt_gpu_name_record: comes before records with its id */
	PT_GPU_KERNEL = 97,    /* struct pt_gpu_kernel_record */
	PT_GPU_MEMCPY = 98,    /* struct pt_gpu_memcpy_record */
	PT_GPU_MEMSET = 99,    /* struct pt_gpu_memset_record */
	PT_GPU_SYNC = 100,     /* struct pt_gpu_sync_record */
	PT_GPU_CALL = 101,     /* struct pt_gpu_call_record: a call of the CUDA Runtime or Driver */
	PT_GPU_EXTERNAL = 102, /* struct pt_gpu_external_record */
	PT_GPU_MARKER = 103,   /* struct pt_gpu_marker_record: NVTX */
	PT_GPU_OVERHEAD = 104, /* struct pt_gpu_overhead_record: time of CUPTI and of the driver */
	PT_GPU_MEMORY = 105,   /* struct pt_gpu_memory_record: cudaMalloc and similar calls */
	PT_GPU_POOL = 106,     /* struct pt_gpu_pool_record */
	PT_GPU_DEVICE = 107,   /* struct pt_gpu_device_record */
	PT_GPU_CONTEXT = 108,  /* struct pt_gpu_context_record */
	PT_GPU_GRAPH = 109,    /* struct pt_gpu_graph_record: a CUDA graph traced as a whole */
	PT_GPU_EVENT = 110,    /* struct pt_gpu_event_record: cudaEventRecord, on the device */
	PT_GPU_DROPPED = 111,  /* struct pt_gpu_count_record: CUPTI dropped `count` records */
	PT_GPU_UNKNOWN = 112,  /* struct pt_gpu_count_record: records of `which` CUpti_ActivityKind
				  that the agent could not read */
	PT_GPU_CLOCK = 113,    /* struct pt_gpu_clock_record */
};

#define PT_GPU_TEXT_BYTES 1984
#define PT_GPU_NAME_LIMIT 65536 /* longer names are cut there */

/* A name may take several records, one for each part, which follow each other. */
struct pt_gpu_name_record {
	struct pt_record head;
	pt_u64
	    id; /* of the text: equal texts may have several ids, never the reverse. 0 = no name */
	pt_u32 length;		      /* of the whole name, in bytes */
	pt_u32 offset;		      /* of this part in the name, in bytes */
	char text[PT_GPU_TEXT_BYTES]; /* the record ends with the last 8 bytes that are in use */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_name_record) == 2024, "pt_gpu_name_record");
#define PT_GPU_NAME_HEAD_BYTES 40

/* There is no device, context, stream or graph, or CUPTI does not tell which one. */
#define PT_GPU_NOWHERE 0xffffffffu

struct pt_gpu_kernel_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u64 queued_ns; /* 0 = not recorded, also for submitted_ns */
	pt_u64 submitted_ns;
	pt_u64 name; /* mangled */
	pt_u64 graph_node;
	pt_u32 correlation;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
	pt_u32 graph; /* PT_GPU_NOWHERE = not launched by a graph */
	pt_s32 grid[3];
	pt_s32 block[3];
	pt_s32 cluster[3]; /* zeros = none */
	pt_s32 static_shared_bytes;
	pt_s32 dynamic_shared_bytes;
	pt_u32 registers;   /* per thread */
	pt_u32 local_bytes; /* per thread */
	pt_s32 priority;    /* of the stream */
	pt_u32 channel;
	pt_u32 shared_executed_bytes; /* set aside by the driver for a block; 0 = not told */
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_kernel_record) == 152, "pt_gpu_kernel_record");

/* `kind`, `source_kind`, `destination_kind`: CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind. */
struct pt_gpu_memcpy_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u64 bytes;
	pt_u64 graph_node;
	pt_u32 correlation;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
	pt_u32 graph;
	pt_u32 source_device;	   /* for peer copies; else PT_GPU_NOWHERE */
	pt_u32 destination_device; /* for peer copies; else PT_GPU_NOWHERE */
	pt_u8 kind;
	pt_u8 source_kind;
	pt_u8 destination_kind;
	pt_u8 is_async;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_memcpy_record) == 80, "pt_gpu_memcpy_record");

struct pt_gpu_memset_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u64 bytes;
	pt_u64 graph_node;
	pt_u32 correlation;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
	pt_u32 graph;
	pt_u32 value;
	pt_u8 memory_kind; /* CUpti_ActivityMemoryKind */
	pt_u8 is_async;
	pt_u8 reserved[6];
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_memset_record) == 80, "pt_gpu_memset_record");

struct pt_gpu_sync_record {
	struct pt_record head; /* tid = 0, because CUPTI does not tell it */
	pt_u64 end_ns;
	pt_u32 type; /* CUpti_ActivitySynchronizationType */
	pt_u32 correlation;
	pt_u32 context;
	pt_u32 stream; /* PT_GPU_NOWHERE where there is none */
	pt_u32 event;  /* the CUDA event's id; PT_GPU_NOWHERE = none */
	pt_u32 status; /* of the call; 0 = success */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_sync_record) == 56, "pt_gpu_sync_record");

enum pt_gpu_call_domain {
	PT_GPU_DRIVER = 1,
	PT_GPU_RUNTIME = 2,
};

struct pt_gpu_call_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u64 name; /* with its version, as CUPTI names it: cudaLaunchKernel_v7000 */
	pt_u32 correlation;
	pt_u32 callback; /* CUpti_CallbackId */
	pt_u32 result;	 /* of the call; 0 = success */
	pt_u8 domain;	 /* enum pt_gpu_call_domain */
	pt_u8 reserved[3];
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_call_record) == 56, "pt_gpu_call_record");

struct pt_gpu_external_record {
	struct pt_record head;
	pt_u64 external_id;
	pt_u32 correlation;
	pt_u32 kind; /* CUpti_ExternalCorrelationKind */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_external_record) == 40, "pt_gpu_external_record");

struct pt_gpu_marker_record {
	/* time_ns: when the marker was set; tid: its thread, if it is the marker of a thread. */
	struct pt_record head;
	pt_u64 name;   /* 0 at the end of a range */
	pt_u64 domain; /* name of the NVTX domain; 0 = the default one */
	pt_u32 id;     /* the same at the begin and the end of a range */
	pt_u32 flags;  /* CUpti_ActivityFlag: marker bits */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_marker_record) == 48, "pt_gpu_marker_record");

struct pt_gpu_overhead_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u32 kind; /* CUpti_ActivityOverheadKind */
	pt_u32 correlation;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_overhead_record) == 40, "pt_gpu_overhead_record");

struct pt_gpu_memory_record {
	struct pt_record head;
	pt_u64 address;
	pt_u64 bytes;
	pt_u64 pool;	  /* address; 0 = none */
	pt_u32 operation; /* CUpti_ActivityMemoryOperationType */
	pt_u32 kind;	  /* CUpti_ActivityMemoryKind */
	pt_u32 correlation;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_memory_record) == 72, "pt_gpu_memory_record");

struct pt_gpu_pool_record {
	struct pt_record head;
	pt_u64 pool;
	pt_u64 bytes;
	pt_u64 used_bytes;
	pt_u64 release_threshold;
	pt_u32 operation; /* CUpti_ActivityMemoryPoolOperationType */
	pt_u32 type;	  /* CUpti_ActivityMemoryPoolType */
	pt_u32 correlation;
	pt_u32 device;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_pool_record) == 72, "pt_gpu_pool_record");

struct pt_gpu_device_record {
	struct pt_record head;
	pt_u64 name;
	pt_u64 memory_bytes;
	pt_u32 device;
	pt_u32 compute_major;
	pt_u32 compute_minor;
	pt_u32 multiprocessors;
	pt_u32 warp_size;
	pt_u32 max_threads_a_block;
	pt_u32 max_warps_a_multiprocessor;
	pt_u32 max_blocks_a_multiprocessor;
	pt_u32 max_registers_a_block;
	pt_u32 max_registers_a_multiprocessor;
	pt_u32 max_shared_bytes_a_block;
	pt_u32 max_shared_bytes_a_multiprocessor;
	pt_u32 max_shared_bytes_optin; /* cudaDeviceProp::sharedMemPerBlockOptin; 0 = not known */
	pt_u32 reserved;
	pt_u8 uuid[16]; /* of the GPU; zeros = not known, older agents end before it */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_device_record) == 112, "pt_gpu_device_record");
#define PT_GPU_DEVICE_OLD_BYTES 96 /* without the uuid */

struct pt_gpu_context_record {
	struct pt_record head;
	pt_u32 context;
	pt_u32 device;
	pt_u32 null_stream; /* id of its default stream */
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_context_record) == 40, "pt_gpu_context_record");

struct pt_gpu_graph_record {
	struct pt_record head;
	pt_u64 end_ns;
	pt_u32 correlation;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
	pt_u32 graph;
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_graph_record) == 56, "pt_gpu_graph_record");

struct pt_gpu_event_record {
	struct pt_record head; /* time_ns: when the device reached the event; 0 = not told */
	pt_u32 correlation;
	pt_u32 event;
	pt_u32 device;
	pt_u32 context;
	pt_u32 stream;
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_event_record) == 48, "pt_gpu_event_record");

struct pt_gpu_count_record {
	struct pt_record head;
	pt_u64 count;
	pt_u32 which;
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_count_record) == 40, "pt_gpu_count_record");

/* A reading of CUPTI's clock between two readings of CLOCK_MONOTONIC, which bound the difference
 * of the clocks. */
struct pt_gpu_clock_record {
	struct pt_record head; /* CLOCK_MONOTONIC, read before cupti_ns */
	pt_u64 cupti_ns;
	pt_u64 after_ns; /* CLOCK_MONOTONIC, read after cupti_ns */
};
PT_STATIC_ASSERT(sizeof(struct pt_gpu_clock_record) == 40, "pt_gpu_clock_record");

/*
 * The shared memory holds struct pt_agent_page, and behind it the ring, which has `ring_bytes`
 * bytes, a power of two. `written` and `taken` count bytes since the beginning. Each record lies
 * whole in the ring, but may wrap around the ring's end. Only one thread, the agent's, writes
 * records. A record for which there is no room is counted in `ring_dropped` and left out.
 */
#define PT_AGENT_MAGIC 0x5047414546544f52ull
#define PT_AGENT_VERSION 1
#define PT_AGENT_PAGE_BYTES 4096
#define PT_AGENT_RING_BYTES (16u << 20)
#define PT_AGENT_MEMORY_NAME "proftrace_gpu" /* of the memfd, as /proc/PID/maps shows it */
#define PT_AGENT_MESSAGE_BYTES 256

enum pt_agent_state {
	PT_AGENT_STARTING = 0,
	PT_AGENT_RUNNING = 1,  /* activity is being recorded */
	PT_AGENT_STOPPED = 2,  /* all records are in the ring, CUPTI is not used any more, the
				  agent's thread has ended */
	PT_AGENT_FAILED = 3,   /* as PT_AGENT_STOPPED, because of an error, which `message` tells */
	PT_AGENT_FLUSHING = 4, /* on the way to a stop: CUPTI is asked for its last records */
};

enum pt_agent_command {
	PT_AGENT_RUN = 0,
	PT_AGENT_STOP = 1,
};

enum pt_agent_failure {
	PT_AGENT_NO_FAILURE = 0,
	PT_AGENT_NO_CUPTI = 1,	    /* no libcupti is mapped, and none was found */
	PT_AGENT_OLD_CUPTI = 2,	    /* a version whose layouts the agent does not know */
	PT_AGENT_TAKEN = 3,	    /* another subscriber has CUPTI (torch.profiler, nsys) */
	PT_AGENT_NOT_PERMITTED = 4, /* the driver does not permit profiling */
	PT_AGENT_CUPTI_ERROR = 5,   /* any other error; see `cupti_result` */
	PT_AGENT_NO_MEMORY = 6,
	PT_AGENT_ABANDONED = 7, /* the loader went away */
};

struct pt_agent_page {
	pt_u64 magic; /* written last, when all other fields are valid */
	pt_u32 version;
	pt_u32 page_bytes;
	pt_u64 ring_bytes;
	pt_u32 pid;	  /* of the job, in its own PID namespace */
	pt_u32 memory_fd; /* of this memory, in the job; closed there when the agent has stopped */
	/* Written by the agent. */
	pt_u32 state;		/* enum pt_agent_state */
	pt_u32 failure;		/* enum pt_agent_failure */
	pt_u32 cupti_result;	/* CUptiResult of the call that failed */
	pt_u32 cupti_version;	/* cuptiGetVersion */
	pt_u32 driver_version;	/* cuDriverGetVersion: 12040; 0 = not known */
	pt_u32 runtime_version; /* cudaRuntimeGetVersion; 0 = not known */
	pt_u64 cupti_records;	/* records of any kind that CUPTI gave */
	/* Records of CUPTI that were written; names, clocks and counts are not among these. */
	pt_u64 ring_records;
	pt_u64 ring_dropped;   /* records for which the ring had no room */
	pt_u64 unread_records; /* of kinds or layouts that the agent does not know */
	pt_u64 cupti_dropped;  /* records that CUPTI itself says it dropped */
	/* How often CUPTI asked for a buffer and none was left. */
	pt_u64 buffers_refused;
	char message[PT_AGENT_MESSAGE_BYTES]; /* NUL terminated */
	/* Written by the loader. */
	pt_u32 command; /* enum pt_agent_command; a futex: to be woken after each change */
	pt_u32 reserved;
	pt_u64 heartbeat_ns; /* CLOCK_MONOTONIC: when the loader last looked. If that was more than
			      * PT_AGENT_HEARTBEAT_LIMIT_NS ago, the agent stops by itself */
	/* Written by the agent; older agents leave zeros. */
	pt_u64 incomplete_buffers; /* buffers that CUPTI handed over with an incomplete record:
				    * the rest of the buffer could not be read */
	pt_u64 incomplete_bytes;   /* bytes of those rests */
	pt_u8 reserved_bytes[PT_AGENT_PAGE_BYTES / 2 - 392];
	/* These two are in the second half of the page, each in a cache line of its own. */
	pt_u64 written; /* bytes that the agent has written into the ring */
	pt_u8 reserved_line[56];
	pt_u64 taken; /* bytes that the loader has taken from the ring */
	pt_u8 reserved_end[PT_AGENT_PAGE_BYTES / 2 - 72];
};
PT_STATIC_ASSERT(sizeof(struct pt_agent_page) == PT_AGENT_PAGE_BYTES, "pt_agent_page");
#define PT_AGENT_HEARTBEAT_LIMIT_NS 10000000000ull

#ifdef __cplusplus
} /* namespace proftrace::abi */
#endif

#endif
