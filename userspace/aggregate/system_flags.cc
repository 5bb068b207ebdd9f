#include "userspace/aggregate/system_flags.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <span>
#include <string_view>

#include "userspace/model/ioctl_names.h"

namespace proftrace {
namespace {

struct NamedValue {
  uint32_t value;
  std::string_view name;
};
#define NAMED(constant) \
  { static_cast<uint32_t>(constant), #constant }

// libc's O_LARGEFILE is 0 in programs of 64 bits; the kernel's is not.
constexpr uint32_t kKernelLargeFile = 0100000;
// The first of three that only programs of 32 bits have.
constexpr uint32_t kGetLock64 = 12;
// Since Linux 5.18, 6.1 and 5.17: later than some headers.
constexpr uint32_t kDontNeedLocked = 24;
constexpr uint32_t kCollapse = 25;
constexpr uint32_t kSetVma = 0x53564d41;

// Values of several bits come first, then the bits that they are made of.
constexpr NamedValue kOpenAccess[] = {NAMED(O_RDONLY), NAMED(O_WRONLY), NAMED(O_RDWR)};

constexpr NamedValue kOpenBits[] = {NAMED(O_CREAT),
                                    NAMED(O_EXCL),
                                    NAMED(O_NOCTTY),
                                    NAMED(O_TRUNC),
                                    NAMED(O_APPEND),
                                    NAMED(O_NONBLOCK),
                                    NAMED(O_SYNC),
                                    NAMED(O_DSYNC),
                                    NAMED(O_ASYNC),
                                    NAMED(O_DIRECT),
                                    {kKernelLargeFile, "O_LARGEFILE"},
                                    NAMED(O_NOFOLLOW),
                                    NAMED(O_NOATIME),
                                    NAMED(O_CLOEXEC),
                                    NAMED(O_TMPFILE),
                                    NAMED(O_DIRECTORY),
                                    NAMED(O_PATH)};

constexpr NamedValue kDescriptorBits[] = {NAMED(O_NONBLOCK), NAMED(O_DIRECT), NAMED(O_CLOEXEC),
                                          NAMED(O_EXCL)};
constexpr NamedValue kCloseRangeBits[] = {NAMED(CLOSE_RANGE_UNSHARE), NAMED(CLOSE_RANGE_CLOEXEC)};
constexpr NamedValue kSyncRangeBits[] = {NAMED(SYNC_FILE_RANGE_WAIT_BEFORE),
                                         NAMED(SYNC_FILE_RANGE_WRITE),
                                         NAMED(SYNC_FILE_RANGE_WAIT_AFTER)};
constexpr NamedValue kEpollBits[] = {NAMED(EPOLL_CLOEXEC)};
constexpr NamedValue kInotifyFlagBits[] = {NAMED(IN_NONBLOCK), NAMED(IN_CLOEXEC)};
constexpr NamedValue kSignalFdBits[] = {NAMED(SFD_NONBLOCK), NAMED(SFD_CLOEXEC)};

constexpr NamedValue kAccessBits[] = {NAMED(R_OK), NAMED(W_OK), NAMED(X_OK)};

constexpr NamedValue kAtBits[] = {NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_REMOVEDIR),
                                  NAMED(AT_SYMLINK_FOLLOW),   NAMED(AT_NO_AUTOMOUNT),
                                  NAMED(AT_EMPTY_PATH),       NAMED(AT_STATX_FORCE_SYNC),
                                  NAMED(AT_STATX_DONT_SYNC),  NAMED(AT_RECURSIVE)};

constexpr NamedValue kWhence[] = {NAMED(SEEK_SET), NAMED(SEEK_CUR), NAMED(SEEK_END),
                                  NAMED(SEEK_DATA), NAMED(SEEK_HOLE)};

constexpr NamedValue kFcntlCommands[] = {NAMED(F_DUPFD),
                                         NAMED(F_GETFD),
                                         NAMED(F_SETFD),
                                         NAMED(F_GETFL),
                                         NAMED(F_SETFL),
                                         NAMED(F_GETLK),
                                         NAMED(F_SETLK),
                                         NAMED(F_SETLKW),
                                         NAMED(F_SETOWN),
                                         NAMED(F_GETOWN),
                                         NAMED(F_SETSIG),
                                         NAMED(F_GETSIG),
                                         NAMED(F_SETOWN_EX),
                                         NAMED(F_GETOWN_EX),
                                         {kGetLock64, "F_GETLK64"},
                                         {kGetLock64 + 1, "F_SETLK64"},
                                         {kGetLock64 + 2, "F_SETLKW64"},
                                         NAMED(F_OFD_GETLK),
                                         NAMED(F_OFD_SETLK),
                                         NAMED(F_OFD_SETLKW),
                                         NAMED(F_SETLEASE),
                                         NAMED(F_GETLEASE),
                                         NAMED(F_NOTIFY),
                                         NAMED(F_DUPFD_CLOEXEC),
                                         NAMED(F_SETPIPE_SZ),
                                         NAMED(F_GETPIPE_SZ),
                                         NAMED(F_ADD_SEALS),
                                         NAMED(F_GET_SEALS),
                                         NAMED(F_GET_RW_HINT),
                                         NAMED(F_SET_RW_HINT),
                                         NAMED(F_GET_FILE_RW_HINT),
                                         NAMED(F_SET_FILE_RW_HINT)};

constexpr NamedValue kFileAdvice[] = {NAMED(POSIX_FADV_NORMAL),     NAMED(POSIX_FADV_RANDOM),
                                      NAMED(POSIX_FADV_SEQUENTIAL), NAMED(POSIX_FADV_WILLNEED),
                                      NAMED(POSIX_FADV_DONTNEED),   NAMED(POSIX_FADV_NOREUSE)};

constexpr NamedValue kFallocateBits[] = {
    NAMED(FALLOC_FL_KEEP_SIZE),  NAMED(FALLOC_FL_PUNCH_HOLE),   NAMED(FALLOC_FL_COLLAPSE_RANGE),
    NAMED(FALLOC_FL_ZERO_RANGE), NAMED(FALLOC_FL_INSERT_RANGE), NAMED(FALLOC_FL_UNSHARE_RANGE)};

constexpr NamedValue kFlockBits[] = {NAMED(LOCK_SH), NAMED(LOCK_EX), NAMED(LOCK_NB),
                                     NAMED(LOCK_UN)};

constexpr NamedValue kReadWriteBits[] = {NAMED(RWF_HIPRI), NAMED(RWF_DSYNC), NAMED(RWF_SYNC),
                                         NAMED(RWF_NOWAIT), NAMED(RWF_APPEND)};

constexpr NamedValue kRenameBits[] = {NAMED(RENAME_NOREPLACE), NAMED(RENAME_EXCHANGE),
                                      NAMED(RENAME_WHITEOUT)};

constexpr NamedValue kResolveBits[] = {NAMED(RESOLVE_NO_XDEV),     NAMED(RESOLVE_NO_MAGICLINKS),
                                       NAMED(RESOLVE_NO_SYMLINKS), NAMED(RESOLVE_BENEATH),
                                       NAMED(RESOLVE_IN_ROOT),     NAMED(RESOLVE_CACHED)};

constexpr NamedValue kSpliceBits[] = {NAMED(SPLICE_F_MOVE), NAMED(SPLICE_F_NONBLOCK),
                                      NAMED(SPLICE_F_MORE), NAMED(SPLICE_F_GIFT)};

constexpr NamedValue kStatxBits[] = {
    NAMED(STATX_BASIC_STATS), NAMED(STATX_TYPE),  NAMED(STATX_MODE),  NAMED(STATX_NLINK),
    NAMED(STATX_UID),         NAMED(STATX_GID),   NAMED(STATX_ATIME), NAMED(STATX_MTIME),
    NAMED(STATX_CTIME),       NAMED(STATX_INO),   NAMED(STATX_SIZE),  NAMED(STATX_BLOCKS),
    NAMED(STATX_BTIME),       NAMED(STATX_MNT_ID)};

constexpr NamedValue kInotifyBits[] = {
    NAMED(IN_ACCESS),        NAMED(IN_MODIFY),      NAMED(IN_ATTRIB),      NAMED(IN_CLOSE_WRITE),
    NAMED(IN_CLOSE_NOWRITE), NAMED(IN_OPEN),        NAMED(IN_MOVED_FROM),  NAMED(IN_MOVED_TO),
    NAMED(IN_CREATE),        NAMED(IN_DELETE),      NAMED(IN_DELETE_SELF), NAMED(IN_MOVE_SELF),
    NAMED(IN_ONLYDIR),       NAMED(IN_DONT_FOLLOW), NAMED(IN_EXCL_UNLINK), NAMED(IN_MASK_CREATE),
    NAMED(IN_MASK_ADD),      NAMED(IN_ISDIR),       NAMED(IN_ONESHOT)};

constexpr NamedValue kUringBits[] = {NAMED(IORING_ENTER_GETEVENTS), NAMED(IORING_ENTER_SQ_WAKEUP),
                                     NAMED(IORING_ENTER_SQ_WAIT), NAMED(IORING_ENTER_EXT_ARG)};

constexpr NamedValue kSocketDomains[] = {NAMED(AF_UNSPEC), NAMED(AF_UNIX),      NAMED(AF_INET),
                                         NAMED(AF_INET6),  NAMED(AF_NETLINK),   NAMED(AF_PACKET),
                                         NAMED(AF_VSOCK),  NAMED(AF_BLUETOOTH), NAMED(AF_ALG),
                                         NAMED(AF_XDP),    NAMED(AF_IB)};

constexpr NamedValue kSocketTypes[] = {NAMED(SOCK_STREAM), NAMED(SOCK_DGRAM),     NAMED(SOCK_RAW),
                                       NAMED(SOCK_RDM),    NAMED(SOCK_SEQPACKET), NAMED(SOCK_DCCP),
                                       NAMED(SOCK_PACKET)};

constexpr NamedValue kSocketTypeBits[] = {NAMED(SOCK_NONBLOCK), NAMED(SOCK_CLOEXEC)};

constexpr NamedValue kMessageBits[] = {
    NAMED(MSG_OOB),         NAMED(MSG_PEEK),     NAMED(MSG_DONTROUTE), NAMED(MSG_CTRUNC),
    NAMED(MSG_PROXY),       NAMED(MSG_TRUNC),    NAMED(MSG_DONTWAIT),  NAMED(MSG_EOR),
    NAMED(MSG_WAITALL),     NAMED(MSG_FIN),      NAMED(MSG_SYN),       NAMED(MSG_CONFIRM),
    NAMED(MSG_RST),         NAMED(MSG_ERRQUEUE), NAMED(MSG_NOSIGNAL),  NAMED(MSG_MORE),
    NAMED(MSG_WAITFORONE),  NAMED(MSG_BATCH),    NAMED(MSG_ZEROCOPY),  NAMED(MSG_FASTOPEN),
    NAMED(MSG_CMSG_CLOEXEC)};

constexpr NamedValue kShutdownHow[] = {NAMED(SHUT_RD), NAMED(SHUT_WR), NAMED(SHUT_RDWR)};

constexpr NamedValue kSocketLevels[] = {NAMED(SOL_IP),     NAMED(SOL_SOCKET), NAMED(SOL_TCP),
                                        NAMED(SOL_UDP),    NAMED(SOL_IPV6),   NAMED(SOL_PACKET),
                                        NAMED(SOL_NETLINK)};

constexpr NamedValue kProtectionBits[] = {NAMED(PROT_READ), NAMED(PROT_WRITE), NAMED(PROT_EXEC),
                                          NAMED(PROT_GROWSDOWN), NAMED(PROT_GROWSUP)};

constexpr NamedValue kMapTypes[] = {NAMED(MAP_SHARED), NAMED(MAP_PRIVATE),
                                    NAMED(MAP_SHARED_VALIDATE)};

constexpr NamedValue kMapBits[] = {
    NAMED(MAP_FIXED),     NAMED(MAP_ANONYMOUS),      NAMED(MAP_32BIT),  NAMED(MAP_GROWSDOWN),
    NAMED(MAP_DENYWRITE), NAMED(MAP_EXECUTABLE),     NAMED(MAP_LOCKED), NAMED(MAP_NORESERVE),
    NAMED(MAP_POPULATE),  NAMED(MAP_NONBLOCK),       NAMED(MAP_STACK),  NAMED(MAP_HUGETLB),
    NAMED(MAP_SYNC),      NAMED(MAP_FIXED_NOREPLACE)};

constexpr NamedValue kRemapBits[] = {NAMED(MREMAP_MAYMOVE), NAMED(MREMAP_FIXED),
                                     NAMED(MREMAP_DONTUNMAP)};

constexpr NamedValue kMapSyncBits[] = {NAMED(MS_ASYNC), NAMED(MS_INVALIDATE), NAMED(MS_SYNC)};

constexpr NamedValue kMemoryAdvice[] = {
    NAMED(MADV_NORMAL),           NAMED(MADV_RANDOM),
    NAMED(MADV_SEQUENTIAL),       NAMED(MADV_WILLNEED),
    NAMED(MADV_DONTNEED),         NAMED(MADV_FREE),
    NAMED(MADV_REMOVE),           NAMED(MADV_DONTFORK),
    NAMED(MADV_DOFORK),           NAMED(MADV_MERGEABLE),
    NAMED(MADV_UNMERGEABLE),      NAMED(MADV_HUGEPAGE),
    NAMED(MADV_NOHUGEPAGE),       NAMED(MADV_DONTDUMP),
    NAMED(MADV_DODUMP),           NAMED(MADV_WIPEONFORK),
    NAMED(MADV_KEEPONFORK),       NAMED(MADV_COLD),
    NAMED(MADV_PAGEOUT),          NAMED(MADV_POPULATE_READ),
    NAMED(MADV_POPULATE_WRITE),   {kDontNeedLocked, "MADV_DONTNEED_LOCKED"},
    {kCollapse, "MADV_COLLAPSE"}, NAMED(MADV_HWPOISON)};

constexpr NamedValue kMemoryLockBits[] = {NAMED(MCL_CURRENT), NAMED(MCL_FUTURE),
                                          NAMED(MCL_ONFAULT)};

constexpr NamedValue kMemoryFileBits[] = {NAMED(MFD_CLOEXEC), NAMED(MFD_ALLOW_SEALING),
                                          NAMED(MFD_HUGETLB)};

constexpr NamedValue kEpollOperations[] = {NAMED(EPOLL_CTL_ADD), NAMED(EPOLL_CTL_DEL),
                                           NAMED(EPOLL_CTL_MOD)};

constexpr NamedValue kEventFdBits[] = {NAMED(EFD_SEMAPHORE), NAMED(EFD_NONBLOCK),
                                       NAMED(EFD_CLOEXEC)};

constexpr NamedValue kTimerFdBits[] = {NAMED(TFD_TIMER_ABSTIME), NAMED(TFD_TIMER_CANCEL_ON_SET),
                                       NAMED(TFD_NONBLOCK), NAMED(TFD_CLOEXEC)};

constexpr NamedValue kTimerBits[] = {NAMED(TIMER_ABSTIME)};

constexpr NamedValue kClocks[] = {NAMED(CLOCK_REALTIME),
                                  NAMED(CLOCK_MONOTONIC),
                                  NAMED(CLOCK_PROCESS_CPUTIME_ID),
                                  NAMED(CLOCK_THREAD_CPUTIME_ID),
                                  NAMED(CLOCK_MONOTONIC_RAW),
                                  NAMED(CLOCK_REALTIME_COARSE),
                                  NAMED(CLOCK_MONOTONIC_COARSE),
                                  NAMED(CLOCK_BOOTTIME),
                                  NAMED(CLOCK_REALTIME_ALARM),
                                  NAMED(CLOCK_BOOTTIME_ALARM),
                                  NAMED(CLOCK_TAI)};

constexpr NamedValue kFutexCommands[] = {
    NAMED(FUTEX_WAIT),           NAMED(FUTEX_WAKE),        NAMED(FUTEX_FD),
    NAMED(FUTEX_REQUEUE),        NAMED(FUTEX_CMP_REQUEUE), NAMED(FUTEX_WAKE_OP),
    NAMED(FUTEX_LOCK_PI),        NAMED(FUTEX_UNLOCK_PI),   NAMED(FUTEX_TRYLOCK_PI),
    NAMED(FUTEX_WAIT_BITSET),    NAMED(FUTEX_WAKE_BITSET), NAMED(FUTEX_WAIT_REQUEUE_PI),
    NAMED(FUTEX_CMP_REQUEUE_PI), NAMED(FUTEX_LOCK_PI2)};

constexpr NamedValue kFutexBits[] = {NAMED(FUTEX_PRIVATE_FLAG), NAMED(FUTEX_CLOCK_REALTIME)};

constexpr NamedValue kCloneBits[] = {NAMED(CLONE_VM),
                                     NAMED(CLONE_FS),
                                     NAMED(CLONE_FILES),
                                     NAMED(CLONE_SIGHAND),
                                     NAMED(CLONE_PIDFD),
                                     NAMED(CLONE_PTRACE),
                                     NAMED(CLONE_VFORK),
                                     NAMED(CLONE_PARENT),
                                     NAMED(CLONE_THREAD),
                                     NAMED(CLONE_NEWNS),
                                     NAMED(CLONE_SYSVSEM),
                                     NAMED(CLONE_SETTLS),
                                     NAMED(CLONE_PARENT_SETTID),
                                     NAMED(CLONE_CHILD_CLEARTID),
                                     NAMED(CLONE_DETACHED),
                                     NAMED(CLONE_UNTRACED),
                                     NAMED(CLONE_CHILD_SETTID),
                                     NAMED(CLONE_NEWCGROUP),
                                     NAMED(CLONE_NEWUTS),
                                     NAMED(CLONE_NEWIPC),
                                     NAMED(CLONE_NEWUSER),
                                     NAMED(CLONE_NEWPID),
                                     NAMED(CLONE_NEWNET),
                                     NAMED(CLONE_IO)};

constexpr NamedValue kWaitBits[] = {NAMED(WNOHANG),    NAMED(WUNTRACED), NAMED(WEXITED),
                                    NAMED(WCONTINUED), NAMED(WNOWAIT),   NAMED(__WNOTHREAD),
                                    NAMED(__WALL),     NAMED(__WCLONE)};

constexpr NamedValue kSignalMaskHow[] = {NAMED(SIG_BLOCK), NAMED(SIG_UNBLOCK), NAMED(SIG_SETMASK)};

constexpr NamedValue kPolicies[] = {NAMED(SCHED_OTHER), NAMED(SCHED_FIFO), NAMED(SCHED_RR),
                                    NAMED(SCHED_BATCH), NAMED(SCHED_IDLE), NAMED(SCHED_DEADLINE)};

constexpr NamedValue kResources[] = {
    NAMED(RLIMIT_CPU),      NAMED(RLIMIT_FSIZE), NAMED(RLIMIT_DATA),   NAMED(RLIMIT_STACK),
    NAMED(RLIMIT_CORE),     NAMED(RLIMIT_RSS),   NAMED(RLIMIT_NPROC),  NAMED(RLIMIT_NOFILE),
    NAMED(RLIMIT_MEMLOCK),  NAMED(RLIMIT_AS),    NAMED(RLIMIT_LOCKS),  NAMED(RLIMIT_SIGPENDING),
    NAMED(RLIMIT_MSGQUEUE), NAMED(RLIMIT_NICE),  NAMED(RLIMIT_RTPRIO), NAMED(RLIMIT_RTTIME)};

constexpr NamedValue kPrctlOptions[] = {NAMED(PR_SET_PDEATHSIG),
                                        NAMED(PR_GET_PDEATHSIG),
                                        NAMED(PR_GET_DUMPABLE),
                                        NAMED(PR_SET_DUMPABLE),
                                        NAMED(PR_GET_KEEPCAPS),
                                        NAMED(PR_SET_KEEPCAPS),
                                        NAMED(PR_SET_NAME),
                                        NAMED(PR_GET_NAME),
                                        NAMED(PR_GET_SECCOMP),
                                        NAMED(PR_SET_SECCOMP),
                                        NAMED(PR_CAPBSET_READ),
                                        NAMED(PR_CAPBSET_DROP),
                                        NAMED(PR_GET_SECUREBITS),
                                        NAMED(PR_SET_SECUREBITS),
                                        NAMED(PR_SET_TIMERSLACK),
                                        NAMED(PR_GET_TIMERSLACK),
                                        NAMED(PR_SET_MM),
                                        NAMED(PR_SET_CHILD_SUBREAPER),
                                        NAMED(PR_GET_CHILD_SUBREAPER),
                                        NAMED(PR_SET_NO_NEW_PRIVS),
                                        NAMED(PR_GET_NO_NEW_PRIVS),
                                        NAMED(PR_SET_THP_DISABLE),
                                        NAMED(PR_GET_THP_DISABLE),
                                        NAMED(PR_CAP_AMBIENT),
                                        NAMED(PR_GET_SPECULATION_CTRL),
                                        NAMED(PR_SET_SPECULATION_CTRL),
                                        NAMED(PR_SET_PTRACER),
                                        {kSetVma, "PR_SET_VMA"}};

constexpr NamedValue kMembarrierCommands[] = {
    NAMED(MEMBARRIER_CMD_QUERY),
    NAMED(MEMBARRIER_CMD_GLOBAL),
    NAMED(MEMBARRIER_CMD_GLOBAL_EXPEDITED),
    NAMED(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED),
    NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
    NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
    NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE),
    NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE),
    NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ),
    NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)};

