/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a probe means where its own cookie is only a number: bpf/kernel/cookies.bpf.h says when. */
#ifndef PROFTRACE_BPF_ABI_PROBE_COOKIE_H
#define PROFTRACE_BPF_ABI_PROBE_COOKIE_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

struct pt_probe_cookie {
	pt_u64 cookie; /* as bpf/abi/records.h has it */
	pt_u32 tgid;   /* whose hits are recorded, in the tracer's PID namespace; 0 = all */
	pt_u32 reserved;
};
PT_STATIC_ASSERT(sizeof(struct pt_probe_cookie) == 16, "pt_probe_cookie");

#ifdef __cplusplus
}
#endif

#endif
