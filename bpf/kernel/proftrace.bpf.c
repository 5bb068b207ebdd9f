// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The object with the programs that record operators, memory and processes, and with one set of
 * maps for all of them. */
#include "bpf/shared/memory.bpf.c"
#include "bpf/kernel/operators.bpf.c"
#include "bpf/kernel/process.bpf.c"

/* The kernel gives bpf_probe_read_user and the tracing helpers only to programs under the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
