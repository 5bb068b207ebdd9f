// The memory that tier patch shares with a job: the ring that its threads write records into, and
// the control page beside each region of trampolines. Shared by C++ and the assembler: offsets,
// sizes.
//
// The ring is a memfd mapped by the job and by proftrace: header | slot table | each slot's words |
// addresses of jumps | demotions | each slot's counters | each slot's buffer for inputs | each
// slot's stack of Python's.
// A slot belongs to one thread of the job, found by the address of its thread control block. Only
// that thread (and its signal handlers) write to it, so nothing is locked. A record is struct
// pt_record (bpf/abi/records.h) and what belongs to it, but that time_ns holds the time stamp
// counter, and pid the number of its place: it is written last, and makes the record valid.
// Positions count words of 8 bytes since the slot's begin; a record does not wrap: it goes on in
// the slack behind the slot's last word.
//
// The control page is private and MADV_WIPEONFORK: a forked child reads a zero in place of the
// ring's address and records nothing.
#pragma once

// Offsets in the header, in bytes.
#define PATCH_RING_MAGIC 0
#define PATCH_RING_VERSION 8	  // 32 bits
#define PATCH_RING_SLOTS 12	  // 32 bits
#define PATCH_RING_DEADLINE 16	  // time stamp counter: from then on nobody writes
#define PATCH_RING_TID_OFFSET 24  // 32 bits, signed: of the thread's id, from its control block
#define PATCH_RING_SALT 28	  // 32 bits: added to a position, it is the number of a place
#define PATCH_RING_LIMIT 32	  // words that a slot may hold before it is full
#define PATCH_RING_MASK 40	  // words of a slot - 1
#define PATCH_RING_UNSLOTTED 48	  // records of threads that found no slot
#define PATCH_RING_OWNER 56	  // 32 bits: PID of the proftrace that reads
#define PATCH_RING_OWNER_START 64 // its start in clock ticks
#define PATCH_RING_SELF 72	  // where the job has the ring
#define PATCH_RING_JUMPS 80	  // how many addresses of jumps stand behind the last slot
#define PATCH_RING_READ_FAILED 88 // what a record needs could not be read
#define PATCH_RING_INPUTS 96	  // where the job has each slot's buffer for inputs; 0 = none
// Where the job has a number of 16 bits for each site: 0 = its calls are recorded. Else they are
// only counted, by the counter with the number in bits 1..15; bit 0: their ends are not recorded
// either.
#define PATCH_RING_DEMOTIONS 104
// Changed where the reader tells of a loss that threads do not know of: all that has been told of
// Python's code and stacks is to be told again.
#define PATCH_RING_STACKS_LOST 112  // 32 bits
#define PATCH_RING_PYTHON_CODES 116 // 32 bits: code objects that have been told of
// The offset from a thread's control block to its pointer to a PyThreadState, which itself says
// whose thread it is. 0 = stacks are not recorded.
#define PATCH_RING_PYTHON_STATE 120  // 32 bits, signed
#define PATCH_RING_ENDS_ARE_SEEN 124 // 32 bits: each operator's end, or the exception's catch
#define PATCH_RING_FINALIZING 128    // address of a word that is not 0 as soon as Python ends
#define PATCH_RING_PYTHON_LAYOUT 136 // struct pt_python_layout
#define PATCH_RING_END_WAIT 224	  // time stamp counts that Python's end waits for readers at most
#define PATCH_RING_PYTHON_END 232 // address of the jump at which it does; 0 = there is none
// 32 bits: how many seccomp filters each of its threads had when it got this, and 1; 0 = not known.
// A process with as many has the same: none is ever taken away.
#define PATCH_RING_FILTERS 240
// struct pt_script_layout. The index of its state's variable is 0 where rows of TorchScript tell
// nothing of their modules.
#define PATCH_RING_SCRIPT_LAYOUT 248
// A bit for each control block of a thread that found no slot, by the highest bits of its address
// times PATCH_SLOT_SPREAD: at least so many threads found none.
#define PATCH_RING_UNSLOTTED_THREADS 512
#define PATCH_RING_UNSLOTTED_BITS 10
#define PATCH_RING_REGIONS 1024 // address and bytes of each region; 0 ends them
#define PATCH_RING_MOST_REGIONS 64
#define PATCH_RING_HEADER_BYTES 4096

