/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records requests of threads to the kernel through io_uring, from the submission to the
 * completion. */
#ifndef PROFTRACE_BPF_SYSTEM_REQUESTS_H
#define PROFTRACE_BPF_SYSTEM_REQUESTS_H

#include "bpf/kernel/system_files.bpf.h"

struct system_request {
	__u64 begin_ns;
	__u64 offset;
	__u64 bytes;
	__u64 user_data;
	__u32 pid;
	__u32 tid;
	__u32 opcode;
	__u32 reserved;
};

/* Key: the kernel's address of the request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct system_request);
} system_requests SEC(".maps");

#define NOT_KNOWN (~0ULL)

/* include/uapi/linux/io_uring.h */
#define IORING_OP_READV 1
#define IORING_OP_WRITEV 2
#define IORING_OP_READ_FIXED 4
#define IORING_OP_WRITE_FIXED 5
#define IORING_OP_READ 22
#define IORING_OP_WRITE 23

static __always_inline bool moves_bytes(__u8 opcode)
{
	return opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV ||
	       opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED ||
	       opcode == IORING_OP_READ || opcode == IORING_OP_WRITE;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_request, struct io_kiocb *request)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct system_request begun = {};
	__u64 key = (__u64)request;

	/* The current thread may also be a thread of the kernel that belongs to the process
	 * (IORING_SETUP_SQPOLL). */
	begun.pid = current_tgid();
	if (system_stopped || !is_watched(begun.pid))
		return 0;
	begun.tid = tid_of_known(task);
	begun.begin_ns = bpf_ktime_get_ns();
	begun.opcode = request->opcode;
	begun.user_data = request->cqe.user_data;
	begun.offset = begun.bytes = NOT_KNOWN;
	if (moves_bytes(begun.opcode)) {
		struct io_rw *move = (struct io_rw *)&request->cmd;

		begun.offset = BPF_CORE_READ(move, kiocb.ki_pos);
		/* For READV and WRITEV, this is the number of buffers. */
		if (begun.opcode != IORING_OP_READV && begun.opcode != IORING_OP_WRITEV)
			begun.bytes = BPF_CORE_READ(move, len);
	}
	if (bpf_map_update_elem(&system_requests, &key, &begun, BPF_ANY))
		__sync_fetch_and_add(&system_lost, 1);
	return 0;
}

static __always_inline int end_request(__u64 key, __s64 result)
{
	struct system_request *begun = bpf_map_lookup_elem(&system_requests, &key);
	struct io_kiocb *request = (struct io_kiocb *)key;
	struct pt_request_record record = {};

	if (!begun)
		return 0;
	record.head.time_ns = begun->begin_ns;
	record.head.pid = begun->pid;
	record.head.tid = begun->tid;
	/* The file is looked up now, because the kernel finds it only when it works on the request.
	 * Some requests have none. */
	record.head.sp = id_of_file((__u64)BPF_CORE_READ(request, file));
	record.head.site = begun->opcode;
	record.head.kind = PT_REQUEST;
	record.head.words = sizeof(record) / 8;
	record.duration_ns = bpf_ktime_get_ns() - begun->begin_ns;
	record.result = result;
	record.offset = begun->offset;
	record.bytes = begun->bytes;
	record.user_data = begun->user_data;
	if (!copy_record(&record, sizeof(record)))
		__sync_fetch_and_add(&system_lost, 1);
	bpf_map_delete_elem(&system_requests, &key);
	return 0;
}

/* The tracepoint's arguments have changed: (ctx, req, user_data, res, …) before 6.11, (ctx, req,
 * cqe) since. */
SEC("raw_tp/io_uring_complete")
int on_request_done(struct bpf_raw_tracepoint_args *ctx)
{
	struct io_uring_cqe *cqe = (struct io_uring_cqe *)ctx->args[2];

	return end_request(ctx->args[1], BPF_CORE_READ(cqe, res));
}

SEC("raw_tp/io_uring_complete")
int on_request_done_old(struct bpf_raw_tracepoint_args *ctx)
{
	return end_request(ctx->args[1], (__s32)ctx->args[3]);
}

#endif
