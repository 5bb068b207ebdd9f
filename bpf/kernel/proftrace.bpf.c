// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The one object that is loaded: every topic, one set of maps. */
#include "bpf/shared/memory.bpf.c"
#include "bpf/kernel/operators.bpf.c"
#include "bpf/kernel/process.bpf.c"

/* bpf_probe_read_user and the tracing helpers are only given to programs under the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
