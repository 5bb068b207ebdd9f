/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The meaning of a probe whose own cookie is only an index into a table. bpf/kernel/cookies.bpf.h
 * tells when that is so. */
#ifndef PROFTRACE_BPF_ABI_PROBE_COOKIE_H
#define PROFTRACE_BPF_ABI_PROBE_COOKIE_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

struct pt_probe_cookie {
	pt_u64 cookie; /* as described in bpf/abi/records.h */
	/* The process whose hits are recorded, in the tracer's PID namespace; 0 = all. */
	pt_u32 tgid;
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_probe_cookie) == 16, "pt_probe_cookie");

#ifdef __cplusplus
}
#endif

#endif
