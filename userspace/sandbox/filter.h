// Which system calls a process can still make, by seccomp.
#pragma once

namespace proftrace {

// What reads files, computes and writes files goes on to work in this process, on all its threads.
// What does not: programs, other processes, sockets, memory that is run, owners and modes of what
// has a path, namespaces, and whatever this build does not know. It must not be able to gain rights
// (NoNewRights). `makes_files`: otherwise only files without a name are written, and what is open.
// False: this kernel cannot.
bool LimitSystemCalls(bool makes_files);

}  // namespace proftrace
