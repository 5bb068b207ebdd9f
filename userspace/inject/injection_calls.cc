#include "userspace/inject/injection_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <string>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/inject/injection_region.h"

namespace proftrace {
namespace {

constexpr uint64_t kReadWrite = PROT_READ | PROT_WRITE;
constexpr uint64_t kReadExecute = PROT_READ | PROT_EXEC;
constexpr int64_t kThreadStopLimitNs = 500'000'000;

constexpr FilteredCall kCalls[] = {
    // Calls that a stopped thread makes.
    {SYS_mmap, "mmap", {0, kRegionBytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, kNoFile, 0}},
    {SYS_mprotect, "mprotect", {0, 4096, kReadExecute, 0, 0, 0}},
    {SYS_madvise, "madvise", {0, 4096, MADV_WIPEONFORK, 0, 0, 0}},
    {SYS_madvise, "madvise", {0, 4096, MADV_DONTNEED, 0, 0, 0}},
    {SYS_munmap, "munmap", {0, kRegionBytes, 0, 0, 0, 0}},
    {SYS_memfd_create, "memfd_create", {0, 3, 0, 0, 0, 0}},
    {SYS_close, "close", {3, 0, 0, 0, 0, 0}},
    {SYS_rt_sigreturn, "rt_sigreturn", {}},
    // The kernel makes this call itself where the stopped thread was waiting; so may the agent's
    // thread, at a later stop.
    {SYS_restart_syscall, "restart_syscall", {}},
    // Calls of the loader and the allocator.
    {SYS_rt_sigprocmask, "rt_sigprocmask", {2, 0, 0, 8, 0, 0}},
    {SYS_openat, "openat", {static_cast<uint64_t>(AT_FDCWD), 0, 0, 0, 0, 0}},
    {SYS_read, "read", {3, 0, 832, 0, 0, 0}},
    {SYS_pread64, "pread64", {3, 0, 832, 0, 0, 0}},
    {SYS_newfstatat, "newfstatat", {3, 0, 0, 0x1000, 0, 0}},
    {SYS_fstat, "fstat", {3, 0, 0, 0, 0, 0}},
    {SYS_mmap, "mmap of code", {0, 4096, kReadExecute, MAP_PRIVATE, 3, 0}},
    {SYS_brk, "brk", {}, true},
    // Calls of a new thread: for its stack, its begin and its end. The first new thread of a
    // process also sets up a signal. If clone3 fails, glibc uses clone.
    {SYS_rt_sigaction, "rt_sigaction", {33, 0, 0, 8, 0, 0}},
    {SYS_clone3, "clone3", {0, 88, 0, 0, 0, 0}, true},
    {SYS_clone, "clone", {0x3d0f00, 0, 0, 0, 0, 0}},
    {SYS_rseq, "rseq", {0, 32, 0, 0x53053053, 0, 0}, true},
    {SYS_set_robust_list, "set_robust_list", {0, 24, 0, 0, 0, 0}, true},
    {SYS_exit, "exit", {}},
    {SYS_prctl, "prctl", {15, 0, 0, 0, 0, 0}, true},
    // Calls of the agent, for its memory, its waits, and its reading of the process's map.
    {SYS_ftruncate, "ftruncate", {3, 4096, 0, 0, 0, 0}},
    {SYS_fcntl, "fcntl", {3, F_ADD_SEALS, 0, 0, 0, 0}},
    {SYS_mmap, "mmap of shared memory", {0, 4096, kReadWrite, MAP_SHARED, 3, 0}},
    {SYS_getpid, "getpid", {}},
    {SYS_gettid, "gettid", {}},
    {SYS_futex, "futex", {}},
};

constexpr FilteredCall kRemovalCalls[] = {
    {SYS_madvise, "madvise", {0, 4096, MADV_DONTNEED, 0, 0, 0}, true},
    {SYS_munmap, "munmap", {0, 4096, 0, 0, 0, 0}},
    {SYS_close, "close", {3, 0, 0, 0, 0, 0}, true},
    {SYS_rt_sigreturn, "rt_sigreturn", {}},
};

}  // namespace

std::span<const FilteredCall> InjectionCalls() { return kCalls; }

absl::Status CheckInjectionCalls(Pid pid, int tid, uint64_t instruction) {
  return CheckSeccompOf(pid, tid, kCalls, instruction);
}

absl::Status CheckRemovalCalls(Pid pid, int tid, uint64_t instruction) {
  return CheckSeccompOf(pid, tid, kRemovalCalls, instruction);
}

absl::Status CheckOtherFilters(Pid pid, StoppedThreads* threads, uint64_t instruction) {
  const auto first = static_cast<int>(Raw(pid));
  const int count = SeccompFilterCount(pid, first);
  for (const uint32_t other : ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task")) {
    const auto tid = static_cast<int>(other);
    if (tid == first || SeccompFilterCount(pid, tid) == count) continue;
    absl::Status status = threads->StopThread(tid, MonotonicNs() + kThreadStopLimitNs);
    if (status.ok()) status = CheckInjectionCalls(pid, tid, instruction);
    threads->Release();
    if (!status.ok() && SeccompFilterCount(pid, tid) != 0) return status;
  }
  return absl::OkStatus();
}

}  // namespace proftrace
