/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records rows outside the dispatcher: functions with an at::RecordFunction of their own, frames of
 * TorchScript's interpreter, and operators that are called with the dispatcher's code inlined. All
 * of these are rare, so reading the target's memory for them is cheap enough.
 */
#ifndef PROFTRACE_BPF_GUARDS_H
#define PROFTRACE_BPF_GUARDS_H

#include "bpf/abi/python_records.h"
#include "bpf/shared/common.bpf.h"
#include "bpf/shared/autograd.bpf.h"
#include "bpf/shared/python_types.bpf.h"
#include "bpf/shared/registers.bpf.h"
#include "bpf/shared/text.bpf.h"

/* The places of values, filled by the loader. The key is in the cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65535);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct pt_place);
} value_places SEC(".maps");

/* Code in a job finds places elsewhere (bpf/job/job_helpers.h). */
#ifndef VALUE_PLACE
#define VALUE_PLACE(key) bpf_map_lookup_elem(&value_places, key)
#endif

static __always_inline __u64 cookie_handle(struct pt_regs *ctx, __u64 cookie)
{
	return hardware_register(ctx, (cookie >> 24) & 0xf) + (__s64)(__s16)(cookie >> 32);
}

static __always_inline __u64 index_at(struct pt_regs *ctx, const struct pt_place *place, int step)
{
	if (!place->index || place->index_step != step)
		return 0;
	return hardware_register(ctx, place->index - 1) << (place->index_shift & 63);
}

static __always_inline __u64 value_at(struct pt_regs *ctx, const struct pt_place *place)
{
	__u64 value =
	    place->base == PT_PLACE_ADDRESS ? place->address : hardware_register(ctx, place->base);

	value += (__s64)place->offsets[0] + index_at(ctx, place, 0);
#pragma unroll
	for (int i = 1; i < PT_PLACE_OFFSETS; ++i) {
		if (i < place->count)
			value =
			    read_word(value) + (__s64)place->offsets[i] + index_at(ctx, place, i);
	}
	return value;
}

/* The characters of a Python str. */
struct python_characters {
	__u64 address; /* 0 = they could not be found */
	__u64 bytes;
	__u32 width; /* bytes per character; 0 = UTF-8 with a NUL at its end */
};

#define PYTHON_STR_IS_COMPACT 0x20
#define PYTHON_STR_IS_ASCII 0x40

/* Finds the characters of a str: ASCII, or else UTF-8 that Python has made of it, or else the str's
 * own wide characters. `ascii_bytes`: sizeof(PyASCIIObject). */
static __always_inline void find_characters(__u64 object, __u32 ascii_bytes,
					    struct python_characters *found)
{
	/* The str's own characters, or the pointer to them, follow the UTF-8's length and address;
	 * up to 3.11 a third field lies in between. */
	__u64 own = object + ascii_bytes + (ascii_bytes > 40 ? 24 : 16);
	__u32 state = 0;
	__u32 width;

	found->address = 0;
	found->width = 0;
	/* The fields of PyASCIIObject.state are interned (2 bits, 8 from 3.14 on), kind (3),
	 * compact (1) and ascii (1). The ASCII bit is at the same place in all versions. */
	if (bpf_probe_read_user(&state, sizeof(state), (void *)(object + 32)))
		return;
	found->bytes = read_word(object + PYTHON_SIZE);
	width = state >> 2 & 7;
	if (state & PYTHON_STR_IS_ASCII) {
		/* A str of a derived class has a pointer to its characters in their place. */
		found->address =
		    state & PYTHON_STR_IS_COMPACT ? object + ascii_bytes : read_word(own);
		return;
	}
	found->address = read_word(object + ascii_bytes + 8);
	if (found->address) {
		found->bytes = read_word(object + ascii_bytes);
	} else if (width == 1 || width == 2 || width == 4) {
		found->address = state & PYTHON_STR_IS_COMPACT ? own : read_word(own);
		found->bytes *= width;
		found->width = width;
	}
}

/* Returns the `length` with which a name of wide characters is recorded: its bytes, and its width
 * (PT_TEXT_WIDTH). */
static __always_inline __u32 wide_length(const struct python_characters *text)
{
	/* A length above PT_NAME_BYTES says that the name is cut. */
	__u64 bytes = text->bytes > PT_NAME_BYTES ? PT_NAME_BYTES + 1 : text->bytes;

	return (__u32)bytes | text->width << PT_TEXT_WIDTH_SHIFT;
}

