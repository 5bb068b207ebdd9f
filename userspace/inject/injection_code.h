// The code and the data that injection puts into a target for a moment. This header gives offsets
// in the data page, sizes and states to C++ and to the assembler.
//
// The region is one private mapping: data page | code page | stack. The data page is
// MADV_WIPEONFORK, so that a child that is forked meanwhile reads INJECT_IDLE there, and the
// child's threads do no work.
#pragma once

// The values of the word at INJECT_STATE.
#define INJECT_IDLE 0    /* threads pass by */
#define INJECT_ARMED 1   /* the first thread that comes by does the work */
#define INJECT_WORKING 2 /* a thread is doing the work */
#define INJECT_DONE 3    /* INJECT_RESULT is what the library's function returned */
#define INJECT_FAILED 4  /* the loader refused: INJECT_ERROR says why */

// Offsets in the data page, in bytes.
#define INJECT_MAGIC 0
#define INJECT_STATE 8   /* 32 bits */
#define INJECT_RESULT 12 /* 32 bits */
#define INJECT_DLOPEN 16 /* addresses in the target, 64 bits each */
#define INJECT_DLSYM 24
#define INJECT_DLERROR 32
#define INJECT_ERRNO_LOCATION 40
#define INJECT_FUNCTION 48  /* its address if the library is loaded; 0: load the library */
#define INJECT_STACK_TOP 56 /* multiple of 64 */
#define INJECT_XSAVE_BYTES 64
#define INJECT_ALL_SIGNALS 72 /* a kernel sigset */
#define INJECT_SAVED_SIGNALS 80
#define INJECT_LIBRARY_FD 88 /* 32 bits; closed when the library is loaded; -1: no memfd */
#define INJECT_CALLER_STACK 96
#define INJECT_OWNER 108         /* 32 bits: PID of the proftrace that put it here */
#define INJECT_OWNER_START 112   /* its start in clock ticks: PIDs are used again */
#define INJECT_LIBRARY_PATH 128  /* NUL terminated */
#define INJECT_FUNCTION_NAME 256 /* NUL terminated */
#define INJECT_ERROR 512         /* NUL terminated */
#define INJECT_ERROR_BYTES 256
#define INJECT_SITES 1024 /* addresses of the patched places, 64 bits each; 0 ends them */
#define INJECT_MOST_SITES 16
#define INJECT_PAGE_BYTES 4096
#define INJECT_STACK_BYTES (512 * 1024)

#define INJECT_MAGIC_VALUE 0x314a4e4954464f52

#ifndef __ASSEMBLER__

#include <cstdint>

namespace proftrace {

// The code that every patched place leads to. It is position independent, and finds its data page
// right before its own first page. The stub of a place (patch_site.h) calls it. It keeps every
// register, the flags, errno, the signal mask and the vector state.
extern "C" const uint8_t proftrace_injection_code[];
extern "C" const uint8_t proftrace_injection_code_end[];

}  // namespace proftrace

#endif
