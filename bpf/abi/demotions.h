/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Demotions: operators whose calls are only counted, to keep a budget (--max-overhead). */
#ifndef PROFTRACE_BPF_ABI_DEMOTIONS_H
#define PROFTRACE_BPF_ABI_DEMOTIONS_H

#include "bpf/abi/records.h"

#ifdef __cplusplus
namespace proftrace::abi
{
#endif

/* The operator at a site, in one process: the key of the map `demotions`. */
struct pt_demotion_key {
	pt_u32 tgid;
	pt_u32 site;
};
PT_STATIC_ASSERT(sizeof(struct pt_demotion_key) == 8, "pt_demotion_key");
#define PT_MOST_DEMOTIONS 4096 /* a power of two */

enum pt_demotion {
	/* Begins are only counted. Ends are still recorded, because calls that began earlier may be
	 * open. */
	PT_DEMOTION_BEGINS = 1,
	PT_DEMOTION_WHOLE = 2, /* begins are only counted, and ends are not recorded */
};

#ifdef __cplusplus
}
#endif

#endif