constexpr NamedValue kRandomBits[] = {NAMED(GRND_NONBLOCK), NAMED(GRND_RANDOM),
                                      NAMED(GRND_INSECURE)};
constexpr NamedValue kAccessAtBits[] = {NAMED(AT_EACCESS), NAMED(AT_SYMLINK_NOFOLLOW),
                                        NAMED(AT_EMPTY_PATH)};
constexpr NamedValue kSocketOptions[] = {
    NAMED(SO_DEBUG),         NAMED(SO_REUSEADDR),   NAMED(SO_TYPE),         NAMED(SO_ERROR),
    NAMED(SO_DONTROUTE),     NAMED(SO_BROADCAST),   NAMED(SO_SNDBUF),       NAMED(SO_RCVBUF),
    NAMED(SO_KEEPALIVE),     NAMED(SO_OOBINLINE),   NAMED(SO_PRIORITY),     NAMED(SO_LINGER),
    NAMED(SO_REUSEPORT),     NAMED(SO_PASSCRED),    NAMED(SO_PEERCRED),     NAMED(SO_RCVLOWAT),
    NAMED(SO_SNDLOWAT),      NAMED(SO_RCVTIMEO),    NAMED(SO_SNDTIMEO),     NAMED(SO_BINDTODEVICE),
    NAMED(SO_ATTACH_FILTER), NAMED(SO_TIMESTAMP),   NAMED(SO_ACCEPTCONN),   NAMED(SO_PEERSEC),
    NAMED(SO_SNDBUFFORCE),   NAMED(SO_RCVBUFFORCE), NAMED(SO_MARK),         NAMED(SO_PROTOCOL),
    NAMED(SO_DOMAIN),        NAMED(SO_BUSY_POLL),   NAMED(SO_INCOMING_CPU), NAMED(SO_ZEROCOPY)};
