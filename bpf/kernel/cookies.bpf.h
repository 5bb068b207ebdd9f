/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds the meaning of a probe. It is in the probe's cookie, if the kernel can give each link its
 * own cookies. In Linux 6.6 to 6.9 a uprobe.multi link for one process passes only the hits of that
 * process's first thread (fixed in 6.10, and in updates of 6.6 and 6.9). On such kernels links are
 * for all processes, and cookies are indexes of a table that tells whose hits are recorded. Before
 * 6.6, many probes are one event of the kernel's tracing, and are identified by their addresses.
 */
#ifndef PROFTRACE_BPF_COOKIES_H
#define PROFTRACE_BPF_COOKIES_H

#include "bpf/shared/pid_namespace.bpf.h"
#include "bpf/shared/registers.bpf.h"
#include "bpf/abi/probe_cookie.h"

const volatile bool config_cookies_in_table = false;
const volatile bool config_cookies_by_address = false;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct pt_probe_cookie);
} probe_cookies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct address_key);
	__type(value, __u64);
} probe_addresses SEC(".maps");

static __always_inline __u64 cookie_by_address(__u64 address)
{
	struct address_key key = {.address = address, .tgid = current_tgid()};
	__u64 *cookie = bpf_map_lookup_elem(&probe_addresses, &key);

	return cookie ? *cookie : 0;
}

static __always_inline __u64 cookie_in_table(__u32 index)
{
	struct pt_probe_cookie *told = bpf_map_lookup_elem(&probe_cookies, &index);

	return told && (!told->tgid || told->tgid == current_tgid()) ? told->cookie : 0;
}

/* Returns the cookie of the hit; 0 = the hit is that of a process that is not recorded. */
static __always_inline __u64 cookie_of(struct pt_regs *ctx)
{
	if (config_cookies_by_address)
		return cookie_by_address(PT_REGS_IP(ctx));
	if (config_cookies_in_table)
		return cookie_in_table(bpf_get_attach_cookie(ctx));
	return bpf_get_attach_cookie(ctx);
}

#endif
