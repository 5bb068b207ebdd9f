/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state that is kept of Python's threads, code objects and nn.Modules (--with-stack). Each code
 * object and each module is reported once, with its names, while it certainly lives.
 */
#ifndef PROFTRACE_BPF_PYTHON_OBJECTS_H
#define PROFTRACE_BPF_PYTHON_OBJECTS_H

#include "bpf/abi/python_records.h"
#include "bpf/shared/python_types.bpf.h"

/* Set by the loader. Global functions check it, too, because the kernel verifies each of them by
 * itself, and a kernel before 5.17 has no bpf_loop. */
#ifndef config_with_stack
const volatile bool config_with_stack = false;
#endif

/* Key: the tgid in the tracer's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct pt_python_layout);
} python_layouts SEC(".maps");

struct python_frame {
	__u64 address;
	__u64 code;
	__u64 instruction; /* as the frame holds it: an address, or (up to 3.10) a number */
	__u64 module;	   /* the nn.Module whose call the frame is, 0 = none */
	__u64 word;	   /* the frame's word in the record */
	__u64 kind;	   /* enum python_code_kind of its code */
};

struct python_object_key {
	__u64 address;
	__u64 tgid;
};

/* The addresses of two strings. If they differ from those of before, another code object lies at
 * the same address. They are not enough for code that is made and run in a loop, whose names may
 * lie at the same addresses. */
struct python_code_names {
	__u64 file;
	__u64 name;
};

struct python_code {
	struct python_code_names names;
	/* The address of the last characters of the file's name, and these characters. */
	__u64 file_end;
	__u64 file_text;
	__u64 made; /* with PYTHON_CODE_MADE: a hash of the code's name and lines */
	__u32 id;
	__u32 kind; /* of enum python_code_kind */
};

/* Holds the Python stack that was last read and sent of a thread. It needs no lock, because only
 * that thread uses it, and a thread is in one probe at a time. */
struct python_thread {
	__u64 state;	  /* its PyThreadState, 0 = not found */
	__u64 search_ns;  /* before this time, the state is not searched for again */
	__u64 open_sp;	  /* that of the outermost running operator; 0 = none is known */
	__u64 open_frame; /* the innermost frame when that operator began */
	__u32 open_site;
	__u32 generation; /* the value of python_generation when `frames` was sent */
	__u32 count[2];	  /* how many frames each of `frames` has */
	__u32 current;	  /* index of the `frames` that were sent last, 0 or 1 */
	__u32 flags;	  /* of the last sent stack: enum pt_python_stack_flag */
	/* The next fields are about the stack that is being read. */
	__u64 frame;  /* the address of the frame that is read next */
	__u32 next;   /* index of the `frames` that are being filled */
	__u32 common; /* how many outermost frames are the same as in the stack before */
	__u32 before; /* how many frames the stack before has */
	__u32 words;  /* how many words the record has */
	__u32 new_flags;
	__u32 failed;
	/* These fields are here and not in the programs' stack frames, because all nested calls
	 * together have 512 bytes of stack on kernels before 6.13. */
	struct python_code new_code;		 /* the code object that is being reported */
	__u64 buffer[PT_PYTHON_FRAME_BYTES / 8]; /* a frame; then the name of a class */
	struct python_frame frames[2][PT_PYTHON_MOST_FRAMES]; /* innermost first */
	struct pt_python_stack_record record;
	/* The address of TorchScript's variable of this thread; 0 = not found yet. */
	__u64 script_variable;
};

/* Key: the kernel's tid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader: 13 kB a thread */
	__type(key, __u32);
	__type(value, struct python_thread);
} python_threads SEC(".maps");

/* An empty entry, which is too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct python_thread);
} python_no_thread SEC(".maps");

/* This bit of a str's state says that the characters lie in the object itself. */
#define PYTHON_COMPACT (1 << 5)

enum python_code_kind {
	PYTHON_CODE_CALL = 1, /* code of torch.nn.Module.__call__: its first local is the module */
	PYTHON_CODE_CELL = 2, /* the module is in a cell */
	PYTHON_CODE_MADE = 4, /* code of no file ("<string>"): it may live for a moment only */
};

