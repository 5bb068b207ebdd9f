// Names of system calls, errors and signals, and what calls' arguments are.
#include "userspace/model/system_calls.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/system_call_rows.h"

namespace proftrace {
namespace {

constexpr SystemAbi kAbi = SystemAbi::kX86_64;

const SystemCallInfo& ByName(std::string_view name) {
  for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
    const SystemCallInfo* info = FindSystemCall(kAbi, number);
    if (info != nullptr && info->name == name) return *info;
  }
  ADD_FAILURE() << name;
  static const SystemCallInfo none;
  return none;
}

std::vector<SystemCallRow> AllRows() {
  std::vector<SystemCallRow> rows(FileAndSocketRows().begin(), FileAndSocketRows().end());
  rows.insert(rows.end(), OtherRows().begin(), OtherRows().end());
  return rows;
}

std::set<std::string_view> AllNames() {
  std::set<std::string_view> names;
  for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
    const SystemCallInfo* info = FindSystemCall(kAbi, number);
    if (info != nullptr) names.insert(info->name);
  }
  return names;
}

TEST(SystemCallTest, CallsNewerThanTheHeadersHaveNames) {
  EXPECT_EQ(SystemCallName(kAbi, 451), "cachestat");
  EXPECT_EQ(SystemCallName(kAbi, 455), "futex_wait");
  EXPECT_EQ(SystemCallName(kAbi, 468), "file_getattr");
  EXPECT_TRUE(ByName("file_getattr").is_io);
  EXPECT_EQ(ByName("fchmodat2").places.path, 2);
  EXPECT_EQ(ReasonOfCall(SystemAbi::kX86_64, 455), WaitReason::kLock);
}

TEST(SystemCallTest, NumbersHaveTheNamesOfTheirAbi) {
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, 0), "read");
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, 257), "openat");
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, 202), "futex");
  EXPECT_EQ(SystemCallName(SystemAbi::kI386, 240), "32-bit call 240");
  EXPECT_EQ(SystemCallName(SystemAbi::kX32, 520), "x32 call 520");
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, 520), "system call 520");
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, 999), "system call 999");
  EXPECT_EQ(SystemCallName(SystemAbi::kX86_64, uint64_t{1} << 40), "system call 1099511627776");
}

TEST(SystemCallTest, UnknownNumbersAndAbisAreNotFound) {
  EXPECT_EQ(FindSystemCall(SystemAbi::kX86_64, 1023), nullptr);
  EXPECT_EQ(FindSystemCall(SystemAbi::kX86_64, ~uint64_t{0}), nullptr);
  EXPECT_EQ(FindSystemCall(SystemAbi::kI386, 3), nullptr);
  EXPECT_EQ(FindSystemCall(SystemAbi::kX32, 0), nullptr);
  EXPECT_EQ(FindSystemCall(static_cast<SystemAbi>(3), 0), nullptr);
  EXPECT_EQ(ReasonOfCall(SystemAbi::kX86_64, -1), WaitReason::kOther);
  EXPECT_EQ(ReasonOfCall(SystemAbi::kX86_64, 1023), WaitReason::kOther);
}

// A misspelt row would describe nothing.
TEST(SystemCallTest, EachRowIsOfACallThatTheHeadersHave) {
  // Later than the oldest headers that this is built with.
  const std::set<std::string_view> later = {
      "fchmodat2",    "futex_wait",       "futex_wake",  "futex_requeue",
      "memfd_secret", "process_mrelease", "futex_waitv", "set_mempolicy_home_node"};
  const std::set<std::string_view> names = AllNames();
  std::set<std::string_view> taken;
  for (const SystemCallRow& row : AllRows()) {
    EXPECT_TRUE(taken.insert(row.name).second) << row.name;
    EXPECT_TRUE(names.contains(row.name) || later.contains(row.name)) << row.name;
  }
}

TEST(SystemCallTest, MostCallsAreDescribed) {
  size_t described = 0;
  for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
    const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
    if (info != nullptr && info->is_described) ++described;
  }
  EXPECT_GT(described, 290u);
}

