/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* c10::IValue, and the strings in it. */
#ifndef PROFTRACE_BPF_IVALUE_H
#define PROFTRACE_BPF_IVALUE_H

#include "bpf/shared/common.bpf.h"

/* A c10::IValue has 16 bytes: payload, tag. The Stack is a std::vector of IValues: begin, end,
 * capacity. */
#define IVALUE_BYTES 16

/* Numbers of c10::IValue's tags that have not changed since 1.13. */
#define IVALUE_NONE 0
#define IVALUE_TENSOR 1
#define IVALUE_DOUBLE 3
#define IVALUE_COMPLEX 4
#define IVALUE_INT 5
/* The tag of GenericList minus the tag of Bool. */
#define IVALUE_LIST_AFTER_BOOL 4

/*
 * Reads the text of an IValue's string (c10::ivalue::ConstantString: an intrusive_ptr_target, then
 * a std::string). Returns the whole length, or PT_TEXT_READ_FAILED. The target's header is vtable +
 * two 4-byte counts, or (2.1 and before) vtable + two 8-byte counts, so the word at +16 is the
 * string's first word, or a small count. A std::string is {characters, length, ...}; in the
 * pre-C++11 ABI it is one pointer, and the length lies 24 bytes before the characters.
 */
static __always_inline __u32 read_string_ivalue(__u64 object, bool old_abi, char *text,
						__u64 *characters)
{
	__u64 words[2]; /* characters, length */
	__u32 bytes;

	if (bpf_probe_read_user(words, sizeof(words), (void *)(object + 16)))
		return PT_TEXT_READ_FAILED;
	if (words[0] < 0x10000 && bpf_probe_read_user(words, sizeof(words), (void *)(object + 24)))
		return PT_TEXT_READ_FAILED;
	if (old_abi && bpf_probe_read_user(&words[1], sizeof(words[1]), (void *)(words[0] - 24)))
		return PT_TEXT_READ_FAILED;
	if (words[1] > 0x10000000)
		return PT_TEXT_READ_FAILED;
	bytes = words[1];
	barrier_var(bytes);
	if (bytes > PT_TEXT_BYTES)
		bytes = PT_TEXT_BYTES;
	if (bytes && bpf_probe_read_user(text, bytes, (void *)words[0]))
		return PT_TEXT_READ_FAILED;
	*characters = words[0];
	return words[1];
}

#endif
