// File systems that know no files without a name (O_TMPFILE: NFS, FUSE, older overlays), or that
// let none of them have one later.
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

namespace proftrace {

// Lets the system call fail with `error` for this process from here on, where it has any of `bits`
// in the lower half of its argument `argument`. False: that cannot be had here.
inline bool ForbidCall(long call, unsigned argument, __u32 bits, __u32 error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<__u32>(call), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
               static_cast<__u32>(offsetof(seccomp_data, args) + argument * sizeof(__u64))),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

inline bool ForbidNamelessFiles() {
  return ForbidCall(SYS_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP);
}

inline bool ForbidNamingFiles() { return ForbidCall(SYS_linkat, 4, AT_SYMLINK_FOLLOW, EPERM); }

}  // namespace proftrace
