// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Takes samples of the threads of recorded processes (--sample), and of threads that wake others
 * (--waker-stacks). These programs are an object of their own, with a ring of its own. A running
 * thread is sampled by a clock of its CPU, in the thread's own context, so that neither its Python
 * frames nor its stack change while they are copied. Threads that do not run are listed by an
 * iterator; the tracer reads their stacks, because nothing changes there until they run.
 */
#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/shared/python_state.bpf.h"
#include "bpf/kernel/task_state.bpf.h"
#include "bpf/abi/sample_records.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20); /* set by the loader */
} sample_ring SEC(".maps");

/* Key: the tgid in the tracer's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct pt_sampled_process);
} sampled SEC(".maps");

/* There is one buffer for each CPU, because a CPU's clock does not interrupt itself. This is an
 * array, because values of a per-CPU map may not be as large. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct pt_raw_sample);
} sample_buffers SEC(".maps");

/* Buffers for wakers. There is one for each CPU here, too, because a clock may strike while a
 * thread wakes another one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct pt_raw_sample);
} waker_buffers SEC(".maps");

/* How many samples the ring had no room for. */
__u64 samples_lost = 0;

const volatile bool config_native = true;

struct sample_walk {
	struct pt_python_layout *layout;
	struct pt_raw_sample *sample;
	__u64 frame;
};

static __always_inline __u64 user_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)address);
	return word;
}

static long visit_frame(__u32 i, struct sample_walk *walk)
{
	struct pt_python_layout *layout = walk->layout;
	struct pt_raw_sample *sample = walk->sample;
	struct pt_sampled_frame *frame;
	__u64 tags = ~(__u64)layout->pointer_tags;
	__u8 owner = 0;
	__u8 is_entry = 0;

	if (!walk->frame)
		return 1;
	if (sample->frame_count >= PT_SAMPLE_FRAMES) {
		sample->flags |= PT_PYTHON_STACK_CUT;
		return 1;
	}
	frame = &sample->frames[sample->frame_count & (PT_SAMPLE_FRAMES - 1)];
	frame->code = 0;
	frame->instruction = 0;
	frame->file = 0;
	frame->name = 0;
	if (layout->frame_owner)
		bpf_probe_read_user(&owner, 1, (void *)(walk->frame + layout->frame_owner));
	if (!layout->frame_owner || owner < layout->owner_limit) {
		if (bpf_probe_read_user(&frame->code, 8,
					(void *)(walk->frame + layout->frame_code)) ||
		    !(frame->code &= tags)) {
			sample->flags |= PT_PYTHON_STACK_FAILED;
			return 1;
		}
		frame->instruction =
		    own_instruction(layout, walk->frame, frame->code,
				    user_word(walk->frame + layout->frame_instruction));
		frame->file = user_word(frame->code + layout->code_file);
		frame->name = user_word(frame->code + layout->code_name);
		if (layout->frame_entry) {
			bpf_probe_read_user(&is_entry, 1,
					    (void *)(walk->frame + layout->frame_entry));
			if (is_entry)
				frame->instruction |= PT_SAMPLE_FRAME_IS_ENTRY;
		}
	}
	sample->frame_count += 1;
	walk->frame = user_word(walk->frame + layout->frame_previous) & tags;
	return 0;
}

static __always_inline void read_frames(struct pt_python_layout *layout,
					struct pt_raw_sample *sample, __u64 thread_id)
{
	struct sample_walk walk = {.layout = layout, .sample = sample};
	__u64 state = kept_python_state(layout, thread_id);
	bool is_cut = false;

	if (!state)
		state = listed_python_state(layout, thread_id, &is_cut);
	if (is_cut)
		sample->flags |= PT_PYTHON_STACK_FAILED;
	if (!state)
		return;
	walk.frame = python_frame_of(layout, state);
	bpf_loop(PT_SAMPLE_FRAMES + 1, visit_frame, &walk, 0);
}

/* Reads the registers that the thread has outside of the kernel. */
static __always_inline void read_registers(struct task_struct *task,
					   struct pt_user_registers *registers)
{
	struct pt_regs *at = (struct pt_regs *)bpf_task_pt_regs(task);
	struct pt_regs regs = {};

	bpf_probe_read_kernel(&regs, sizeof(regs), at);
	registers->ip = regs.ip;
	registers->sp = regs.sp;
	registers->bp = regs.bp;
	registers->bx = regs.bx;
	registers->r12 = regs.r12;
	registers->r13 = regs.r13;
	registers->r14 = regs.r14;
	registers->r15 = regs.r15;
	registers->call = regs.orig_ax;
}

