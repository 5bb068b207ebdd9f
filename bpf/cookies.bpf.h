/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a probe means. A uprobe.multi link for one process passes the hits of that process's first
 * thread alone in Linux 6.6 to 6.9 (mended in 6.10, and in updates of 6.6 and 6.9). There links are
 * for all processes, their cookies are indexes of this table, and it says whose hits are meant.
 */
#ifndef PROFTRACE_BPF_COOKIES_H
#define PROFTRACE_BPF_COOKIES_H

#include "bpf/pid_namespace.bpf.h"
#include "bpf/abi/probe_cookie.h"

const volatile bool config_cookies_in_table = false;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct pt_probe_cookie);
} probe_cookies SEC(".maps");

/* 0 = the hit is another process's. */
static __always_inline __u64 cookie_of(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct pt_probe_cookie *told;
	__u32 index = cookie;

	if (!config_cookies_in_table)
		return cookie;
	told = bpf_map_lookup_elem(&probe_cookies, &index);
	if (!told || (told->tgid && told->tgid != current_tgid()))
		return 0;
	return told->cookie;
}

#endif
