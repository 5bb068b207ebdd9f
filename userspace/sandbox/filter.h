// Which system calls a process can still make, by seccomp.
#pragma once

namespace proftrace {

enum class SystemCalls {
  kComputing,     // on what is open already, and by messages on sockets that are
  kReadingFiles,  // and with files that have no name
  kMakingFiles,
  kServing,  // on what is open already, and with who connects to a socket that listens
  kShowing,  // as kReadingFiles; sets how a terminal that is open behaves, and own priorities
};

// Limits the system calls of this process, on all its threads. It can go on to compute, and to do
// that with files. No more for it: programs, other processes, new sockets, memory that is run,
// owners and modes of what has a path, namespaces, and whatever this build does not know. It must
// not be able to gain rights (NoNewRights). False: this kernel cannot.
bool LimitSystemCalls(SystemCalls allowed);

}  // namespace proftrace