constexpr NamedValue kTcpOptions[] = {
    NAMED(TCP_NODELAY),       NAMED(TCP_MAXSEG),       NAMED(TCP_CORK),
    NAMED(TCP_KEEPIDLE),      NAMED(TCP_KEEPINTVL),    NAMED(TCP_KEEPCNT),
    NAMED(TCP_SYNCNT),        NAMED(TCP_LINGER2),      NAMED(TCP_DEFER_ACCEPT),
    NAMED(TCP_WINDOW_CLAMP),  NAMED(TCP_INFO),         NAMED(TCP_QUICKACK),
    NAMED(TCP_CONGESTION),    NAMED(TCP_USER_TIMEOUT), NAMED(TCP_FASTOPEN),
    NAMED(TCP_NOTSENT_LOWAT), NAMED(TCP_INQ),          NAMED(TCP_ZEROCOPY_RECEIVE)};
constexpr NamedValue kPolicyBits[] = {NAMED(SCHED_RESET_ON_FORK)};

#undef NAMED

// The argument's bits in `value_mask` are one value, the others are bits.
struct KindNames {
  ArgumentKind kind;
  std::span<const NamedValue> values;
  uint32_t value_mask = 0;
  std::span<const NamedValue> bits;
  std::string_view zero = "0";  // of an argument that is 0, where no value is
};

