// The memory that tier patch shares with a job: the ring into which the job's threads write
// records, and the control page with which each region of trampolines begins. This header gives
// offsets and sizes to C++ and to the assembler.
//
// The ring is a memfd that the job and proftrace both map: header | slot table | each slot's words
// | addresses of jumps | demotions | each slot's counters | each slot's buffer for inputs | each
// slot's Python stack.
// A slot belongs to one thread of the job, and is found by the address of the thread's control
// block. Only that thread (with its signal handlers) writes records into the slot, so nothing is
// locked. A record is struct pt_record (bpf/abi/records.h) with its further fields, but time_ns
// holds the time stamp counter, and pid the number of the record's place, which is written last and
// makes the record valid. Positions count words of 8 bytes since the slot's begin. A record does
// not wrap, but continues in the slack behind the slot's last word.
//
// The control page is private and MADV_WIPEONFORK: a forked child reads a zero in place of the
// ring's address and records nothing.
#pragma once

// Offsets in the header, in bytes.
#define PATCH_RING_MAGIC 0
#define PATCH_RING_VERSION 8	  // 32 bits
#define PATCH_RING_SLOTS 12	  // 32 bits
#define PATCH_RING_DEADLINE 16	  // time stamp counter: from then on, no thread writes
#define PATCH_RING_TID_OFFSET 24  // 32 bits, signed: from a thread's control block to its id
#define PATCH_RING_SALT 28	  // 32 bits: a position plus this is the number of a place
#define PATCH_RING_LIMIT 32	  // words that a slot may hold before it is full
#define PATCH_RING_MASK 40	  // words of a slot - 1
#define PATCH_RING_UNSLOTTED 48	  // records of threads that found no slot
#define PATCH_RING_OWNER 56	  // 32 bits: PID of the proftrace that reads
#define PATCH_RING_OWNER_START 64 // when that process started, in clock ticks
#define PATCH_RING_SELF 72	  // the ring's address in the job
#define PATCH_RING_JUMPS 80	  // how many addresses of jumps lie behind the last slot
#define PATCH_RING_READ_FAILED 88 // how often a part of a record could not be read
#define PATCH_RING_INPUTS 96	  // address in the job of the slots' buffers for inputs; 0 = none
// The address in the job of a table that has a number of 16 bits for each site. 0 = the site's
// calls are recorded. Any other number: the calls are only counted. Bits 1..15 are then the number
// of the counter, and bit 0 is set if the ends of calls are not recorded either.
#define PATCH_RING_DEMOTIONS 104
// Changes when the reader notices a loss that the threads do not know of: each thread must then
// report all of its Python code objects and stacks again.
#define PATCH_RING_STACKS_LOST 112  // 32 bits
#define PATCH_RING_PYTHON_CODES 116 // 32 bits: how many code objects have been reported
// The offset from a thread's control block to the thread's pointer to its PyThreadState, which has
// a field that tells whose state it is. 0 = Python stacks are not recorded.
#define PATCH_RING_PYTHON_STATE 120 // 32 bits, signed
// 32 bits, 1 or 0: whether jumps see the end of each operator, or else the catch of its exception.
#define PATCH_RING_ENDS_ARE_SEEN 124
#define PATCH_RING_FINALIZING 128    // address of a word that is not 0 as soon as Python ends
#define PATCH_RING_PYTHON_LAYOUT 136 // struct pt_python_layout
// How long Python's end waits at most for threads that read their stacks, in counts of the time
// stamp counter.
#define PATCH_RING_END_WAIT 224
// The address of the jump at which Python's end waits; 0 = there is none.
#define PATCH_RING_PYTHON_END 232
// 32 bits: how many seccomp filters each thread of the process had when the process got the ring,
// plus 1; 0 = not known. As long as the number is the same, the filters are the same, because the
// kernel never takes one away.
#define PATCH_RING_FILTERS 240
// A struct pt_script_layout, whose state.index is 0 if rows of TorchScript do not tell their
// modules.
#define PATCH_RING_SCRIPT_LAYOUT 248
// A bit is set for each thread that found no slot. The number of the bit is the highest bits of the
// product of the thread's control block address and PATCH_SLOT_SPREAD. Several threads may have the
// same bit, so at least as many threads as bits are set found no slot.
#define PATCH_RING_UNSLOTTED_THREADS 512
#define PATCH_RING_UNSLOTTED_BITS 10
#define PATCH_RING_REGIONS 1024 // address and bytes of each region; an address of 0 ends the list
#define PATCH_RING_MOST_REGIONS 64
#define PATCH_RING_HEADER_BYTES 4096