/* Reads the name at `place` into `name`. Returns the length that is recorded, and sets `characters`
 * to the name's address; returns PT_TEXT_READ_FAILED if the name could not be read. */
static __always_inline __u32 read_name(struct pt_regs *ctx, const struct pt_place *place,
				       struct long_name *name, __u64 *characters)
{
	__u64 address = value_at(ctx, place);
	struct python_characters text = {};
	__u32 key = place->otherwise;
	long bytes;

	if (!address && key) {
		place = VALUE_PLACE(&key);
		if (!place)
			return PT_TEXT_READ_FAILED;
		address = value_at(ctx, place);
	}
	if (place->form == PT_PLACE_PYTHON_STRING && address) {
		find_characters(address, place->text_offset, &text);
		address = text.address;
	} else if (place->form == PT_PLACE_PYTHON_TYPE && address) {
		address = read_word(address + PYTHON_TYPE_NAME);
	}
	if (text.width && address) {
		__u32 length = wide_length(&text);

		*characters = address;
		return read_name_bytes(name, address, PT_TEXT_LENGTH(length)) ? PT_TEXT_READ_FAILED
									      : length;
	}
	if (!address)
		return PT_TEXT_READ_FAILED;
	bytes = read_long_name(name, address);
	if (bytes <= 0)
		return PT_TEXT_READ_FAILED;
	*characters = address;
	return bytes - 1;
}

static __always_inline void fill_guard(struct pt_guard_record *record, struct pt_regs *ctx,
				       __u64 cookie, __u8 kind, __u32 bytes)
{
	__u64 handle = cookie_handle(ctx, cookie);

	fill_head(&record->head, PT_REGS_SP(ctx), cookie, kind, bytes);
	record->handle = handle;
	record->object = kind == PT_FRAME_BEGIN ? read_word(handle) : 0;
	record->scope = (__u32)PT_REGS_PARM2(ctx);
	record->length = 0;
}

static __noinline int on_guard_begin(struct pt_regs *ctx, __u64 cookie)
{
	__u8 role = cookie >> 16;
	__u8 kind = role == PT_ROLE_FRAME_BEGIN	 ? PT_FRAME_BEGIN
		    : role == PT_ROLE_WORK_TITLE ? PT_WORK_TITLE
						 : PT_GUARD_BEGIN;
	__u32 key = cookie >> 48;
	struct pt_place *place = key ? VALUE_PLACE(&key) : NULL;
	struct pt_guard_record *record;
	struct long_name *name;
	__u64 characters = 0;
	__u32 length;

	if (!place || place->form == PT_PLACE_NOTHING) {
		record = reserve(PT_GUARD_RECORD_SHORT_BYTES);
		if (!record)
			return 0;
		fill_guard(record, ctx, cookie, kind, PT_GUARD_RECORD_SHORT_BYTES);
		submit(record);
		return 0;
	}
	name = take_name();
	length = name ? read_name(ctx, place, name, &characters) : PT_TEXT_READ_FAILED;
	record = reserve(sizeof(*record));
	if (!record) {
		give_name_back(name);
		return 0;
	}
	fill_guard(record, ctx, cookie, kind, sizeof(*record));
	record->length = length;
	if (name && length != PT_TEXT_READ_FAILED)
		put_name(record->text, name, characters, PT_TEXT_LENGTH(length));
	submit(record);
	give_name_back(name);
	if (length == PT_TEXT_READ_FAILED) {
		count_drop(PT_DROP_READ_FAILED);
		return 0;
	}
	length = PT_TEXT_LENGTH(length);
	write_more_text(PT_REGS_SP(ctx), characters, length, PT_TEXT_BYTES);
	write_more_text(PT_REGS_SP(ctx), characters, length, PT_TEXT_BYTES + PT_TEXT_MORE_BYTES);
	return 0;
}

static __always_inline int write_guard_handle(struct pt_regs *ctx, __u64 cookie, __u8 kind,
					      __u16 site)
{
	write_pointer(PT_REGS_SP(ctx), site, kind, cookie_handle(ctx, cookie));
	return 0;
}

static __always_inline int on_frame_end(struct pt_regs *ctx, __u64 cookie)
{
	struct pt_pair_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, PT_REGS_SP(ctx), 0, PT_FRAME_END, sizeof(*record));
	record->handle = cookie_handle(ctx, cookie);
	record->object = read_word(record->handle);
	submit(record);
	return 0;
}