constexpr uint32_t kAll = 0xffffffff;
constexpr uint32_t kSocketTypeMask = 0xf;
constexpr uint32_t kMapTypeMask = 0xf;
constexpr uint32_t kExitSignalMask = 0xff;  // CSIGNAL
// Bits that only clone3 has (linux/sched.h, later than some headers).
constexpr uint32_t kNewTime = 0x80;
constexpr uint64_t kClearSignalHandlers = uint64_t{1} << 32;
constexpr uint64_t kIntoCgroup = uint64_t{1} << 33;

constexpr KindNames kKinds[] = {
    {ArgumentKind::kClock, kClocks, kAll, {}},
    {ArgumentKind::kTimerFlags, {}, 0, kTimerBits},
    {ArgumentKind::kOpenFlags, kOpenAccess, O_ACCMODE, kOpenBits},
    {ArgumentKind::kDescriptorFlags, {}, 0, kDescriptorBits},
    {ArgumentKind::kCloseRangeFlags, {}, 0, kCloseRangeBits},
    {ArgumentKind::kSyncRangeFlags, {}, 0, kSyncRangeBits},
    {ArgumentKind::kEpollFlags, {}, 0, kEpollBits},
    {ArgumentKind::kInotifyFlags, {}, 0, kInotifyFlagBits},
    {ArgumentKind::kSignalFdFlags, {}, 0, kSignalFdBits},
    {ArgumentKind::kAccessMode, {}, 0, kAccessBits, "F_OK"},
    {ArgumentKind::kAtFlags, {}, 0, kAtBits},
    {ArgumentKind::kAccessAtFlags, {}, 0, kAccessAtBits},
    {ArgumentKind::kWhence, kWhence, kAll, {}},
    {ArgumentKind::kFcntlCommand, kFcntlCommands, kAll, {}},
    {ArgumentKind::kFileAdvice, kFileAdvice, kAll, {}},
    {ArgumentKind::kFallocateMode, {}, 0, kFallocateBits},
    {ArgumentKind::kFlockOperation, {}, 0, kFlockBits},
    {ArgumentKind::kReadWriteFlags, {}, 0, kReadWriteBits},
    {ArgumentKind::kRenameFlags, {}, 0, kRenameBits},
    {ArgumentKind::kResolveFlags, {}, 0, kResolveBits},
    {ArgumentKind::kSpliceFlags, {}, 0, kSpliceBits},
    {ArgumentKind::kStatxMask, {}, 0, kStatxBits},
    {ArgumentKind::kInotifyMask, {}, 0, kInotifyBits},
    {ArgumentKind::kUringFlags, {}, 0, kUringBits},
    {ArgumentKind::kSocketDomain, kSocketDomains, kAll, {}},
    {ArgumentKind::kSocketType, kSocketTypes, kSocketTypeMask, kSocketTypeBits},
    {ArgumentKind::kSocketLevel, kSocketLevels, kAll, {}},
    {ArgumentKind::kSocketOption, kSocketOptions, kAll, {}},
    {ArgumentKind::kTcpOption, kTcpOptions, kAll, {}},
    {ArgumentKind::kMessageFlags, {}, 0, kMessageBits},
    {ArgumentKind::kShutdownHow, kShutdownHow, kAll, {}},
    {ArgumentKind::kProtection, {}, 0, kProtectionBits, "PROT_NONE"},
    {ArgumentKind::kMapFlags, kMapTypes, kMapTypeMask, kMapBits},
    {ArgumentKind::kRemapFlags, {}, 0, kRemapBits},
    {ArgumentKind::kMapSyncFlags, {}, 0, kMapSyncBits},
    {ArgumentKind::kMemoryAdvice, kMemoryAdvice, kAll, {}},
    {ArgumentKind::kMemoryLockFlags, {}, 0, kMemoryLockBits},
    {ArgumentKind::kMemoryFileFlags, {}, 0, kMemoryFileBits},
    {ArgumentKind::kEpollOperation, kEpollOperations, kAll, {}},
    {ArgumentKind::kEventFdFlags, {}, 0, kEventFdBits},
    {ArgumentKind::kTimerFdFlags, {}, 0, kTimerFdBits},
    {ArgumentKind::kFutexOperation, kFutexCommands, static_cast<uint32_t>(FUTEX_CMD_MASK),
     kFutexBits},
    {ArgumentKind::kWaitOptions, {}, 0, kWaitBits},
    {ArgumentKind::kSignalMaskHow, kSignalMaskHow, kAll, {}},
    {ArgumentKind::kPolicy, kPolicies, ~uint32_t{SCHED_RESET_ON_FORK}, kPolicyBits},
    {ArgumentKind::kResource, kResources, kAll, {}},
    {ArgumentKind::kPrctlOption, kPrctlOptions, kAll, {}},
    {ArgumentKind::kMembarrierCommand, kMembarrierCommands, kAll, {}},
    {ArgumentKind::kRandomFlags, {}, 0, kRandomBits},
};

