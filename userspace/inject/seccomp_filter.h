// Whether a process's seccomp filters let a system call through. Docker's default profile filters
// every container, and lets all through that injection needs; others kill the process for it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns what a filter (classic BPF, seccomp(2)) answers to a call: SECCOMP_RET_…;
// SECCOMP_RET_KILL_PROCESS for a program that the kernel would not have taken.
uint32_t RunSeccompFilter(std::span<const sock_filter> filter, const seccomp_data& call);

// Returns the filters of a stopped thread of ours (ptrace), newest first. Fails where they cannot
// be read: without CAP_SYS_ADMIN, or with proftrace itself under a filter.
absl::StatusOr<std::vector<std::vector<sock_filter>>> ReadSeccompFilters(int tid);

// Returns the mode of a thread of the process, by /proc: 0 = none, 1 = strict, 2 = filters.
int SeccompMode(Pid pid, int tid);
// Returns how many filters it has; 0 before Linux 5.9.
int SeccompFilterCount(Pid pid, int tid);

// Whether this process may read filters (ptrace(2), PTRACE_SECCOMP_GET_FILTER): it has
// CAP_SYS_ADMIN, and no filter of its own.
bool MayReadSeccompFilters();
// Fails as ReadSeccompFilters() would for a thread of the process that has filters; stops nobody.
absl::Status CheckFiltersReadable(Pid pid);

struct FilteredCall {
  long number;
  const char* name;
  std::array<uint64_t, 6> arguments;
  bool may_fail = false;  // an error does no harm: only what kills, or asks somebody, is refused
};

// Checks that each of the calls would be made; else one sentence with the first that would not.
absl::Status CheckSeccomp(const std::vector<std::vector<sock_filter>>& filters,
                          std::span<const FilteredCall> calls, uint64_t instruction);
// Checks the calls by the filters that a stopped thread of ours has, if it has any.
absl::Status CheckSeccompOf(Pid pid, int tid, std::span<const FilteredCall> calls,
                            uint64_t instruction);

}  // namespace proftrace