TEST(SystemCallTest, PlacesArePlacesOfTheirKind) {
  for (uint32_t number = 0; number < kSystemCallNumbers; ++number) {
    const SystemCallInfo* info = FindSystemCall(kAbi, number);
    if (info == nullptr) continue;
    SCOPED_TRACE(std::string(info->name));
    ASSERT_LE(info->argument_count, info->arguments.size());
    std::set<std::string_view> names;
    size_t working_on = 0;
    for (size_t i = 0; i < info->argument_count; ++i) {
      EXPECT_FALSE(info->arguments[i].name.empty());
      EXPECT_TRUE(names.insert(info->arguments[i].name).second) << info->arguments[i].name;
      working_on += info->arguments[i].kind == ArgumentKind::kSize ? 1 : 0;
    }
    EXPECT_LE(working_on, 1u);
    const auto expect_kind = [&](uint8_t place, ArgumentKind kind) {
      if (place == 0) return;
      ASSERT_LE(place, info->argument_count);
      EXPECT_EQ(info->arguments[place - 1u].kind, kind);
    };
    expect_kind(info->places.fd, ArgumentKind::kFd);
    expect_kind(info->places.path, ArgumentKind::kPath);
    expect_kind(info->places.directory, ArgumentKind::kDirectoryFd);
    expect_kind(info->places.second_path,
                info->second_is_text ? ArgumentKind::kText : ArgumentKind::kSecondPath);
    expect_kind(info->places.second_directory, info->places.second_path != 0
                                                   ? ArgumentKind::kSecondDirectoryFd
                                                   : ArgumentKind::kTargetFd);
    if (info->places.address <= kMostArguments) {
      expect_kind(info->places.address, ArgumentKind::kSockaddr);
    } else {
      const size_t field = info->places.address - kMostArguments - 1;
      ASSERT_LT(field + 1, info->fields.size());
      EXPECT_EQ(info->fields[field].kind, ArgumentKind::kSockaddr);
      EXPECT_EQ(info->fields[field + 1].kind, ArgumentKind::kSockaddrLength);
      EXPECT_EQ(info->places.address_bytes, info->places.address + 1);
    }
    EXPECT_EQ(info->places.structure != 0, !info->fields.empty());
    for (const ArgumentInfo& field : info->fields) {
      EXPECT_TRUE(field.name.empty() || names.insert(field.name).second) << field.name;
    }
    if (info->places.directory != 0) EXPECT_NE(info->places.path, 0);
    EXPECT_EQ(info->places.address != 0, info->places.address_bytes != 0);
    if (info->time_is_timeval) EXPECT_NE(info->places.time, 0);
  }
}

// What `proftrace dump` names the file of.
TEST(SystemCallTest, TheFileComesFirst) {
  for (const std::string_view name :
       {"read",      "write",     "pread64",   "pwrite64",   "readv",       "writev",
        "recvfrom",  "sendto",    "recvmsg",   "sendmsg",    "recvmmsg",    "accept",
        "accept4",   "connect",   "ioctl",     "fsync",      "flock",       "fcntl",
        "fdatasync", "fallocate", "ftruncate", "getdents64", "epoll_wait",  "epoll_pwait",
        "preadv",    "pwritev",   "splice",    "lseek",      "epoll_pwait2"}) {
    EXPECT_EQ(ByName(name).places.fd, 1) << name;
  }
}

TEST(SystemCallTest, FormsOfTimes) {
  EXPECT_EQ(ByName("futex").places.time, 4);
  EXPECT_TRUE(ByName("select").time_is_timeval);
  EXPECT_FALSE(ByName("pselect6").time_is_timeval);
}

TEST(SystemCallTest, ReasonsOfWaits) {
  const auto reason = [](std::string_view name) { return ByName(name).wait_reason; };
  EXPECT_EQ(ReasonOfCall(SystemAbi::kX86_64, 202), WaitReason::kLock);
  EXPECT_EQ(ReasonOfCall(SystemAbi::kI386, 240), WaitReason::kOther);
  EXPECT_EQ(ReasonOfCall(SystemAbi::kX86_64, 240), WaitReason::kOther);  // mq_open
  EXPECT_EQ(reason("read"), WaitReason::kIo);
  EXPECT_EQ(reason("recvfrom"), WaitReason::kIo);
  EXPECT_EQ(reason("epoll_wait"), WaitReason::kPoll);
  EXPECT_EQ(reason("clock_nanosleep"), WaitReason::kSleep);
  EXPECT_EQ(reason("wait4"), WaitReason::kChild);
  EXPECT_EQ(reason("vfork"), WaitReason::kChild);
  EXPECT_EQ(reason("pause"), WaitReason::kSignal);
  EXPECT_EQ(reason("ioctl"), WaitReason::kOther);
  EXPECT_EQ(reason("mmap"), WaitReason::kOther);
}

TEST(SystemCallTest, WhatIoRecords) {
  for (const char* name :
       {"openat", "close", "read", "pwritev2", "newfstatat", "getdents64", "renameat2", "unlink",
        "fsync", "connect", "sendmmsg", "sendfile", "copy_file_range", "io_uring_enter", "fcntl"}) {
    EXPECT_TRUE(ByName(name).is_io) << name;
  }
  for (const char* name : {"mmap", "futex", "poll", "epoll_wait", "ioctl", "nanosleep", "getpid"}) {
    EXPECT_FALSE(ByName(name).is_io) << name;
  }
}