const KindNames* NamesOf(ArgumentKind kind) {
  for (const KindNames& names : kKinds) {
    if (names.kind == kind) return &names;
  }
  return nullptr;
}

void Add(std::string_view name, std::string* text) {
  if (!text->empty()) *text += '|';
  *text += name;
}

void AddBits(std::span<const NamedValue> bits, uint32_t value, std::string* text) {
  for (const NamedValue& bit : bits) {
    if ((value & bit.value) != bit.value) continue;
    Add(bit.name, text);
    value &= ~bit.value;
  }
  if (value != 0) Add(HexText(value), text);
}

std::string TextOf(const KindNames& names, uint32_t value) {
  std::string text;
  if (names.value_mask != 0) {
    const uint32_t wanted = value & names.value_mask;
    for (const NamedValue& named : names.values) {
      if (named.value != wanted) continue;
      text = named.name;
      break;
    }
    // A value of bits only, as in accept4's flags, has no 0.
    if (text.empty() && (wanted != 0 || names.bits.empty())) {
      text = names.bits.empty() ? std::to_string(static_cast<int32_t>(wanted)) : HexText(wanted);
    }
  }
  AddBits(names.bits, value & ~names.value_mask, &text);
  if (text.empty()) text = names.zero;
  return text;
}

// The signal that the parent gets is in the lowest bits.
std::string CloneText(uint32_t value) {
  std::string text;
  AddBits(kCloneBits, value & ~kExitSignalMask, &text);
  const uint32_t signal = value & kExitSignalMask;
  if (signal != 0) Add(SignalName(static_cast<int>(signal)), &text);
  return text.empty() ? "0" : text;
}

