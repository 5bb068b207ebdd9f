// Whether a process's seccomp filters let a system call through. Docker's default profile filters
// every container, and lets all through that injection needs; others kill the process for it.
// Filters are read where that is allowed (MayReadSeccompFilters()). Where it is not, they are known
// if they are this process's own (filter_kinship.h), which then tries what they allow
// (filter_trials.h), or if the user says which they are (StateSeccomp()).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
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
struct FilteredCall {
  long number;
  const char* name;
  std::array<uint64_t, 6> arguments;
  bool may_fail = false;  // an error does no harm: only what kills, or asks somebody, is refused
};

// Checks the filters of the process's threads as far as that can be done without stopping one:
// fails where they can neither be read nor are known, and with the first of the calls that filters
// refuse that are known.
absl::Status CheckFiltersUnseen(Pid pid, std::span<const FilteredCall> calls);

// Whether that can be checked for the process: its filters, if it has any, may be read or are
// known.
bool AreFiltersKnown(Pid pid);

// Takes the user's word for what the filters of jobs are that cannot be read: `runtime-default` =
// the default profile of a container's runtime, which answers what it does not allow with an error.
// It is true of this process and of those that it forks. false: there is no such profile.
bool StateSeccomp(const std::string& profile);
bool IsRuntimeDefaultStated();

// Checks that each of the calls would be made; else one sentence with the first that would not.
absl::Status CheckSeccomp(const std::vector<std::vector<sock_filter>>& filters,
                          std::span<const FilteredCall> calls, uint64_t instruction);
// Checks the calls by the filters that a stopped thread of ours has, if it has any: by what they
// say, else by what is known of them.
absl::Status CheckSeccompOf(Pid pid, int tid, std::span<const FilteredCall> calls,
                            uint64_t instruction);

}  // namespace proftrace