/* The code objects that were reported. When this map is full, the one that was not met for the
 * longest time is forgotten, and will be reported again. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct python_object_key);
	__type(value, struct python_code);
} python_codes SEC(".maps");

/* The nn.Modules that were seen; value: the address of their type. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct python_object_key);
	__type(value, __u64);
} python_modules SEC(".maps");

__u32 python_code_count = 0;

/* A job's own threads keep these elsewhere (bpf/job/job_stacks.h). */
#ifndef PYTHON_TABLES_ARE_OF_THREADS
#define PYTHON_CODE(key) bpf_map_lookup_elem(&python_codes, key)
#define KEEP_PYTHON_CODE(key, code) bpf_map_update_elem(&python_codes, key, code, BPF_ANY)
#define PYTHON_MODULE(key) bpf_map_lookup_elem(&python_modules, key)
#define KEEP_PYTHON_MODULE(key, type) bpf_map_update_elem(&python_modules, key, type, BPF_ANY)
#define COPY_OF_CODE(layout, frame) 0
#define NEXT_PYTHON_CODE() (__sync_fetch_and_add(&python_code_count, 1) + 1)
/* These are true here without a check, because a read of memory that may be gone does no harm in a
 * BPF program. */
#define IS_CELL(object) true
#define IS_CODE(object) true
#define IS_SAME_TEXT(layout, known) ((known)->file_text == text_at((known)->file_end))

static __always_inline struct python_thread *this_python_thread(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&python_threads, &tid);
}
#endif

static __always_inline __u64 read_python_module(struct pt_python_layout *layout, __u64 frame,
						bool in_cell)
{
	__u64 object = 0;

	if (bpf_probe_read_user(&object, sizeof(object), (void *)(frame + layout->frame_locals)))
		return 0;
	object &= ~(__u64)layout->pointer_tags;
	if (in_cell && object && IS_CELL(object) &&
	    bpf_probe_read_user(&object, sizeof(object), (void *)(object + layout->cell_value)))
		return 0;
	return object;
}

/* Returns the address of the object's pointer to its class. */
static __always_inline void *type_place(struct pt_python_layout *layout, __u64 object)
{
	return (void *)(object + PYTHON_TYPE + layout->object_head);
}

static __always_inline void *type_name_place(struct pt_python_layout *layout, __u64 type)
{
	return (void *)(type + PYTHON_TYPE_NAME + layout->object_head);
}

static __always_inline __u64 text_at(__u64 address)
{
	__u64 text = 0;

	bpf_probe_read_user(&text, sizeof(text), (void *)address);
	return text;
}

/* Returns the 4 bytes at text_state, shifted so that their bits are where they are in a build
 * with a global interpreter lock; 0 = the bytes could not be read. */
static __always_inline __u32 text_state_of(struct pt_python_layout *layout, __u64 object)
{
	__u32 state = 0;

	bpf_probe_read_user(&state, sizeof(state), (void *)(object + layout->text_state));
	return state >> (layout->text_shift & 31);
}

static __always_inline __u64 mixed(__u64 text, __u64 more)
{
	return (text ^ more) * 0x9e3779b97f4a7c15ULL;
}

/* Returns a hash of the name and the lines of a code object of no file, made from their lengths and
 * their first and last words. Their addresses are not enough, because they may be those of an
 * earlier code object's. */
static __noinline __u64 made_text(struct pt_python_layout *layout, __u64 address)
{
	__u64 object = 0;
	__u64 length = 0;
	__u32 state;
	__u64 text;

	bpf_probe_read_user(&object, sizeof(object), (void *)(address + layout->code_name));
	state = text_state_of(layout, object);
	bpf_probe_read_user(&length, sizeof(length), (void *)(object + layout->text_length));
	/* This reads ASCII characters, or other words of the object, which serve as well. */
	text = mixed(length, text_at(object + layout->text_ascii));
	if (state & PYTHON_COMPACT && length > 8 && length < PT_PYTHON_NAME_BYTES)
		text = mixed(text, text_at(object + layout->text_ascii + ((length - 1) & ~7ULL)));
	object = 0;
	length = 0;
	bpf_probe_read_user(&object, sizeof(object), (void *)(address + layout->code_lines));
	bpf_probe_read_user(&length, sizeof(length), (void *)(object + layout->bytes_length));
	text = mixed(text, length);
	text = mixed(text, text_at(object + layout->bytes_data));
	if (length > 8 && length < PT_PYTHON_LINES_BYTES)
		text = mixed(text, text_at(object + layout->bytes_data + ((length - 1) & ~7ULL)));
	/* The address of the table of copies that threads run is hashed, too, because another code
	 * object may have another table. */
	if (layout->code_copies)
		text = mixed(text, text_at(address + layout->code_copies));
	return mixed(text, (__u32)text_at(address + layout->code_first_line));
}