#define STACK_CHUNK 2048

/* Puts a sample of the current thread into the ring. Copies at most `most_bytes` of its stack, a
 * number that must be known at compile time. */
static __always_inline void take_sample(struct pt_raw_sample *sample, struct task_struct *task,
					struct pt_sampled_process *process, __u32 tgid,
					__u32 woken_tid, const __u32 most_bytes)
{
	__u32 bytes = 0;

	sample->time_ns = bpf_ktime_get_ns();
	sample->pid = tgid;
	sample->tid = pidns_level ? tid_of(task) : (__u32)bpf_get_current_pid_tgid();
	sample->frame_count = 0;
	sample->flags = 0;
	sample->woken_tid = woken_tid;
	read_registers(task, &sample->registers);
	if (process->python.version)
		read_frames(&process->python, sample, BPF_CORE_READ(task, thread.fsbase));
	if (config_native) {
#pragma unroll
		for (int i = 0; i < most_bytes / STACK_CHUNK; ++i) {
			if (bpf_probe_read_user(sample->stack + i * STACK_CHUNK, STACK_CHUNK,
						(void *)(sample->registers.sp + i * STACK_CHUNK)))
				break;
			bytes = (i + 1) * STACK_CHUNK;
		}
	}
	sample->stack_bytes = bytes;
	barrier_var(bytes);
	if (bytes > PT_SAMPLE_STACK_BYTES)
		bytes = PT_SAMPLE_STACK_BYTES;
	if (bpf_ringbuf_output(&sample_ring, sample, PT_RAW_SAMPLE_HEAD_BYTES + bytes,
			       BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&samples_lost, 1);
}

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = current_tgid();
	struct pt_sampled_process *process = bpf_map_lookup_elem(&sampled, &tgid);
	struct pt_raw_sample *sample;
	__u32 cpu = bpf_get_smp_processor_id();

	if (!process)
		return 0;
	sample = bpf_map_lookup_elem(&sample_buffers, &cpu);
	if (sample)
		take_sample(sample, task, process, tgid, 0, PT_SAMPLE_STACK_BYTES);
	return 0;
}

/* Samples the current thread if it is in a system call and wakes a sleeping thread, and if both
 * threads belong to sampled processes. If an interrupt wakes the sleeping thread during that call,
 * the interrupted thread is taken for the waker, as in on_system_waking. Interrupts are off, so no
 * other waking uses the CPU's buffer. */
SEC("tp_btf/sched_waking")
int on_waker(__u64 *ctx)
{
	struct task_struct *woken = (struct task_struct *)ctx[0];
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_sampled_process *process;
	struct pt_raw_sample *sample;
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 tgid = current_tgid();
	struct pt_regs *regs;
	__u32 woken_tgid;

	process = bpf_map_lookup_elem(&sampled, &tgid);
	if (!process || state_of(woken) == 0)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	if ((__s64)regs->orig_ax < 0)
		return 0;
	woken_tgid = tgid_of(woken);
	if (!bpf_map_lookup_elem(&sampled, &woken_tgid))
		return 0;
	sample = bpf_map_lookup_elem(&waker_buffers, &cpu);
	if (sample)
		take_sample(sample, task, process, tgid, tid_of(woken), PT_WAKER_STACK_BYTES);
	return 0;
}

/* Whether the thread would be running if the reader of this list had not taken its CPU. The kernel
 * then notes the same moment for the thread's end and the reader's begin on that CPU. */
static __always_inline bool is_pushed_aside(struct task_struct *task)
{
	struct task_struct *reader = (struct task_struct *)bpf_get_current_task();

	if (!bpf_core_field_exists(task->sched_info.last_queued))
		return false;
	return state_of(task) == 0 && BPF_CORE_READ(task, sched_info.last_queued) ==
					  BPF_CORE_READ(reader, sched_info.last_arrival);
}

SEC("iter/task")
int list_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pt_thread_state thread = {};

	if (!task)
		return 0;
	thread.pid = tgid_of(task);
	if (!thread.pid || !bpf_map_lookup_elem(&sampled, &thread.pid))
		return 0;
	thread.tid = tid_of(task);
	thread.time_ns = bpf_ktime_get_ns();
	thread.on_cpu = BPF_CORE_READ(task, on_cpu) || is_pushed_aside(task);
	thread.switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	thread.state = state_of(task);
	thread.thread_id = BPF_CORE_READ(task, thread.fsbase);
	read_registers(task, &thread.registers);
	bpf_seq_write(ctx->meta->seq, &thread, sizeof(thread));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