// The slot table. The writer's fields are in a slot's first cache line, the reader's in its second.
#define PATCH_SLOT_BITS 9
#define PATCH_SLOTS (1 << PATCH_SLOT_BITS)
#define PATCH_SLOT_SHIFT 7 // log2 of a slot's bytes in the table
// The address of the control block of the thread that has the slot, or one of the values below. A
// slot that has once had a thread never has the owner 0 again. So a search ends at a slot with the
// owner 0, because no thread that looks there can have a slot behind it.
#define PATCH_SLOT_OWNER 0
#define PATCH_SLOT_TAIL 8	// the position behind the last record
#define PATCH_SLOT_FLOOR 16	// PATCH_SLOT_HEAD as the writer last saw it
#define PATCH_SLOT_WORDS 24	// the address of the slot's words in the job
#define PATCH_SLOT_LOST 32	// records lost since the last PT_LOSS
#define PATCH_SLOT_ANNOUNCED 40 // 32 bits: the thread whose PT_THREAD_NUMBER has been written
#define PATCH_SLOT_LOSSES 44	// 32 bits: how often a record was lost
// The Stack of the running call that enters an annotation (0 = no such call runs), and the stack
// pointer at the call's entry.
#define PATCH_SLOT_ENTER 48
#define PATCH_SLOT_HEAD 64   // the position up to which the reader has taken records
#define PATCH_SLOT_COUNTS 72 // address of the slot's counters of calls in the job
#define PATCH_SLOT_STACKS 80 // address of the slot's struct job_stacks in the job; 0 = none
// Values of the owner that are no addresses. FREED: any thread that has no slot in one of the
// places where it looks may take this slot. TAKEN: the reader is about to free the slot.
#define PATCH_SLOT_FREED 1
#define PATCH_SLOT_TAKEN 3
// This bit is set in the owner if the owner's thread seems to have ended. Only a thread whose
// control block is at that address (the same thread, or a later one) may take the slot back, by a
// cmpxchg.
#define PATCH_SLOT_RETIRED 1
#define PATCH_SLOT_PROBES 16 // slots that a thread looks at before it gives up
// A factor for the address of a thread's control block: the highest bits of the product are the
// number of the first slot that the thread looks at.
#define PATCH_SLOT_SPREAD 0x9e3779b97f4a7c15

#define PATCH_DEMOTION_BYTES (65536 * 2) // for all sites
#define PATCH_COUNTERS 256 // counters of a slot, 64 bits each; the first one is not used

#define PATCH_RECORD_WORDS 3 // of a plain record
#define PATCH_END_KIND 2     // PT_SPAN_END
// The value kind << 16 | words << 24 of a PT_SPAN_BEGIN, and of one with a sequence number.
#define PATCH_BEGIN_INFO (1 << 16 | 3 << 24)
#define PATCH_NUMBERED_BEGIN_INFO (1 << 16 | 4 << 24)
#define PATCH_LOSS_WORDS 4 // of a PT_LOSS
#define PATCH_LOSS_INFO (9 << 16 | PATCH_LOSS_WORDS << 24)
// The room behind a slot's last word: more than the longest record takes (255 words).
#define PATCH_SLACK_BYTES 4096
// A slot's buffer for the inputs of operators (struct input_buffer, bpf/shared/values.bpf.h).
#define PATCH_INPUTS_BYTES (17 * 4096)
// A slot's Python stack (struct job_stacks, bpf/job/job_stacks.h), and two of its fields.
#define PATCH_STACKS_BYTES (24 * 4096)
#define PATCH_STACKS_OPEN_SP 48
#define PATCH_STACKS_OPEN_SITE 64
// How many words a writer leaves free for signal handlers: a handler may write records after the
// writer has looked for room, and before the writer has reserved it.
#define PATCH_HANDLER_WORDS 1536

// Offsets in the control page.
#define PATCH_CONTROL_RING 0 // the ring's address in the job; 0 = recording is off
// Marks a region as proftrace's, even if its ring does not exist yet, or does not exist any more.
#define PATCH_CONTROL_MAGIC 8	     // PATCH_RING_MAGIC_VALUE
#define PATCH_CONTROL_REGION 16	     // bytes of the region
#define PATCH_CONTROL_OWNER 24	     // as PATCH_RING_OWNER
#define PATCH_CONTROL_OWNER_START 32 // as PATCH_RING_OWNER_START
#define PATCH_CONTROL_AUTOGRAD 40    // struct pt_autograd_layout
// Offsets in pt_autograd_layout of two variables, each of 16 bytes: an address, then an offset.
#define PATCH_AUTOGRAD_SEQUENCE 0
#define PATCH_AUTOGRAD_GRAD_MODE 32
// Vtables of torch::autograd::PyNode and similar classes; a 0 ends the list.
#define PATCH_CONTROL_PYTHON_NODES 112
#define PATCH_PYTHON_NODES 8	      // how many there may be
#define PATCH_CONTROL_ANNOTATIONS 176 // OperatorDef*, enum pt_annotation_step; null ends them
#define PATCH_ANNOTATIONS 8	      // how many there may be
#define PATCH_CONTROL_FIELDS 304      // bytes of all fields up to here
// The address of the struct pt_places, which cookies refer to by a number, 1 for the first.
#define PATCH_CONTROL_PLACES 512
#define PATCH_CONTROL_PLACE_COUNT 520 // how many places there are
// The address of the offsets of the struct pt_signatures. Each offset has 32 bits and counts from
// that address; a signature is no longer than its arguments need. Then follow the number of
// signatures, and the number of the signature for autograd nodes (1 = the first; 0 = there is
// none).
#define PATCH_CONTROL_SIGNATURES 528
#define PATCH_CONTROL_SIGNATURE_COUNT 536
#define PATCH_CONTROL_NODE_SIGNATURE 544
// The ring's address for the jump at Python's end. It stays here when PATCH_CONTROL_RING is 0
// already, because threads may still be in the recorder.
#define PATCH_CONTROL_PYTHON_END 552
#define PATCH_CONTROL_BYTES 4096

#define PATCH_RING_MAGIC_VALUE 0x676e697268637470
#define PATCH_RING_VERSION_VALUE 1