/* Whether the code object at `address` is still the one that was reported. */
static __always_inline bool is_told(struct pt_python_layout *layout, struct python_code *known,
				    struct python_code_names *now, __u64 address)
{
	return known && known->names.file == now->file && known->names.name == now->name &&
	       IS_SAME_TEXT(layout, known) &&
	       (!(known->kind & PYTHON_CODE_MADE) || known->made == made_text(layout, address));
}

static __always_inline bool read_python_code(struct pt_python_layout *layout, __u64 address,
					     struct python_code_names *names)
{
	return !bpf_probe_read_user(&names->file, 8, (void *)(address + layout->code_file)) &&
	       !bpf_probe_read_user(&names->name, 8, (void *)(address + layout->code_name));
}

/* Returns room for a record of this thread, with its head filled in; NULL: there is none. Such
 * records come in a row, with the time of the stack's record; if one of them is lost, all of them
 * are written again later. */
static __always_inline void *reserve_python(struct python_thread *thread, __u8 kind, __u64 bytes)
{
	struct pt_record *record = reserve_room(bytes);

	if (!record) {
		note_loss();
		return NULL;
	}
	fill_head_at(record, thread->record.head.time_ns, 0, 0, kind, bytes);
	return record;
}

/* A text or table of a code object or a class: `total` bytes at `address`, of which those from
 * `offset` on are still to be sent. */
struct python_text {
	struct python_thread *thread;
	__u64 address;
	__u32 id;
	__u32 total;
	__u32 offset;
	__u8 part;
	__u8 width;
	bool failed;
};

static __always_inline void fill_python_text(struct pt_python_text_record *record,
					     struct python_text *text, __u32 room)
{
	__u32 bytes = text->total - text->offset;

	barrier_var(bytes);
	if (bytes > room)
		bytes = room;
	record->id = text->id;
	record->offset = text->offset;
	record->total = text->total;
	record->bytes = bytes;
	record->part = text->part;
	record->width = text->width;
	if (bytes &&
	    bpf_probe_read_user(record->text, bytes, (void *)(text->address + text->offset))) {
		record->bytes = 0;
		record->width = 0;
		count_drop(PT_DROP_READ_FAILED);
		text->failed = true;
	}
	text->offset += bytes;
}

static long write_more_python_text(__u32 i, struct python_text *text)
{
	struct pt_python_text_record *record;

	if (text->failed || text->offset >= text->total)
		return 1;
	record = reserve_python(text->thread, PT_PYTHON_TEXT, sizeof(*record));
	if (!record) {
		text->failed = true;
		return 1;
	}
	fill_python_text(record, text, PT_PYTHON_MORE_TEXT_BYTES);
	submit(record);
	return 0;
}

static __noinline int write_python_text(struct python_text *text, __u32 most_bytes)
{
	struct pt_python_text_record *record = reserve_python(
	    text->thread, PT_PYTHON_TEXT, PT_PYTHON_TEXT_HEAD_BYTES + PT_PYTHON_TEXT_BYTES);

	if (!record)
		return 0;
	fill_python_text(record, text, PT_PYTHON_TEXT_BYTES);
	submit(record);
	if (text->offset < text->total)
		bpf_loop(most_bytes / PT_PYTHON_MORE_TEXT_BYTES, write_more_python_text, text, 0);
	return !text->failed;
}

/* Finds the text of a str. This function and find_python_bytes() are inline, because a program may
 * have eight nested calls, and that many are in use. */
