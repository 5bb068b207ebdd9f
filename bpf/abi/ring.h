/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ring that BPF programs write and the loader reads: an array of chunks, mapped by both. A
 * record lies behind a word that says how long it is and, last of all, that it is whole; what was
 * read is zero again. A record may reach over its chunk's end into what the chunk has behind it:
 * it never lies in two pieces.
 */
#ifndef PROFTRACE_ABI_RING_H
#define PROFTRACE_ABI_RING_H

#define PT_RING_CHUNK_BYTES (64u << 10)
#define PT_RING_SLACK_BYTES 4096u /* behind each chunk: more than the longest record */
#define PT_RING_HEAD_BYTES 8u
#define PT_RING_MOST_RECORD_BYTES 2040u /* pt_record.words has 8 bits */

/* The word before a record: the lower half is PT_RING_WHOLE once it is written, the upper one its
 * bytes. */
#define PT_RING_WHOLE 1u

#endif