// Without a signal.
std::string Clone3Text(uint64_t value) {
  std::string text;
  AddBits(kCloneBits, static_cast<uint32_t>(value) & ~kNewTime, &text);
  if ((value & kNewTime) != 0) Add("CLONE_NEWTIME", &text);
  if ((value & kClearSignalHandlers) != 0) Add("CLONE_CLEAR_SIGHAND", &text);
  if ((value & kIntoCgroup) != 0) Add("CLONE_INTO_CGROUP", &text);
  const uint64_t rest = (value >> 32 << 32) & ~(kClearSignalHandlers | kIntoCgroup);
  if (rest != 0) Add(HexText(rest), &text);
  return text.empty() ? "0" : text;
}

std::string OctalText(uint32_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 8);
  return "0" + std::string(digits.data(), end.ptr);
}

}  // namespace

std::string HexText(uint64_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return "0x" + std::string(digits.data(), end.ptr);
}

bool HasFlagsText(ArgumentKind kind) {
  return kind == ArgumentKind::kSignal || kind == ArgumentKind::kCloneFlags ||
         kind == ArgumentKind::kClone3Flags || kind == ArgumentKind::kMode ||
         kind == ArgumentKind::kIoctlRequest || NamesOf(kind) != nullptr;
}

std::string FlagsText(ArgumentKind kind, uint64_t value) {
  if (kind == ArgumentKind::kClone3Flags) return Clone3Text(value);
  // The kernel looks at 32 bits of all others.
  const uint32_t low = static_cast<uint32_t>(value);
  if (kind == ArgumentKind::kSignal) return SignalName(static_cast<int>(low));
  if (kind == ArgumentKind::kCloneFlags) return CloneText(low);
  if (kind == ArgumentKind::kMode) return OctalText(low);
  if (kind == ArgumentKind::kIoctlRequest) return IoctlRequestText(low);
  const KindNames* names = NamesOf(kind);
  return names == nullptr ? HexText(value) : TextOf(*names, low);
}

}  // namespace proftrace