static __always_inline void find_python_text(struct pt_python_layout *layout, __u64 object,
					     struct python_text *text)
{
	__u64 length = 0;
	__u32 state = text_state_of(layout, object);

	if (!bpf_probe_read_user(&length, sizeof(length), (void *)(object + layout->text_length)) &&
	    state & PYTHON_COMPACT && length < 0x10000000) {
		text->width = state >> 2 & 7;
		text->total = length * text->width;
		text->address = object + (state >> 6 & 1 ? layout->text_ascii : layout->text_wide);
	} else {
		count_drop(PT_DROP_READ_FAILED);
	}
}

/* Notes the last characters of the file's name, and whether it is the name of a file at all. */
static __noinline int fill_file_text(struct pt_python_layout *layout, struct python_code *code)
{
	struct python_text text = {};
	__u8 first = 0;

	find_python_text(layout, code->names.file, &text);
	code->file_end = text.address;
	if (text.total > sizeof(code->file_text))
		code->file_end += text.total - sizeof(code->file_text);
	code->file_text = text_at(code->file_end);
	bpf_probe_read_user(&first, sizeof(first), (void *)text.address);
	if (first == '<')
		code->kind |= PYTHON_CODE_MADE;
	return 0;
}

/* Finds the contents of `object`, the bytes object with the table of lines. */
static __always_inline void find_python_bytes(struct pt_python_layout *layout, __u64 object,
					      struct python_text *text)
{
	__u64 length = 0;

	if (!bpf_probe_read_user(&length, sizeof(length),
				 (void *)(object + layout->bytes_length)) &&
	    length < 0x10000000) {
		text->width = 1;
		text->total = length;
		text->address = object + layout->bytes_data;
	} else {
		count_drop(PT_DROP_READ_FAILED);
	}
}

/* Finds a part (enum pt_python_part) of the code object at `address`. Returns whether it has
 * that part. */
static __noinline int find_code_text(struct pt_python_layout *layout, __u64 address, __u32 part,
				     struct python_text *text)
{
	__u64 object = 0;
	__u32 offset = part == PT_PYTHON_FILE	 ? layout->code_file
		       : part == PT_PYTHON_NAME	 ? layout->code_name
		       : part == PT_PYTHON_LINES ? layout->code_lines
						 : layout->code_qualified_name;

	if (!offset)
		return 0;
	text->part = part;
	text->offset = 0;
	text->total = 0;
	text->width = 0;
	bpf_probe_read_user(&object, sizeof(object), (void *)(address + offset));
	if (part == PT_PYTHON_LINES)
		find_python_bytes(layout, object, text);
	else
		find_python_text(layout, object, text);
	return 1;
}

/* These words spell "_wrapped_call_impl" and "_call_impl". */
#define TEXT_WRAPPED_1 0x646570706172775fULL
#define TEXT_WRAPPED_2 0x6d695f6c6c61635fULL
#define TEXT_WRAPPED_3 0x6c70ULL
#define TEXT_CALL_1 0x6d695f6c6c61635fULL
#define TEXT_CALL_2 0x6c70ULL

/* Returns the kind of a code object (enum python_code_kind). nn.Module.__call__ is
 * _wrapped_call_impl; before torch 2.1 it was _call_impl, which _wrapped_call_impl calls since
 * then. `is_called`: the caller's frame is the call of a module already. */
static __noinline __u32 kind_of_code(struct pt_python_layout *layout, __u64 address, __u64 frame,
				     __u64 name, bool is_called)
{
	__u64 text[4] = {};
	__u64 type = 0;
	__u64 object;

	if (bpf_probe_read_user_str(text, sizeof(text), (void *)(name + layout->text_ascii)) < 0)
		return 0;
	if (!(text[0] == TEXT_WRAPPED_1 && text[1] == TEXT_WRAPPED_2 &&
	      text[2] == TEXT_WRAPPED_3) &&
	    !(text[0] == TEXT_CALL_1 && text[1] == TEXT_CALL_2 && !is_called))
		return 0;
	/* The first local variable has its value from the begin on. */
	if (bpf_probe_read_user(&type, sizeof(__u32), (void *)(address + layout->code_arguments)) ||
	    !(__u32)type)
		return 0;
	object = read_python_module(layout, frame, false);
	if (!object || bpf_probe_read_user(&type, sizeof(type), type_place(layout, object)) ||
	    bpf_probe_read_user(&type, sizeof(type), type_name_place(layout, type)) ||
	    bpf_probe_read_user_str(text, sizeof(text[0]), (void *)type) < 0)
		return 0;
	return PYTHON_CODE_CALL |
	       ((text[0] & 0xffffffffff) == 0x6c6c6563 /* cell */ ? PYTHON_CODE_CELL : 0);
}

