#include "userspace/model/system_call_rows.h"

namespace proftrace {
namespace {

using K = ArgumentKind;
constexpr CallClass kOther = CallClass::kOther;
constexpr CallClass kLock = CallClass::kLock;
constexpr CallClass kMessageQueue = CallClass::kQueue;
constexpr CallClass kSleep = CallClass::kSleep;
constexpr CallClass kChild = CallClass::kChild;
constexpr CallClass kForSignal = CallClass::kSignal;
constexpr CallClass kMemory = CallClass::kMemory;
constexpr CallClass kProcess = CallClass::kProcess;

constexpr ArgumentInfo kMapLength{"length", K::kSize};
constexpr ArgumentInfo kProt{"prot", K::kFlags};
constexpr ArgumentInfo kAdvice{"advice", K::kInt};
constexpr ArgumentInfo kNodeMask{"nodemask", K::kPointer};
constexpr ArgumentInfo kMaxNode{"maxnode", K::kUnsigned};
constexpr ArgumentInfo kUaddr{"uaddr", K::kPointer};
constexpr ArgumentInfo kVal{"val", K::kUnsigned};
constexpr ArgumentInfo kTp{"tp", K::kPointer};
constexpr ArgumentInfo kTv{"tv", K::kPointer};
constexpr ArgumentInfo kRem{"rem", K::kPointer};
constexpr ArgumentInfo kStack{"stack", K::kPointer};
constexpr ArgumentInfo kParentTid{"parent_tid", K::kPointer};
constexpr ArgumentInfo kChildTid{"child_tid", K::kPointer};
constexpr ArgumentInfo kTls{"tls", K::kHex};
constexpr ArgumentInfo kArgv{"argv", K::kPointer};
constexpr ArgumentInfo kEnvp{"envp", K::kPointer};
constexpr ArgumentInfo kStatus{"status", K::kInt};
constexpr ArgumentInfo kWaitStatus{"wstatus", K::kPointer};
constexpr ArgumentInfo kOptions{"options", K::kFlags};
constexpr ArgumentInfo kTid{"tid", K::kInt};
constexpr ArgumentInfo kTgid{"tgid", K::kInt};
constexpr ArgumentInfo kInfo{"info", K::kPointer};
constexpr ArgumentInfo kAct{"act", K::kPointer};
constexpr ArgumentInfo kOldAct{"oldact", K::kPointer};
constexpr ArgumentInfo kMaskHow{"how", K::kInt};
constexpr ArgumentInfo kSet{"set", K::kPointer};
constexpr ArgumentInfo kOldSet{"oldset", K::kPointer};
constexpr ArgumentInfo kPolicy{"policy", K::kInt};
constexpr ArgumentInfo kParam{"param", K::kPointer};
constexpr ArgumentInfo kCpuSetSize{"cpusetsize", K::kUnsigned};
constexpr ArgumentInfo kCpuMask{"mask", K::kPointer};
constexpr ArgumentInfo kResource{"resource", K::kInt};
constexpr ArgumentInfo kRlim{"rlim", K::kPointer};
constexpr ArgumentInfo kWhich{"which", K::kInt};
constexpr ArgumentInfo kWho{"who", K::kInt};
constexpr ArgumentInfo kSemId{"semid", K::kInt};
constexpr ArgumentInfo kSops{"sops", K::kPointer};
constexpr ArgumentInfo kNsops{"nsops", K::kUnsigned};
constexpr ArgumentInfo kKey{"key", K::kFlags};
constexpr ArgumentInfo kDeadline{"abs_timeout", K::kDeadline};
constexpr ArgumentInfo kQueue{"mqdes", K::kFd};
constexpr ArgumentInfo kMsgPointer{"msg_ptr", K::kPointer};
constexpr ArgumentInfo kMsgLength{"msg_len", K::kSize};
constexpr ArgumentInfo kTimerId{"timerid", K::kInt};
constexpr ArgumentInfo kCurrValue{"curr_value", K::kPointer};
constexpr ArgumentInfo kNewValue{"new_value", K::kPointer};
constexpr ArgumentInfo kOldValue{"old_value", K::kPointer};
constexpr ArgumentInfo kTimerFlags{"flags", K::kTimerFlags};
constexpr ArgumentInfo kUid{"uid", K::kInt};
constexpr ArgumentInfo kGid{"gid", K::kInt};
constexpr ArgumentInfo kLocalIov{"local_iov", K::kPointer};
constexpr ArgumentInfo kLocalCount{"liovcnt", K::kUnsigned};
constexpr ArgumentInfo kRemoteIov{"remote_iov", K::kPointer};
constexpr ArgumentInfo kRemoteCount{"riovcnt", K::kUnsigned};
constexpr ArgumentInfo kPidFd{"pidfd", K::kFd};

constexpr SystemCallRow kRows[] = {
    // Memory.
    {"mmap", kMemory, {kAddr, kMapLength, kProt, kFlags, kFd, kOffset}},
    {"munmap", kMemory, {kAddr, kMapLength}},
    {"mremap",
     kMemory,
     {Pointer("old_address"),
      {"old_size", K::kOtherSize},
      {"new_size", K::kSize},
      kFlags,
      Pointer("new_address")}},
    {"mprotect", kMemory, {kAddr, kLen, kProt}},
    {"pkey_mprotect", kMemory, {kAddr, kLen, kProt, Int("pkey")}},
    {"pkey_alloc", kMemory, {kFlags, Flags("access_rights")}},
    {"pkey_free", kMemory, {Int("pkey")}},
    {"madvise", kMemory, {kAddr, kMapLength, kAdvice}},
    {"process_madvise", kMemory, {kPidFd, Pointer("iovec"), Unsigned("vlen"), kAdvice, kFlags}},
    {"process_mrelease", kMemory, {kPidFd, kFlags}},
    {"mseal", kMemory, {kAddr, kLen, kFlags}},
    {"map_shadow_stack", kMemory, {kAddr, kSize, kFlags}},
    {"msync", CallClass::kFileIo, {kAddr, kMapLength, kFlags}},
    {"mincore", kMemory, {kAddr, kMapLength, Pointer("vec")}},
    {"mlock", kMemory, {kAddr, kLen}},
    {"mlock2", kMemory, {kAddr, kLen, kFlags}},
    {"munlock", kMemory, {kAddr, kLen}},
    {"mlockall", kMemory, {kFlags}},
    {"munlockall", kMemory, {}},
    {"brk", kMemory, {kAddr}},
    {"remap_file_pages", kMemory, {kAddr, kSize, kProt, Unsigned("pgoff"), kFlags}},
    {"mbind", kMemory, {kAddr, kLen, Int("mode"), kNodeMask, kMaxNode, kFlags}},
    {"set_mempolicy", kMemory, {Int("mode"), kNodeMask, kMaxNode}},
    {"get_mempolicy", kMemory, {Pointer("mode"), kNodeMask, kMaxNode, kAddr, kFlags}},
    {"set_mempolicy_home_node", kMemory, {kAddr, kLen, Unsigned("home_node"), kFlags}},
    {"migrate_pages", kMemory, {kPid, kMaxNode, Pointer("old_nodes"), Pointer("new_nodes")}},
    {"move_pages",
     kMemory,
     {kPid, kCount, Pointer("pages"), Pointer("nodes"), Pointer("status"), kFlags}},
    {"userfaultfd", kMemory, {kFlags}, kGivesFile},
    {"membarrier", kMemory, {Int("cmd"), kFlags, Int("cpu_id")}},
    {"shmget", kMemory, {kKey, kSize, Flags("shmflg")}},
    {"shmat", kMemory, {Int("shmid"), Pointer("shmaddr"), Flags("shmflg")}},
    {"shmdt", kMemory, {Pointer("shmaddr")}},
    {"shmctl", kMemory, {Int("shmid"), kCmd, kBuf}},
    {"process_vm_readv", kMemory, {kPid, kLocalIov, kLocalCount, kRemoteIov, kRemoteCount, kFlags}},
    {"process_vm_writev",
     kMemory,
     {kPid, kLocalIov, kLocalCount, kRemoteIov, kRemoteCount, kFlags}},
    // Locks, semaphores, queues.
    {"futex",
     kLock,
     {kUaddr, {"op", K::kFutexOperation}, kVal, kTimeout, Pointer("uaddr2"), Unsigned("val3")}},
    {"futex_waitv",
     kLock,
     {Pointer("waiters"), Unsigned("nr_futexes"), kFlags, {"timeout", K::kDeadline}, kClock}},
    {"futex_wait", kLock, {kUaddr, kVal, Flags("mask"), kFlags, {"timeout", K::kDeadline}, kClock}},
    {"futex_wake", kLock, {kUaddr, Flags("mask"), Int("nr"), kFlags}},
    {"futex_requeue", kLock, {Pointer("waiters"), kFlags, Int("nr_wake"), Int("nr_requeue")}},
    {"set_robust_list", kOther, {Pointer("head"), kLen}},
    {"get_robust_list", kOther, {kPid, Pointer("head_ptr"), Pointer("len_ptr")}},
    {"semget", kOther, {kKey, Int("nsems"), Flags("semflg")}},
    {"semop", kLock, {kSemId, kSops, kNsops}},
    {"semtimedop", kLock, {kSemId, kSops, kNsops, kTimeout}},
    {"semctl", kOther, {kSemId, Int("semnum"), kCmd, Hex("arg")}},
    {"msgget", kOther, {kKey, Flags("msgflg")}},
    {"msgsnd", kMessageQueue, {Int("msqid"), Pointer("msgp"), kSize, Flags("msgflg")}},
    {"msgrcv",
     kMessageQueue,
     {Int("msqid"), Pointer("msgp"), kSize, Int("msgtyp"), Flags("msgflg")}},
    {"msgctl", kOther, {Int("msqid"), kCmd, kBuf}},
    {"mq_open", kOther, {Pointer("name"), kOpenFlags, kMode, Pointer("attr")}, kGivesFile},
    {"mq_unlink", kOther, {Pointer("name")}},
    {"mq_timedsend",
     kMessageQueue,
     {kQueue, kMsgPointer, kMsgLength, Unsigned("msg_prio"), kDeadline}},
    {"mq_timedreceive",
     kMessageQueue,
     {kQueue, kMsgPointer, kMsgLength, Pointer("msg_prio"), kDeadline}},
    {"mq_notify", kOther, {kQueue, Pointer("sevp")}},
    {"mq_getsetattr", kOther, {kQueue, Pointer("newattr"), Pointer("oldattr")}},
    // Times.
    {"nanosleep", kSleep, {{"req", K::kTimespec}, kRem}, kLeavesTime},
    {"clock_nanosleep", kSleep, {kClock, kTimerFlags, {"req", K::kTimespec}, kRem}, kLeavesTime},
    {"clock_gettime", kOther, {kClock, kTp}},
    {"clock_settime", kOther, {kClock, kTp}},
    {"clock_getres", kOther, {kClock, Pointer("res")}},
    {"clock_adjtime", kOther, {kClock, Pointer("buf")}},
    {"gettimeofday", kOther, {kTv, Pointer("tz")}},
    {"settimeofday", kOther, {kTv, Pointer("tz")}},
    {"adjtimex", kOther, {kBuf}},
    {"time", kOther, {Pointer("tloc")}},
    {"times", kOther, {kBuf}},
    {"alarm", kOther, {Unsigned("seconds")}},
    {"getitimer", kOther, {kWhich, kCurrValue}},
    {"setitimer", kOther, {kWhich, kNewValue, kOldValue}},
    {"timer_create", kOther, {kClock, Pointer("sevp"), Pointer("timerid")}},
    {"timer_settime", kOther, {kTimerId, kTimerFlags, kNewValue, kOldValue}},
    {"timer_gettime", kOther, {kTimerId, kCurrValue}},
    {"timer_getoverrun", kOther, {kTimerId}},
    {"timer_delete", kOther, {kTimerId}},
    // Processes and threads.
    {"clone", kProcess, {kFlags, kStack, kParentTid, kChildTid, kTls}},
    {"clone3", kProcess, {{"cl_args", K::kCloneArgs}, {"size", K::kStructureSize}}},
    {"fork", kProcess, {}},
    {"vfork", kChild, {}},
    {"execve", kProcess, {kPathname, kArgv, kEnvp}, kExecs},
    {"execveat", kProcess, {kDirFd, kPathname, kArgv, kEnvp, kAtFlags}, kExecs},
    {"exit", kProcess, {kStatus}, kEndsThread},
    {"exit_group", kProcess, {kStatus}, kEndsThread},
    {"wait4", kChild, {kPid, kWaitStatus, kOptions, Pointer("rusage")}},
    {"waitid", kChild, {Int("idtype"), Int("id"), Pointer("infop"), kOptions, Pointer("rusage")}},
    {"set_tid_address", kProcess, {Pointer("tidptr")}},
    {"restart_syscall", kOther, {{"restarts", K::kCallNumber}}},
    {"rseq", kProcess, {Pointer("rseq"), Unsigned("rseq_len"), kFlags, Flags("rseq_sig")}},
    {"unshare", kProcess, {kFlags}},
    {"setns", kProcess, {kFd, Flags("nstype")}},
    {"pidfd_open", kProcess, {kPid, kFlags}, kGivesFile},
    {"pidfd_getfd", kProcess, {kPidFd, {"targetfd", K::kOtherFd}, kFlags}, kGivesFile},
    {"pidfd_send_signal", kForSignal, {kPidFd, kSignal, kInfo, kFlags}},
    {"prctl", kProcess, {Int("op"), Hex("arg2"), Hex("arg3"), Hex("arg4"), Hex("arg5")}},
    {"arch_prctl", kProcess, {Hex("op"), kAddr}},
    {"ptrace", kProcess, {Int("op"), kPid, kAddr, Pointer("data")}},
    {"seccomp", kProcess, {Unsigned("operation"), kFlags, Pointer("args")}},
    {"kcmp", kProcess, {Int("pid1"), Int("pid2"), Int("type"), Hex("idx1"), Hex("idx2")}},
    {"getpid", kProcess, {}},
    {"getppid", kProcess, {}},
    {"gettid", kProcess, {}},
    {"getuid", kProcess, {}},
    {"geteuid", kProcess, {}},
    {"getgid", kProcess, {}},
    {"getegid", kProcess, {}},
    {"setuid", kProcess, {kUid}},
    {"setgid", kProcess, {kGid}},
    {"setreuid", kProcess, {Int("ruid"), Int("euid")}},
    {"setregid", kProcess, {Int("rgid"), Int("egid")}},
    {"setresuid", kProcess, {Int("ruid"), Int("euid"), Int("suid")}},
    {"setresgid", kProcess, {Int("rgid"), Int("egid"), Int("sgid")}},
    {"getresuid", kProcess, {Pointer("ruid"), Pointer("euid"), Pointer("suid")}},
    {"getresgid", kProcess, {Pointer("rgid"), Pointer("egid"), Pointer("sgid")}},
    {"setfsuid", kProcess, {Int("fsuid")}},
    {"setfsgid", kProcess, {Int("fsgid")}},
    {"getgroups", kProcess, {Int("size"), Pointer("list")}},
    {"setgroups", kProcess, {Unsigned("size"), Pointer("list")}},
    {"getpgid", kProcess, {kPid}},
    {"setpgid", kProcess, {kPid, Int("pgid")}},
    {"getpgrp", kProcess, {}},
    {"getsid", kProcess, {kPid}},
    {"setsid", kProcess, {}},
    {"capget", kProcess, {Pointer("hdrp"), Pointer("datap")}},
    {"capset", kProcess, {Pointer("hdrp"), Pointer("datap")}},
    {"personality", kProcess, {Flags("persona")}},
    // Signals.
    {"pause", kForSignal, {}},
    {"rt_sigsuspend", kForSignal, {Pointer("mask"), kSigsetSize}},
    {"rt_sigtimedwait", kForSignal, {kSet, kInfo, kTimeout, kSigsetSize}},
    {"rt_sigaction", kForSignal, {kSignal, kAct, kOldAct, kSigsetSize}},
    {"rt_sigprocmask", kForSignal, {kMaskHow, kSet, kOldSet, kSigsetSize}},
    {"rt_sigpending", kForSignal, {kSet, kSigsetSize}},
    {"rt_sigreturn", kForSignal, {}},
    {"sigaltstack", kForSignal, {Pointer("ss"), Pointer("old_ss")}},
    {"kill", kForSignal, {kPid, kSignal}},
    {"tkill", kForSignal, {kTid, kSignal}},
    {"tgkill", kForSignal, {kTgid, kTid, kSignal}},
    {"rt_sigqueueinfo", kForSignal, {kTgid, kSignal, kInfo}},
    {"rt_tgsigqueueinfo", kForSignal, {kTgid, kTid, kSignal, kInfo}},
    // Scheduling and limits.
    {"sched_yield", kOther, {}},
    {"sched_setaffinity", kOther, {kPid, kCpuSetSize, kCpuMask}},
    {"sched_getaffinity", kOther, {kPid, kCpuSetSize, kCpuMask}},
    {"sched_setscheduler", kOther, {kPid, kPolicy, kParam}},
    {"sched_getscheduler", kOther, {kPid}},
    {"sched_setparam", kOther, {kPid, kParam}},
    {"sched_getparam", kOther, {kPid, kParam}},
    {"sched_setattr", kOther, {kPid, Pointer("attr"), kFlags}},
    {"sched_getattr", kOther, {kPid, Pointer("attr"), Unsigned("size"), kFlags}},
    {"sched_get_priority_max", kOther, {kPolicy}},
    {"sched_get_priority_min", kOther, {kPolicy}},
    {"sched_rr_get_interval", kOther, {kPid, kTp}},
    {"getpriority", kOther, {kWhich, kWho}},
    {"setpriority", kOther, {kWhich, kWho, Int("prio")}},
    {"ioprio_get", kOther, {kWhich, kWho}},
    {"ioprio_set", kOther, {kWhich, kWho, Flags("ioprio")}},
    {"getcpu", kOther, {Pointer("cpu"), Pointer("node"), Pointer("tcache")}},
    {"getrlimit", kOther, {kResource, kRlim}},
    {"setrlimit", kOther, {kResource, kRlim}},
    {"prlimit64", kOther, {kPid, kResource, Pointer("new_limit"), Pointer("old_limit")}},
    {"getrusage", kOther, {kWho, Pointer("usage")}},
    // The machine.
    {"uname", kOther, {kBuf}},
    {"sysinfo", kOther, {kInfo}},
    {"getrandom", kOther, {kBuf, kSize, kFlags}},
    {"syslog", kOther, {Int("type"), Pointer("bufp"), Int("len")}},
    {"sethostname", kOther, {Pointer("name"), kLen}},
    {"bpf", kOther, {kCmd, Pointer("attr"), kSize}},
    {"perf_event_open",
     kOther,
     {Pointer("attr"), kPid, Int("cpu"), {"group_fd", K::kOtherFd}, kFlags},
     kGivesFile},
    {"add_key",
     kOther,
     {Pointer("type"), Pointer("description"), Pointer("payload"), kSize, Int("keyring")}},
    {"keyctl", kOther, {Int("operation"), Hex("arg2"), Hex("arg3"), Hex("arg4"), Hex("arg5")}},
};

}  // namespace

std::span<const SystemCallRow> OtherRows() { return kRows; }

}  // namespace proftrace