static __always_inline int on_work_begin(struct pt_regs *ctx, __u64 cookie)
{
	struct pt_pointer_record *record = reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_WORK_BEGIN, sizeof(*record));
	record->value = read_word(cookie_handle(ctx, cookie));
	submit(record);
	return 0;
}

static __always_inline int on_named_begin(struct pt_regs *ctx, __u64 cookie,
					  const struct pt_place *place)
{
	__u64 symbol = place && place->form == PT_PLACE_SYMBOL ? (__u32)value_at(ctx, place) : 0;

	write_pointer(PT_REGS_SP(ctx), cookie, PT_NAMED_BEGIN,
		      symbol | (__u64)PT_REGS_PARM2(ctx) << 32);
	return 0;
}

static __always_inline int on_placed_begin(struct pt_regs *ctx, __u64 cookie)
{
	__u32 key = cookie >> 48;
	struct pt_place *place = key ? VALUE_PLACE(&key) : NULL;
	struct pt_pointer_record *record;

	if (!place || place->form != PT_PLACE_WORD)
		return on_named_begin(ctx, cookie, place);
	record = reserve(sizeof(*record));
	if (!record)
		return 0;
	fill_head(&record->head, PT_REGS_SP(ctx), cookie, PT_BOXED_BEGIN, sizeof(*record));
	record->value = value_at(ctx, place);
	submit(record);
	write_placed_sequence(ctx, cookie);
	return 0;
}

/* Returns the number of 4 bytes at `address`; -1: it could not be read. */
static __noinline __s64 read_count(__u64 address)
{
	__u32 number = 0;

	if (bpf_probe_read_user(&number, sizeof(number), (void *)address)) {
		count_drop(PT_DROP_READ_FAILED);
		return -1;
	}
	return number;
}

static __always_inline int on_group_call(struct pt_regs *ctx, __u64 cookie)
{
	bool has_number = (__u16)(cookie >> 32) != 0;
	__s64 count = has_number ? read_count(cookie_handle(ctx, cookie)) : -1;
	struct pt_pair_record *record = has_number && count < 0 ? NULL : reserve(sizeof(*record));

	if (!record)
		return 0;
	fill_head(&record->head, PT_REGS_SP(ctx), 0, PT_GROUP_CALL, sizeof(*record));
	record->handle = hardware_register(ctx, (cookie >> 24) & 0xf);
	record->object = count + 1;
	submit(record);
	return 0;
}

/* Handles PT_ROLE_UNWOUND. After the exception, the frame whose stack pointer is read here
 * continues, so all frames below it have ended. */
static __always_inline int on_unwound(struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = read_word(cookie_handle(ctx, cookie));
	struct pt_record *record = sp ? reserve(sizeof(*record)) : NULL;

	if (!record)
		return 0;
	fill_head(record, sp, 0, PT_CATCH, sizeof(*record));
	submit(record);
	return 0;
}

static __noinline int on_guard(struct pt_regs *ctx, __u64 cookie)
{
	switch (cookie >> 16 & 0xff) {
	case PT_ROLE_GUARD_BEGIN:
		on_guard_begin(ctx, cookie);
		return (cookie >> 24) & PT_GUARD_HAS_SEQUENCE
			   ? write_sequence(PT_REGS_SP(ctx), sequence_number(1))
			   : 0;
	case PT_ROLE_FRAME_BEGIN:
	case PT_ROLE_WORK_TITLE:
		return on_guard_begin(ctx, cookie);
	case PT_ROLE_GUARD_END:
		return write_guard_handle(ctx, cookie, PT_GUARD_END, 0);
	case PT_ROLE_GUARD_UNWOUND:
		return write_guard_handle(ctx, cookie, PT_GUARD_END, 1);
	case PT_ROLE_ANNOTATION_GUARD:
		return write_guard_handle(ctx, cookie, PT_ANNOTATION_GUARD, 0);
	case PT_ROLE_FRAME_END:
		return on_frame_end(ctx, cookie);
	case PT_ROLE_WORK_BEGIN:
		return on_work_begin(ctx, cookie);
	case PT_ROLE_WORK_END:
		write_pointer(PT_REGS_SP(ctx), 0, PT_GUARD_END,
			      read_word(cookie_handle(ctx, cookie)));
		return 0;
	case PT_ROLE_PLACED_BEGIN:
		return on_placed_begin(ctx, cookie);
	case PT_ROLE_UNWOUND:
		return on_unwound(ctx, cookie);
	case PT_ROLE_GROUP_CALL:
		return on_group_call(ctx, cookie);
	}
	return 0;
}

#endif
