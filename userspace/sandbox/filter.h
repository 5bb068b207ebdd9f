// Limits the system calls that a process can still make, by seccomp.
#pragma once

namespace proftrace {

enum class SystemCalls {
  kComputing,  // computing, and reading, writing and messages on descriptors that are open already
  kReadingFiles,  // also opening files to read them, and making files without a name
  kMakingFiles,   // also making, writing, renaming and removing files and directories
  kServing,  // as kComputing, and accepting connections on a listening socket that is open already
  // as kReadingFiles, and setting the modes of an open terminal and the thread's own priority
  kShowing,
};

// Limits the system calls of this process, on all its threads. It can compute, and use files and
// descriptors as `allowed` says. It can no longer run programs, start other processes, make
// sockets, run code in new memory, change the owner or mode of a path, make namespaces, or make any
// system call that is not on the list. NoNewRights() must have been called before. False: the
// kernel cannot do this.
bool LimitSystemCalls(SystemCalls allowed);

}  // namespace proftrace
