/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Offsets that CPython 3.9 to 3.15 with a global interpreter lock have in common. In a
 * free-threaded build all that lies behind an object's head lies pt_python_layout.object_head
 * further. */
#ifndef PROFTRACE_BPF_PYTHON_TYPES_H
#define PROFTRACE_BPF_PYTHON_TYPES_H

/* PyObject, PyVarObject, PyTypeObject. */
#define PYTHON_TYPE 8
#define PYTHON_SIZE 16
#define PYTHON_VALUE 16 /* of a float, a complex */
#define PYTHON_LIST_ITEMS 24
#define PYTHON_DIGITS 24
#define PYTHON_TYPE_NAME 24
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_BASE 256
#define PYTHON_HEAP_TYPE (1 << 9)   /* a class that is made by running code */
#define PYTHON_BYTES_TYPE (1 << 27) /* bytes, and classes derived from it */
#define PYTHON_TEXT_TYPE (1 << 28)  /* str, and classes derived from it */
#define PYTHON_BYTES_TEXT 32	    /* of bytes; their number is at PYTHON_SIZE */
#define PYTHON_DIGIT_BITS 30

/* PyDictObject and its table: before 3.11 the number of slots and then, behind more fields, an
 * index of as many bytes, shorts, ... as that number needs; later bytes: the logarithms of both,
 * and the kind. Entries lie behind the index; but for tables of texts alone each is a hash, a key,
 * a value. Dicts of objects share tables of keys, and have their values elsewhere. */
#define PYTHON_DICT_TABLE 32
#define PYTHON_DICT_VALUES 40
#define PYTHON_TABLE_SIZE 8
#define PYTHON_TABLE_INDEX_SHIFT 8 /* bits from PYTHON_TABLE_SIZE on */
#define PYTHON_TABLE_KIND_SHIFT 16
#define PYTHON_TABLE_INDEX 32
#define PYTHON_TABLE_ENTRIES 24 /* how many there are, the empty ones too */
#define PYTHON_OLD_TABLE_INDEX 40
#define PYTHON_OLD_TABLE_ENTRIES 32
#define PYTHON_ENTRY_KEY 8

#endif
