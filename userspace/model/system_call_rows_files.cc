// The rows of system calls about files and sockets.
#include "userspace/model/system_call_rows.h"

namespace proftrace {
namespace {

using K = ArgumentKind;
constexpr CallClass kFile = CallClass::kFileIo;
constexpr CallClass kNet = CallClass::kNetworkIo;
constexpr CallClass kPoll = CallClass::kPoll;
constexpr CallClass kOther = CallClass::kOther;

constexpr ArgumentInfo kOldDirFd{"olddirfd", K::kDirectoryFd};
constexpr ArgumentInfo kNewDirFd{"newdirfd", K::kSecondDirectoryFd};
constexpr ArgumentInfo kOldPath{"oldpath", K::kPath};
constexpr ArgumentInfo kNewPath{"newpath", K::kSecondPath};
constexpr ArgumentInfo kLinkPath{"linkpath", K::kPath};
constexpr ArgumentInfo kTarget{"target", K::kText};
constexpr ArgumentInfo kIov{"iov", K::kPointer};
constexpr ArgumentInfo kIovCount{"iovcnt", K::kUnsigned};
// The upper half of an offset, which the kernel ignores where longs have 64 bits.
constexpr ArgumentInfo kOffsetHigh{"offset_high", K::kOffsetHigh};
constexpr ArgumentInfo kLength{"length", K::kOffset};
constexpr ArgumentInfo kStatBuf{"statbuf", K::kPointer};
constexpr ArgumentInfo kOwner{"owner", K::kInt};
constexpr ArgumentInfo kGroup{"group", K::kInt};
constexpr ArgumentInfo kName{"name", K::kPointer};
constexpr ArgumentInfo kValue{"value", K::kPointer};
constexpr ArgumentInfo kTimes{"times", K::kPointer};
constexpr ArgumentInfo kAccessMode{"mode", K::kFlags};
constexpr ArgumentInfo kWhence{"whence", K::kWhence};
constexpr ArgumentInfo kFileAdvice{"advice", K::kInt};
constexpr ArgumentInfo kSockFd{"sockfd", K::kFd};
constexpr ArgumentInfo kSockaddr{"addr", K::kSockaddr};
constexpr ArgumentInfo kAddrLen{"addrlen", K::kSockaddrLength};
constexpr ArgumentInfo kAddrLenPointer{"addrlen", K::kSockaddrLengthPointer};
constexpr ArgumentInfo kDomain{"domain", K::kInt};
constexpr ArgumentInfo kType{"type", K::kFlags};
constexpr ArgumentInfo kProtocol{"protocol", K::kInt};
constexpr ArgumentInfo kLevel{"level", K::kInt};
constexpr ArgumentInfo kOptName{"optname", K::kInt};
constexpr ArgumentInfo kOptVal{"optval", K::kPointer};
constexpr ArgumentInfo kEpFd{"epfd", K::kFd};
constexpr ArgumentInfo kEvents{"events", K::kPointer};
constexpr ArgumentInfo kMaxEvents{"maxevents", K::kInt};
constexpr ArgumentInfo kSets[] = {Int("nfds"), Pointer("readfds"), Pointer("writefds"),
                                  Pointer("exceptfds")};
constexpr ArgumentInfo kPollFds{"fds", K::kPointer};
constexpr ArgumentInfo kPollCount{"nfds", K::kUnsigned};
constexpr ArgumentInfo kContext{"ctx_id", K::kHex};

constexpr SystemCallRow kRows[] = {
    // Open, close, copies of descriptors.
    {"open", kFile, {kPathname, kOpenFlags, kMode}, kGivesFile},
    {"openat", kFile, {kDirFd, kPathname, kOpenFlags, kMode}, kGivesFile},
    {"openat2",
     kFile,
     {kDirFd, kPathname, {"how", K::kOpenHow}, {"size", K::kStructureSize}},
     kGivesFile},
    {"creat", kFile, {kPathname, kMode}, kGivesFile},
    {"open_by_handle_at",
     kFile,
     {{"mount_fd", K::kOtherFd}, Pointer("handle"), kOpenFlags},
     kGivesFile},
    {"name_to_handle_at",
     kFile,
     {kDirFd, kPathname, Pointer("handle"), Pointer("mount_id"), kAtFlags}},
    {"close", kFile, {kFd}},
    {"close_range", kFile, {Unsigned("first"), Unsigned("last"), kFlags}},
    {"dup", kFile, {kFd}, kGivesFile},
    {"dup2", kFile, {kFd, {"newfd", K::kOtherFd}}, kGivesFile},
    {"dup3", kFile, {kFd, {"newfd", K::kOtherFd}, kFlags}, kGivesFile},
    {"pipe", kFile, {Pointer("pipefd")}},
    {"pipe2", kFile, {Pointer("pipefd"), kFlags}},
    {"fcntl", kFile, {kFd, Int("op"), Hex("arg")}},
    {"ioctl", kOther, {kFd, {"op", K::kIoctlRequest}, {"argp", K::kIoctlArgument}}},
    {"flock", CallClass::kLock, {kFd, Int("op")}},
    // Read, write, positions.
    {"read", kFile, {kFd, kBuf, kCount}},
    {"write", kFile, {kFd, kBuf, kCount}},
    {"pread64", kFile, {kFd, kBuf, kCount, kOffset}},
    {"pwrite64", kFile, {kFd, kBuf, kCount, kOffset}},
    {"readv", kFile, {kFd, kIov, kIovCount}},
    {"writev", kFile, {kFd, kIov, kIovCount}},
    {"preadv", kFile, {kFd, kIov, kIovCount, kOffset, kOffsetHigh}},
    {"pwritev", kFile, {kFd, kIov, kIovCount, kOffset, kOffsetHigh}},
    {"preadv2", kFile, {kFd, kIov, kIovCount, kOffset, kOffsetHigh, kFlags}},
    {"pwritev2", kFile, {kFd, kIov, kIovCount, kOffset, kOffsetHigh, kFlags}},
    {"lseek", kFile, {kFd, kOffset, kWhence}},
    {"sendfile", kFile, {{"out_fd", K::kTargetFd}, {"in_fd", K::kFd}, Pointer("poffset"), kCount}},
    {"copy_file_range",
     kFile,
     {kFd, Pointer("off_in"), {"fd_out", K::kTargetFd}, Pointer("off_out"), kSize, kFlags}},
    {"splice",
     kFile,
     {kFd, Pointer("off_in"), {"fd_out", K::kTargetFd}, Pointer("off_out"), kSize, kFlags}},
    {"tee", kFile, {kFd, {"fd_out", K::kTargetFd}, kSize, kFlags}},
    {"vmsplice", kFile, {kFd, kIov, kIovCount, kFlags}},
    {"readahead", kFile, {kFd, kOffset, kCount}},
    {"fadvise64", kFile, {kFd, kOffset, kLen, kFileAdvice}},
    {"fallocate", kFile, {kFd, Flags("mode"), kOffset, {"len", K::kOffset}}},
    {"truncate", kFile, {kPathname, kLength}},
    {"ftruncate", kFile, {kFd, kLength}},
    {"fsync", kFile, {kFd}},
    {"fdatasync", kFile, {kFd}},
    {"sync", kFile, {}},
    {"syncfs", kFile, {kFd}},
    {"sync_file_range", kFile, {kFd, kOffset, {"nbytes", K::kOffset}, kFlags}},
    // Requests that the kernel works on by itself.
    {"io_setup", kFile, {Unsigned("nr_events"), Pointer("ctx_idp")}},
    {"io_destroy", kFile, {kContext}},
    {"io_submit", kFile, {kContext, Int("nr"), Pointer("iocbpp")}},
    {"io_cancel", kFile, {kContext, Pointer("iocb"), Pointer("result")}},
    {"io_getevents", kFile, {kContext, Int("min_nr"), Int("nr"), kEvents, kTimeout}},
    {"io_pgetevents",
     kFile,
     {kContext, Int("min_nr"), Int("nr"), kEvents, kTimeout, Pointer("usig")}},
    {"io_uring_setup", kFile, {Unsigned("entries"), Pointer("params")}, kGivesFile},
    {"io_uring_enter",
     kFile,
     {kFd, Unsigned("to_submit"), Unsigned("min_complete"), kFlags, Pointer("argp"),
      Unsigned("argsz")}},
    {"io_uring_register", kFile, {kFd, Unsigned("opcode"), Pointer("arg"), Unsigned("nr_args")}},
    // Calls that tell about files.
    {"stat", kFile, {kPathname, kStatBuf}},
    {"lstat", kFile, {kPathname, kStatBuf}},
    {"fstat", kFile, {kFd, kStatBuf}},
    {"newfstatat", kFile, {kDirFd, kPathname, kStatBuf, kAtFlags}},
    {"statx", kFile, {kDirFd, kPathname, kAtFlags, Flags("mask"), kStatBuf}},
    {"statfs", kFile, {kPathname, kBuf}},
    {"fstatfs", kFile, {kFd, kBuf}},
    {"ustat", kFile, {Hex("dev"), Pointer("ubuf")}},
    {"access", kFile, {kPathname, kAccessMode}},
    {"faccessat", kFile, {kDirFd, kPathname, kAccessMode}},
    {"faccessat2", kFile, {kDirFd, kPathname, kAccessMode, kAtFlags}},
    {"readlink", kFile, {kPathname, kBuf, kSize}},
    {"readlinkat", kFile, {kDirFd, kPathname, kBuf, kSize}},
    {"getdents", kFile, {kFd, Pointer("dirp"), kCount}},
    {"getdents64", kFile, {kFd, Pointer("dirp"), kCount}},
    {"getcwd", kFile, {kBuf, kSize}},
    {"chdir", kFile, {kPathname}, kChangesDirectory},
    {"fchdir", kFile, {kFd}},
    {"chroot", kFile, {kPathname}},
    {"getxattr", kFile, {kPathname, kName, kValue, kSize}},
    {"lgetxattr", kFile, {kPathname, kName, kValue, kSize}},
    {"fgetxattr", kFile, {kFd, kName, kValue, kSize}},
    {"listxattr", kFile, {kPathname, Pointer("list"), kSize}},
    {"llistxattr", kFile, {kPathname, Pointer("list"), kSize}},
    {"flistxattr", kFile, {kFd, Pointer("list"), kSize}},
    {"setxattr", kFile, {kPathname, kName, kValue, kSize, kFlags}},
    {"lsetxattr", kFile, {kPathname, kName, kValue, kSize, kFlags}},
    {"fsetxattr", kFile, {kFd, kName, kValue, kSize, kFlags}},
    {"removexattr", kFile, {kPathname, kName}},
    {"lremovexattr", kFile, {kPathname, kName}},
    {"fremovexattr", kFile, {kFd, kName}},
    {"setxattrat", kFile, {kDirFd, kPathname, kAtFlags, kName, Pointer("uargs"), kSize}},
    {"getxattrat", kFile, {kDirFd, kPathname, kAtFlags, kName, Pointer("uargs"), kSize}},
    {"listxattrat", kFile, {kDirFd, kPathname, kAtFlags, Pointer("list"), kSize}},
    {"removexattrat", kFile, {kDirFd, kPathname, kAtFlags, kName}},
    {"file_getattr", kFile, {kDirFd, kPathname, Pointer("ufattr"), kSize, kAtFlags}},
    {"file_setattr", kFile, {kDirFd, kPathname, Pointer("ufattr"), kSize, kAtFlags}},
    {"cachestat", kFile, {kFd, Pointer("cstat_range"), Pointer("cstat"), kFlags}},
    // Names. A symbolic link's target is a text, because it starts at the link and need not exist.
    {"rename", kFile, {kOldPath, kNewPath}, kRenames},
    {"renameat", kFile, {kOldDirFd, kOldPath, kNewDirFd, kNewPath}, kRenames},
    {"renameat2", kFile, {kOldDirFd, kOldPath, kNewDirFd, kNewPath, kFlags}, kRenames},
    {"link", kFile, {kOldPath, kNewPath}},
    {"linkat", kFile, {kOldDirFd, kOldPath, kNewDirFd, kNewPath, kAtFlags}},
    {"symlink", kFile, {kTarget, kLinkPath}},
    {"symlinkat", kFile, {kTarget, {"newdirfd", K::kDirectoryFd}, kLinkPath}},
    {"unlink", kFile, {kPathname}},
    {"unlinkat", kFile, {kDirFd, kPathname, kAtFlags}},
    {"mkdir", kFile, {kPathname, kMode}},
    {"mkdirat", kFile, {kDirFd, kPathname, kMode}},
    {"rmdir", kFile, {kPathname}},
    {"mknod", kFile, {kPathname, kMode, Hex("dev")}},
    {"mknodat", kFile, {kDirFd, kPathname, kMode, Hex("dev")}},
    {"chmod", kFile, {kPathname, kMode}},
    {"fchmod", kFile, {kFd, kMode}},
    {"fchmodat", kFile, {kDirFd, kPathname, kMode}},
    {"fchmodat2", kFile, {kDirFd, kPathname, kMode, kAtFlags}},
    {"chown", kFile, {kPathname, kOwner, kGroup}},
    {"lchown", kFile, {kPathname, kOwner, kGroup}},
    {"fchown", kFile, {kFd, kOwner, kGroup}},
    {"fchownat", kFile, {kDirFd, kPathname, kOwner, kGroup, kAtFlags}},
    {"umask", kFile, {{"mask", K::kMode}}},
    {"utime", kFile, {kPathname, kTimes}},
    {"utimes", kFile, {kPathname, kTimes}},
    {"futimesat", kFile, {kDirFd, kPathname, kTimes}},
    {"utimensat", kFile, {kDirFd, kPathname, kTimes, kAtFlags}},
    {"mount",
     kOther,
     {Pointer("source"), {"target", K::kPath}, Pointer("type"), kFlags, Pointer("data")}},
    {"umount2", kOther, {{"target", K::kPath}, kFlags}},
    {"inotify_init", kFile, {}, kGivesFile},
    {"inotify_init1", kFile, {kFlags}, kGivesFile},
    {"inotify_add_watch", kFile, {kFd, kPathname, Flags("mask")}},
    {"inotify_rm_watch", kFile, {kFd, Int("wd")}},
    {"fanotify_init", kFile, {kFlags, {"event_f_flags", K::kOpenFlags}}, kGivesFile},
    {"memfd_create", kFile, {kName, kFlags}, kGivesFile},
    {"memfd_secret", kFile, {kFlags}, kGivesFile},
    // Sockets.
    {"socket", kNet, {kDomain, kType, kProtocol}, kGivesFile},
    {"socketpair", kNet, {kDomain, kType, kProtocol, Pointer("sv")}},
    {"bind", kNet, {kSockFd, kSockaddr, kAddrLen}},
    {"connect", kNet, {kSockFd, kSockaddr, kAddrLen}},
    {"listen", kNet, {kSockFd, Int("backlog")}},
    {"accept", kNet, {kSockFd, kSockaddr, kAddrLenPointer}, kGivesFile},
    {"accept4", kNet, {kSockFd, kSockaddr, kAddrLenPointer, kFlags}, kGivesFile},
    {"getsockname", kNet, {kSockFd, kSockaddr, kAddrLenPointer}},
    {"getpeername", kNet, {kSockFd, kSockaddr, kAddrLenPointer}},
    {"sendto", kNet, {kSockFd, kBuf, kSize, kFlags, {"dest_addr", K::kSockaddr}, kAddrLen}},
    {"recvfrom", kNet, {kSockFd, kBuf, kSize, kFlags, {"src_addr", K::kSockaddr}, kAddrLenPointer}},
    {"sendmsg", kNet, {kSockFd, {"msg", K::kMessage}, kFlags}},
    {"recvmsg", kNet, {kSockFd, {"msg", K::kReceivedMessage}, kFlags}},
    {"sendmmsg", kNet, {kSockFd, {"msgvec", K::kMessages}, Unsigned("vlen"), kFlags}},
    {"recvmmsg",
     kNet,
     {kSockFd, {"msgvec", K::kMessages}, Unsigned("vlen"), kFlags, kTimeout},
     kLeavesTime},
    {"shutdown", kNet, {kSockFd, Int("how")}},
    {"setsockopt", kNet, {kSockFd, kLevel, kOptName, kOptVal, Unsigned("optlen")}},
    {"getsockopt", kNet, {kSockFd, kLevel, kOptName, kOptVal, Pointer("optlen")}},
    // Waits for any of several files.
    {"poll", kPoll, {kPollFds, kPollCount, kTimeoutMs}},
    {"ppoll", kPoll, {kPollFds, kPollCount, kTimeout, kSigmask, kSigsetSize}, kLeavesTime},
    {"select",
     kPoll,
     {kSets[0], kSets[1], kSets[2], kSets[3], {"timeout", K::kTimeval}},
     kLeavesTime},
    {"pselect6", kPoll, {kSets[0], kSets[1], kSets[2], kSets[3], kTimeout, kSigmask}, kLeavesTime},
    {"epoll_create", kPoll, {Int("size")}, kGivesFile},
    {"epoll_create1", kPoll, {kFlags}, kGivesFile},
    {"epoll_ctl", kPoll, {{"epfd", K::kOtherFd}, Int("op"), kFd, Pointer("event")}},
    {"epoll_wait", kPoll, {kEpFd, kEvents, kMaxEvents, kTimeoutMs}},
    {"epoll_pwait", kPoll, {kEpFd, kEvents, kMaxEvents, kTimeoutMs, kSigmask, kSigsetSize}},
    {"epoll_pwait2",
     kPoll,
     {kEpFd, kEvents, kMaxEvents, {"timeout", K::kTimespec}, kSigmask, kSigsetSize}},
    // Files that are counters and clocks.
    {"eventfd", kOther, {Unsigned("initval")}, kGivesFile},
    {"eventfd2", kOther, {Unsigned("initval"), kFlags}, kGivesFile},
    {"signalfd", kOther, {kFd, Pointer("mask"), kSigsetSize}, kGivesFile},
    {"signalfd4", kOther, {kFd, Pointer("mask"), kSigsetSize, kFlags}, kGivesFile},
    {"timerfd_create", kOther, {kClock, kFlags}, kGivesFile},
    {"timerfd_settime", kOther, {kFd, kFlags, Pointer("new_value"), Pointer("old_value")}},
    {"timerfd_gettime", kOther, {kFd, Pointer("curr_value")}},
};

}  // namespace

std::span<const SystemCallRow> FileAndSocketRows() { return kRows; }

}  // namespace proftrace