TEST(SystemCallTest, WhatCallsDoToFilesAndThreads) {
  for (const char* name : {"open", "openat2", "socket", "accept4", "dup3", "eventfd2",
                           "epoll_create1", "memfd_create", "pidfd_open", "io_uring_setup"}) {
    EXPECT_TRUE(ByName(name).gives_file) << name;
  }
  EXPECT_FALSE(ByName("fcntl").gives_file);
  EXPECT_TRUE(ByName("rename").renames);
  EXPECT_FALSE(ByName("link").renames);
  EXPECT_TRUE(ByName("execve").execs);
  EXPECT_TRUE(ByName("exit").ends_thread);
  EXPECT_TRUE(ByName("exit_group").ends_thread);
  for (const char* name : {"accept", "accept4", "recvfrom", "getpeername", "getsockname"}) {
    EXPECT_TRUE(ByName(name).fills_address) << name;
  }
  EXPECT_FALSE(ByName("connect").fills_address);
  EXPECT_EQ(ByName("connect").places.address, 2);
  EXPECT_EQ(ByName("connect").places.address_bytes, 3);
  const CallPlaces& renameat = ByName("renameat").places;
  EXPECT_EQ(renameat.directory, 1);
  EXPECT_EQ(renameat.path, 2);
  EXPECT_EQ(renameat.second_directory, 3);
  EXPECT_EQ(renameat.second_path, 4);
}

TEST(SystemCallTest, PlacesOfStructures) {
  const SystemCallInfo& send = ByName("sendmsg");
  EXPECT_EQ(send.places.structure, 2);
  EXPECT_EQ(send.places.address, 7);
  EXPECT_FALSE(send.fields_are_32);
  EXPECT_FALSE(send.fills_address);
  EXPECT_TRUE(ByName("recvmsg").fills_address);
  EXPECT_EQ(ByName("openat2").places.structure, 3);
  EXPECT_EQ(ByName("openat2").fields.size(), 3u);
  EXPECT_EQ(ByName("clone3").places.structure, 1);
  EXPECT_TRUE(ByName("ioctl").fields_are_32);
}

TEST(SystemCallTest, TheTargetOfASymbolicLinkIsText) {
  const SystemCallInfo& link = ByName("symlinkat");
  EXPECT_TRUE(link.second_is_text);
  EXPECT_EQ(link.places.second_path, 1);
  EXPECT_EQ(link.places.path, 3);
  EXPECT_FALSE(ByName("linkat").second_is_text);
}

TEST(SystemCallTest, CallsWithoutARowHaveSixArguments) {
  const SystemCallInfo& info = ByName("kexec_load");
  EXPECT_FALSE(info.is_described);
  EXPECT_EQ(info.argument_count, 6);
  EXPECT_EQ(info.arguments[5].name, "arg5");
  EXPECT_EQ(info.arguments[5].kind, ArgumentKind::kHex);
}

TEST(SystemCallTest, WhatAThreadSleepsInTellsWhichCallWasRestarted) {
  const auto name = [](SystemAbi abi, std::string_view function) {
    const std::optional<uint16_t> call = RestartedCall(abi, function);
    return call.has_value() ? SystemCallName(abi, *call) : "";
  };
  EXPECT_EQ(name(SystemAbi::kX86_64, "futex_wait_queue"), "futex");
  EXPECT_EQ(name(SystemAbi::kX86_64, "do_sys_poll"), "poll");
  EXPECT_EQ(name(SystemAbi::kI386, "do_sys_poll"), "");
  EXPECT_EQ(name(SystemAbi::kX86_64, "hrtimer_nanosleep"), "clock_nanosleep");
  EXPECT_EQ(name(SystemAbi::kX86_64, "do_syscall_64"), "clock_nanosleep");
  EXPECT_EQ(name(SystemAbi::kX86_64, "do_signal_stop"), "");
  EXPECT_EQ(name(SystemAbi::kX86_64, "0"), "");
}

TEST(ErrnoNameTest, AliasesHaveTheNameThatIsTheirNumbers) {
  EXPECT_EQ(ErrnoName(ENOENT), "ENOENT");
  EXPECT_EQ(ErrnoName(EAGAIN), "EAGAIN");
  EXPECT_EQ(ErrnoName(EDEADLK), "EDEADLK");
  EXPECT_EQ(ErrnoName(ENOTSUP), "EOPNOTSUPP");
  EXPECT_EQ(ErrnoName(512), "ERESTARTSYS");
  EXPECT_EQ(ErrnoName(516), "ERESTART_RESTARTBLOCK");
  EXPECT_EQ(ErrnoName(529), "EIOCBQUEUED");
  EXPECT_EQ(ErrnoName(4000), "errno 4000");
  EXPECT_EQ(ErrnoName(0), "errno 0");
  EXPECT_EQ(ErrnoName(-1), "errno -1");
}

TEST(SignalNameTest, AliasesAndRealTimeSignals) {
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(6), "SIGABRT");
  EXPECT_EQ(SignalName(29), "SIGIO");
  EXPECT_EQ(SignalName(31), "SIGSYS");
  EXPECT_EQ(SignalName(32), "SIGRT_0");
  EXPECT_EQ(SignalName(64), "SIGRT_32");
  EXPECT_EQ(SignalName(65), "65");
  EXPECT_EQ(SignalName(0), "0");
}

TEST(RequestNameTest, NamesOfOpcodes) {
  EXPECT_EQ(RequestName(0), "NOP");
  EXPECT_EQ(RequestName(1), "READV");
  EXPECT_EQ(RequestName(22), "READ");
  EXPECT_EQ(RequestName(26), "SEND");
  EXPECT_EQ(RequestName(250), "request 250");
}

}  // namespace
}  // namespace proftrace