// The slot table. The first line is the writer's, the second the reader's.
#define PATCH_SLOT_BITS 9
#define PATCH_SLOTS (1 << PATCH_SLOT_BITS)
#define PATCH_SLOT_SHIFT 7 // log2 of a slot's bytes in the table
// Address of the thread control block, or what is below. A slot that has had a thread is never 0
// again: behind a 0 no thread has its slot.
#define PATCH_SLOT_OWNER 0
#define PATCH_SLOT_TAIL 8	// position behind the last record
#define PATCH_SLOT_FLOOR 16	// PATCH_SLOT_HEAD as the writer last saw it
#define PATCH_SLOT_WORDS 24	// where the job has the slot's words
#define PATCH_SLOT_LOST 32	// records lost since the last PT_LOSS
#define PATCH_SLOT_ANNOUNCED 40 // 32 bits: the thread whose PT_THREAD_NUMBER has been written
#define PATCH_SLOT_LOSSES 44	// 32 bits: how often a record was lost
// The Stack of an annotation's enter that runs (0 = none does), and the stack pointer at its entry.
#define PATCH_SLOT_ENTER 48
#define PATCH_SLOT_HEAD 64   // position that the reader has got to
#define PATCH_SLOT_COUNTS 72 // where the job has the slot's counters of calls
#define PATCH_SLOT_STACKS 80 // where the job has the slot's struct job_stacks; 0 = none
// What the owner may be beside an address: freed, so that any thread without a slot in one of its
// places may take it; and, for a moment, in the reader's hands.
#define PATCH_SLOT_FREED 1
#define PATCH_SLOT_TAKEN 3
// Set in an owner whose thread seems to have ended. A thread at that address, the same or the next
// one, takes it as its own by a cmpxchg; nobody else does.
#define PATCH_SLOT_RETIRED 1
#define PATCH_SLOT_PROBES 16 // slots that a thread looks at before it gives up
// A factor for the address of a thread's control block: the highest bits of the product are the
// first slot to look at.
#define PATCH_SLOT_SPREAD 0x9e3779b97f4a7c15

#define PATCH_DEMOTION_BYTES (65536 * 2) // of all sites
#define PATCH_COUNTERS 256		 // of a slot, 64 bits each; the first one is not used

#define PATCH_RECORD_WORDS 3 // of a plain record
#define PATCH_END_KIND 2     // PT_SPAN_END
// kind << 16 | words << 24 of a PT_SPAN_BEGIN, and of one with a sequence number.
#define PATCH_BEGIN_INFO (1 << 16 | 3 << 24)
#define PATCH_NUMBERED_BEGIN_INFO (1 << 16 | 4 << 24)
#define PATCH_LOSS_WORDS 4 // of a PT_LOSS
#define PATCH_LOSS_INFO (9 << 16 | PATCH_LOSS_WORDS << 24)
// Behind a slot's last word: more than a record is long (255 words).
#define PATCH_SLACK_BYTES 4096
// A slot's buffer for what operators are called with (struct input_buffer,
// bpf/shared/values.bpf.h).
#define PATCH_INPUTS_BYTES (17 * 4096)
// A slot's stack of Python's (struct job_stacks, bpf/job/job_stacks.h), and two fields of it.
#define PATCH_STACKS_BYTES (24 * 4096)
#define PATCH_STACKS_OPEN_SP 48
#define PATCH_STACKS_OPEN_SITE 64
// Words that are left free for what signal handlers write between a look at the room and the
// reservation.
#define PATCH_HANDLER_WORDS 1536

// Offsets in the control page.
#define PATCH_CONTROL_RING 0 // where the job has the ring; 0 = off
// Identifies a region as ours whose ring is not there yet, or not any more.
#define PATCH_CONTROL_MAGIC 8	     // PATCH_RING_MAGIC_VALUE
#define PATCH_CONTROL_REGION 16	     // bytes of the region
#define PATCH_CONTROL_OWNER 24	     // as PATCH_RING_OWNER
#define PATCH_CONTROL_OWNER_START 32 // as PATCH_RING_OWNER_START
#define PATCH_CONTROL_AUTOGRAD 40    // struct pt_autograd_layout
#define PATCH_AUTOGRAD_SEQUENCE 0    // of this, each of 16 bytes: the address, then an offset
#define PATCH_AUTOGRAD_GRAD_MODE 32
#define PATCH_CONTROL_PYTHON_NODES 112 // vtables of torch::autograd::PyNode and its like; 0 = none
#define PATCH_PYTHON_NODES 8	       // so many
#define PATCH_CONTROL_ANNOTATIONS 176  // OperatorDef*, enum pt_annotation_step; 0 ends them
#define PATCH_ANNOTATIONS 8	       // so many at most
#define PATCH_CONTROL_FIELDS 304       // bytes of all of these
#define PATCH_CONTROL_PLACES 512       // where struct pt_places are, which cookies count from 1 on
#define PATCH_CONTROL_PLACE_COUNT 520  // so many
// Where the offsets from there to struct pt_signatures are, 32 bits each, which are no longer than
// their arguments need; so many; that of autograd nodes, counted from 1 on, 0 = none.
#define PATCH_CONTROL_SIGNATURES 528
#define PATCH_CONTROL_SIGNATURE_COUNT 536
#define PATCH_CONTROL_NODE_SIGNATURE 544
// The address in PATCH_CONTROL_RING, but it stays as long as a thread may be in the recorder.
#define PATCH_CONTROL_PYTHON_END 552
#define PATCH_CONTROL_BYTES 4096

#define PATCH_RING_MAGIC_VALUE 0x676e697268637470
#define PATCH_RING_VERSION_VALUE 1
