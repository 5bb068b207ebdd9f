/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counts the calls of operators that are demoted: only counted, to keep a budget (--max-overhead).
 * Also hands probes over from one link to another link that has fewer of them.
 */
#ifndef PROFTRACE_BPF_DEMOTIONS_H
#define PROFTRACE_BPF_DEMOTIONS_H

#include "bpf/shared/common.bpf.h"
#include "bpf/abi/demotions.h"

const volatile bool config_has_budget = false;

/* Not 0 for the sites that are demoted in any process. */
__u8 demoted_sites[65536];

/* The enum pt_demotion of each demotion, by its number. */
__u8 demotion_states[PT_MOST_DEMOTIONS];

/* The demotion's number, by process and site. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct pt_demotion_key);
	__type(value, __u32);
} demotions SEC(".maps");

/* How many calls were only counted, by the demotion's number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, __u64);
} demoted_calls SEC(".maps");

/* The number of the handover while two links have the same probes, else 0. */
__u32 handover = 0;

/* The last hit of a thread during a handover, and which link's program saw the hit first. */
struct handed_hit {
	__u64 ip;
	__u64 sp;
	__u32 generation; /* of the link: PT_COOKIE_GENERATION, 0 or 1 */
	__u32 handover;	  /* 0 = the other link's program has seen the hit as well */
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct handed_hit);
} handed_hits SEC(".maps");

static __always_inline bool begins_demotable(__u8 role)
{
	return role == PT_ROLE_OPERATOR_BEGIN || role == PT_ROLE_BEGIN ||
	       role == PT_ROLE_OPERATOR_CALL || role == PT_ROLE_INPUTS_BEGIN;
}

/* Whether nothing is recorded for the hit. If so, counts a begin. */
static __always_inline bool is_demoted(__u64 cookie, __u8 role)
{
	struct pt_demotion_key key = {.site = (__u16)cookie};
	__u32 *number;
	__u64 *calls;

	if (likely(!demoted_sites[key.site & 0xffff]))
		return false;
	key.tgid = current_tgid();
	number = bpf_map_lookup_elem(&demotions, &key);
	if (!number)
		return false;
	if (role == PT_ROLE_END)
		return demotion_states[*number & (PT_MOST_DEMOTIONS - 1)] != PT_DEMOTION_BEGINS;
	calls = begins_demotable(role) ? bpf_map_lookup_elem(&demoted_calls, number) : NULL;
	if (calls)
		__sync_fetch_and_add(calls, 1);
	return true;
}

/* Whether the other link's program has recorded this hit. During a handover, the programs of
 * both links run for each hit of a probe that both have, one right after the other, and the
 * first one records. */
static __noinline int is_second_of_hit(struct pt_regs *ctx, __u32 generation)
{
	struct handed_hit hit = {PT_REGS_IP(ctx), PT_REGS_SP(ctx), generation, handover};
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct handed_hit *last = bpf_map_lookup_elem(&handed_hits, &tid);

	if (!last) {
		bpf_map_update_elem(&handed_hits, &tid, &hit, BPF_ANY);
		return 0;
	}
	if (last->handover == hit.handover && last->generation != generation &&
	    last->ip == hit.ip && last->sp == hit.sp) {
		last->handover = 0;
		return 1;
	}
	*last = hit;
	return 0;
}

#endif
