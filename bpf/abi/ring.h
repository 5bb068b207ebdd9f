/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The ring that BPF programs write and the loader reads: an array of chunks, which is mapped into
 * the loader. Before each record is a word that tells the record's length and, written last, that
 * the record is whole. The reader sets what it has read to zero again. A record may reach beyond
 * its chunk's end into the chunk's slack, so a record is never in two pieces.
 */
#ifndef PROFTRACE_ABI_RING_H
#define PROFTRACE_ABI_RING_H

#define PT_RING_CHUNK_BYTES (64u << 10)
#define PT_RING_SLACK_BYTES 4096u /* behind each chunk: more than the longest record */
#define PT_RING_HEAD_BYTES 8u
#define PT_RING_MOST_RECORD_BYTES 2040u /* pt_record.words has 8 bits */

/* The word before a record: its lower half is PT_RING_WHOLE once the record is written, its
 * upper half the record's bytes. */
#define PT_RING_WHOLE 1u

#endif