/* Reports a code object that was not seen before; the frame at `frame` runs it. Returns whether the
 * code object has been reported and is kept. */
__noinline int tell_python_code(__u64 address, __u64 frame, __u32 is_called)
{
	struct python_object_key key = {.address = address, .tgid = current_tgid()};
	struct python_thread *thread = this_python_thread();
	struct pt_python_code_record *record;
	struct pt_python_layout *layout;
	struct python_code *code;
	struct python_text text = {.thread = thread};

	if (!config_with_stack)
		return 0;
	/* The low half of the key's tgid is the tgid, and comes first in memory. */
	layout = bpf_map_lookup_elem(&python_layouts, &key.tgid);
	if (!thread || !layout)
		return 0;
	code = &thread->new_code;
	if (!IS_CODE(address) || !read_python_code(layout, address, &code->names))
		return 0;
	code->id = NEXT_PYTHON_CODE();
	code->kind = kind_of_code(layout, address, frame, code->names.name, is_called);
	fill_file_text(layout, code);
	code->made = code->kind & PYTHON_CODE_MADE ? made_text(layout, address) : 0;
	record = reserve_python(thread, PT_PYTHON_CODE, sizeof(*record));
	if (!record)
		return 0;
	record->head.sp = COPY_OF_CODE(layout, frame);
	record->address = address;
	record->id = code->id;
	if (bpf_probe_read_user(&record->first_line, sizeof(record->first_line),
				(void *)(address + layout->code_first_line)))
		record->first_line = 0;
	submit(record);
	text.id = code->id;
#pragma clang loop unroll(disable)
	for (__u32 part = PT_PYTHON_FILE; part <= PT_PYTHON_LINES; ++part) {
		if (find_code_text(layout, address, part, &text) &&
		    !write_python_text(&text, part == PT_PYTHON_LINES ? PT_PYTHON_LINES_BYTES
								      : PT_PYTHON_NAME_BYTES))
			return 0;
	}
	return !KEEP_PYTHON_CODE(&key, code);
}

/* Reports a module. Returns whether it is known to the reader now. */
__noinline int tell_python_module(__u64 object)
{
	struct python_object_key key = {.address = object, .tgid = current_tgid()};
	struct python_text text = {};
	struct pt_python_layout *layout;
	struct pt_pair_record *record;
	__u64 type = 0;
	__u64 *known;
	long length;

	if (!config_with_stack)
		return 0;
	layout = bpf_map_lookup_elem(&python_layouts, &key.tgid);
	if (!layout)
		return 0;
	text.thread = this_python_thread();
	text.part = PT_PYTHON_CLASS_NAME;
	text.width = 1;
	bpf_probe_read_user(&type, sizeof(type), type_place(layout, object));
	known = PYTHON_MODULE(&key);
	if (known && *known == type)
		return 1;
	if (!text.thread)
		return 0;
	record = reserve_python(text.thread, PT_PYTHON_MODULE, sizeof(*record));
	if (!record)
		return 0;
	record->handle = object;
	record->object = type;
	/* The loader looks at once for the module's place among the others, while the module
	 * lives. */
	submit_and_wake(record);
	if (!bpf_probe_read_user(&text.address, sizeof(text.address),
				 type_name_place(layout, type))) {
		length = bpf_probe_read_user_str(text.thread->buffer, PT_PYTHON_FRAME_BYTES,
						 (void *)text.address);
		if (length > 0)
			text.total = length - 1;
	}
	if (!write_python_text(&text, 0))
		return 0;
	return !KEEP_PYTHON_MODULE(&key, &type);
}

#endif
