// Finds out whether a process's seccomp filters let a system call through. Docker's default profile
// filters every container, and lets all calls through that injection needs; other filters may kill
// the process for these calls. Filters are read if that is allowed (MayReadSeccompFilters()).
// Otherwise they are known if they are this process's own (filter_kinship.h), which then tries what
// they allow (filter_trials.h), or if the user says which profile they are (StateSeccomp()).
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

// Returns a filter's (classic BPF, seccomp(2)) answer to a call, SECCOMP_RET_…. Returns
// SECCOMP_RET_KILL_PROCESS for a program that the kernel would not have accepted.
uint32_t RunSeccompFilter(std::span<const sock_filter> filter, const seccomp_data& call);

// Returns the filters of a thread that we have stopped by ptrace, newest first. Fails if they
// cannot be read: without CAP_SYS_ADMIN, or if proftrace itself has a filter.
absl::StatusOr<std::vector<std::vector<sock_filter>>> ReadSeccompFilters(int tid);

// Returns the seccomp mode of a thread, by /proc. 0: none; 1: strict; 2: filters.
int SeccompMode(Pid pid, int tid);
// Returns how many filters the thread has; 0 before Linux 5.9.
int SeccompFilterCount(Pid pid, int tid);

// Whether this process may read filters (ptrace(2), PTRACE_SECCOMP_GET_FILTER): it has
// CAP_SYS_ADMIN, and no filter of its own.
bool MayReadSeccompFilters();
struct FilteredCall {
  long number;
  const char* name;
  std::array<uint64_t, 6> arguments;
  // Whether an error does no harm. Then a filter that answers with an error does not count as
  // refusing the call; one that kills the thread, sends a signal, or asks another process does.
  bool may_fail = false;
};

// Checks the filters of the process's threads, as far as that can be done without stopping one.
// Fails if the filters can neither be read nor are known. If they are known, fails with the first
// of the calls that they refuse.
absl::Status CheckFiltersUnseen(Pid pid, std::span<const FilteredCall> calls);

// Whether CheckFiltersUnseen() can judge the process: it has no filters, or they may be read or are
// known.
bool AreFiltersKnown(Pid pid);

// Takes the user's word for filters that cannot be read: `runtime-default` means the default
// profile of a container's runtime, which answers forbidden calls with an error. The statement
// holds in this process and those that it forks. Returns false for an unknown profile.
bool StateSeccomp(const std::string& profile);
bool IsRuntimeDefaultStated();

// Checks that the filters let each of the calls through when it is made at the address
// `instruction`. Fails with one sentence that names the first call that they refuse.
absl::Status CheckSeccomp(const std::vector<std::vector<sock_filter>>& filters,
                          std::span<const FilteredCall> calls, uint64_t instruction);
// Checks the calls for a thread that we have stopped, if it has filters: by the filters' code if
// that can be read, otherwise by the known facts about the filters.
absl::Status CheckSeccompOf(Pid pid, int tid, std::span<const FilteredCall> calls,
                            uint64_t instruction);

}  // namespace proftrace
