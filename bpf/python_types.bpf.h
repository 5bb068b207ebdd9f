/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Offsets that CPython 3.9 to 3.14 have in common. */
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
#define PYTHON_HEAP_TYPE (1 << 9) /* a class that is made by running code */
#define PYTHON_DIGIT_BITS 30

#endif
