/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Offsets that are the same in CPython 3.9 to 3.15 with a global interpreter lock. In a
 * free-threaded build, everything behind an object's head lies pt_python_layout.object_head
 * bytes further. */
#ifndef PROFTRACE_BPF_PYTHON_TYPES_H
#define PROFTRACE_BPF_PYTHON_TYPES_H

/* PyObject, PyVarObject, PyTypeObject. */
#define PYTHON_TYPE 8
#define PYTHON_SIZE 16
#define PYTHON_VALUE 16 /* of a float or a complex */
#define PYTHON_LIST_ITEMS 24
#define PYTHON_DIGITS 24
#define PYTHON_TYPE_NAME 24
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_BASE 256
#define PYTHON_HEAP_TYPE (1 << 9)   /* a class that was made by running code */
#define PYTHON_BYTES_TYPE (1 << 27) /* bytes and derived classes */
#define PYTHON_TEXT_TYPE (1 << 28)  /* str and derived classes */
#define PYTHON_BYTES_TEXT 32	    /* of a bytes; their number is at PYTHON_SIZE */
#define PYTHON_DIGIT_BITS 30

/* PyDictObject and its table. Before 3.11 the table has the number of slots and, behind more
 * fields, an index whose entries have as many bytes as that number needs. Later the table has, as
 * bytes, the logarithms of that number and of the index's size, and its kind. Entries lie behind
 * the index; an entry is a hash, a key and a value, but without the hash in tables that have only
 * texts as keys. The dicts of objects share tables of keys, and have their values elsewhere. */
#define PYTHON_DICT_TABLE 32
#define PYTHON_DICT_VALUES 40
#define PYTHON_TABLE_SIZE 8
#define PYTHON_TABLE_INDEX_SHIFT 8 /* bits from PYTHON_TABLE_SIZE on */
#define PYTHON_TABLE_KIND_SHIFT 16
#define PYTHON_TABLE_INDEX 32
#define PYTHON_TABLE_ENTRIES 24 /* the number of entries, empty ones included */
#define PYTHON_OLD_TABLE_INDEX 40
#define PYTHON_OLD_TABLE_ENTRIES 32
#define PYTHON_ENTRY_KEY 8

#endif
