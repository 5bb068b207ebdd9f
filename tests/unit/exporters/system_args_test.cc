// Names, flags and args of system calls, waits, faults and requests.
#include "exporters/args/system_args.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/aggregate/system_flags.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

// Fails for what is no JSON, and for a key that is there twice.
Json Parsed(const std::string& args) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      EXPECT_TRUE(keys.back().insert(value.get<std::string>()).second) << args;
    }
    return true;
  };
  const Json parsed = Json::parse("{" + args + "}", check, /*allow_exceptions=*/false);
  EXPECT_FALSE(parsed.is_discarded()) << args;
  return parsed;
}

class SystemArgsTest : public testing::Test {
 protected:
  SystemArgsTest() {
    files_.resize(2);
    paths_.resize(2);
  }

  static uint16_t NumberOf(std::string_view name, SystemAbi abi) {
    for (uint16_t number = 0; number < kSystemCallNumbers; ++number) {
      const SystemCallInfo* info = FindSystemCall(abi, number);
      if (info != nullptr && info->name == name) return number;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  SystemEvent Call(std::string_view name, std::vector<uint64_t> arguments, int64_t result,
                   SystemAbi abi = SystemAbi::kX86_64) {
    SystemEvent event;
    event.call.number = NumberOf(name, abi);
    event.call.abi = abi;
    event.call.argument_count = static_cast<uint8_t>(arguments.size());
    std::copy(arguments.begin(), arguments.end(), event.call.arguments.begin());
    event.call.result = result;
    event.call.time_ns = time_ns_;
    return event;
  }

  // With the file and the paths of the test's, where they are set.
  Json Args(SystemEvent event) {
    if (!files_[1].name.empty()) event.file = SystemFileId{1};
    if (event.kind == SystemKind::kCall && !(paths_[1] == SystemPaths())) {
      event.call.paths = SystemPathsId{1};
    }
    return Parsed(SystemArgs({files_, paths_}, event));
  }

  std::vector<SystemFile> files_;
  std::vector<SystemPaths> paths_;
  int64_t time_ns_ = -1;  // of calls
};

TEST_F(SystemArgsTest, WhatARestartGoesOnWith) {
  const uint64_t futex = NumberOf("futex", SystemAbi::kX86_64);
  EXPECT_EQ(Args(Call("restart_syscall", {futex}, 0))["restarts"], "futex");
  EXPECT_FALSE(Args(Call("restart_syscall", {0}, 0)).contains("restarts"));  // not known
  EXPECT_FALSE(Args(Call("restart_syscall", {}, 0)).contains("restarts"));   // an earlier recording
}

TEST_F(SystemArgsTest, AReadHasItsFileAndItsBytes) {
  files_[1].name = "/data/x";
  EXPECT_EQ(Args(Call("read", {3, 0x7f0000001000, 4096}, 100)), Json({{"fd", 3},
                                                                      {"path", "/data/x"},
                                                                      {"buf", "0x7f0000001000"},
                                                                      {"bytes", 4096},
                                                                      {"ret", 100}}));
}

TEST_F(SystemArgsTest, AFailedOpenHasItsPathAndError) {
  paths_[1].first = "/data/none";
  EXPECT_EQ(
      Args(Call("openat", {static_cast<uint32_t>(AT_FDCWD), 0x1000, O_CLOEXEC, 0777}, -ENOENT)),
      Json({{"dirfd", "AT_FDCWD"},
            {"path", "/data/none"},
            {"flags", "O_RDONLY|O_CLOEXEC"},
            {"ret", -ENOENT},
            {"errno", "ENOENT"}}));
}

TEST_F(SystemArgsTest, AnOpenThatCreatesHasItsMode) {
  const Json args = Args(Call("open", {0x1000, O_WRONLY | O_CREAT | O_TRUNC, 0644}, 3));
  EXPECT_EQ(args["flags"], "O_WRONLY|O_CREAT|O_TRUNC");
  EXPECT_EQ(args["mode"], "0644");
  EXPECT_EQ(args["pathname"], "0x1000");  // it could not be read
  EXPECT_FALSE(args.contains("path"));
}

TEST_F(SystemArgsTest, ACallThatGivesAFileHasTheFilesName) {
  files_[1].name = "socket:[4711]";
  EXPECT_EQ(Args(Call("socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, 5)),
            Json({{"domain", "AF_INET"},
                  {"type", "SOCK_STREAM|SOCK_CLOEXEC"},
                  {"protocol", 0},
                  {"path", "socket:[4711]"},
                  {"ret", 5}}));
}

TEST_F(SystemArgsTest, ARenameHasTwoPaths) {
  paths_[1].first = "/a";
  paths_[1].second = "/b";
  EXPECT_EQ(Args(Call("renameat2", {3, 1, 4, 2, 1}, 0)), Json({{"olddirfd", 3},
                                                               {"path", "/a"},
                                                               {"newdirfd", 4},
                                                               {"path2", "/b"},
                                                               {"flags", "RENAME_NOREPLACE"},
                                                               {"ret", 0}}));
}

TEST_F(SystemArgsTest, OffsetsAreSigned) {
  EXPECT_EQ(Args(Call("lseek", {3, static_cast<uint64_t>(-10), SEEK_END}, 90)),
            Json({{"fd", 3}, {"offset", -10}, {"whence", "SEEK_END"}, {"ret", 90}}));
  EXPECT_EQ(Args(Call("lseek", {3, 0xfffffff6, SEEK_END}, 90, SystemAbi::kI386))["offset"], -10);
  EXPECT_EQ(Args(Call("pread64", {3, 0, 1, 8'000'000'000}, 1))["offset"], 8'000'000'000);
}

TEST_F(SystemArgsTest, OffsetsOfTwoArgumentsAreOne) {
  const Json read = Args(Call("pread64", {3, 0, 1, 5, 2}, 1, SystemAbi::kI386));
  EXPECT_EQ(read["offset"], (int64_t{2} << 32) + 5);
  EXPECT_FALSE(read.contains("offset_high"));
  EXPECT_EQ(Args(Call("_llseek", {3, 2, 5, 0, 0}, 0, SystemAbi::kI386))["offset"],
            (int64_t{2} << 32) + 5);
  const Json space = Args(Call("fallocate", {3, 0, 5, 2, 7, 1}, 0, SystemAbi::kI386));
  EXPECT_EQ(space["offset"], (int64_t{2} << 32) + 5);
  EXPECT_EQ(space["len"], (int64_t{1} << 32) + 7);
  EXPECT_EQ(Args(Call("preadv", {3, 0, 1, 5, 2}, 1))["offset"], 5);
  EXPECT_EQ(Args(Call("mmap2", {0, 1, 0, 2, 3, 0x100000}, 0, SystemAbi::kI386))["offset"],
            int64_t{0x100000} * 4096);
}

TEST_F(SystemArgsTest, RegistersOfI386Have32Bits) {
  const Json args =
      Args(Call("read", {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}, -EBADF, SystemAbi::kI386));
  EXPECT_EQ(args["fd"], -1);
  EXPECT_EQ(args["buf"], "0xffffffff");
  EXPECT_EQ(args["bytes"], 0xffffffff);
}

TEST_F(SystemArgsTest, AFutexHasWhatItsOperationUses) {
  EXPECT_EQ(Args(Call("futex", {0x7f0000001000, FUTEX_WAKE_PRIVATE, 1, 99, 98, 97}, 1)),
            Json({{"uaddr", "0x7f0000001000"},
                  {"op", "FUTEX_WAKE|FUTEX_PRIVATE_FLAG"},
                  {"val", 1},
                  {"ret", 1}}));
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_WAIT, 2, 0, 98, 97}, 0)),
            Json({{"uaddr", "0x1"}, {"op", "FUTEX_WAIT"}, {"val", 2}, {"ret", 0}}));
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_CMP_REQUEUE, 2, 3, 4, 5}, 0)),
            Json({{"uaddr", "0x1"},
                  {"op", "FUTEX_CMP_REQUEUE"},
                  {"val", 2},
                  {"val2", 3},
                  {"uaddr2", "0x4"},
                  {"val3", 5},
                  {"ret", 0}}));
  time_ns_ = 1'000'000'000;
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_WAIT, 2, 16, 98, 97}, -ETIMEDOUT)),
            Json({{"uaddr", "0x1"},
                  {"op", "FUTEX_WAIT"},
                  {"val", 2},
                  {"timeout_ns", 1'000'000'000},
                  {"ret", -ETIMEDOUT},
                  {"errno", "ETIMEDOUT"}}));
  const Json bitset =
      Args(Call("futex", {1, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 2, 16, 98, 0xffffffff}, 0));
  EXPECT_EQ(bitset["deadline_ns"], 1'000'000'000);
  EXPECT_EQ(bitset["op"], "FUTEX_WAIT_BITSET|FUTEX_CLOCK_REALTIME");
  EXPECT_EQ(bitset["val3"], 0xffffffff);
  EXPECT_FALSE(bitset.contains("uaddr2"));
}

TEST_F(SystemArgsTest, TimesAreDurationsOrMoments) {
  EXPECT_EQ(Args(Call("epoll_wait", {4, 1, 16, 250}, 0))["timeout_ns"], 250'000'000);
  EXPECT_FALSE(Args(Call("poll", {1, 1, 0xffffffff}, 0)).contains("timeout_ns"));
  EXPECT_FALSE(Args(Call("ppoll", {1, 1, 0, 0, 8}, 0)).contains("timeout"));
  EXPECT_EQ(Args(Call("ppoll", {1, 1, 16, 0, 8}, 0))["timeout"], "0x10");  // it could not be read
  time_ns_ = 5;
  EXPECT_EQ(Args(Call("nanosleep", {1, 0}, 0))["timeout_ns"], 5);
  EXPECT_EQ(Args(Call("clock_nanosleep", {CLOCK_MONOTONIC, 0, 1, 0}, 0))["timeout_ns"], 5);
  const Json until = Args(Call("clock_nanosleep", {CLOCK_MONOTONIC, TIMER_ABSTIME, 1, 0}, 0));
  EXPECT_EQ(until["deadline_ns"], 5);
  EXPECT_EQ(until["clockid"], "CLOCK_MONOTONIC");
  EXPECT_EQ(until["flags"], "TIMER_ABSTIME");
}

TEST_F(SystemArgsTest, AddressesOfSockets) {
  const SystemEvent connect = Call("connect", {3, 0x1000, 16}, -EINPROGRESS);
  EXPECT_EQ(Args(connect), Json({{"fd", 3},
                                 {"addr", "0x1000"},
                                 {"addrlen", 16},
                                 {"ret", -EINPROGRESS},
                                 {"errno", "EINPROGRESS"}}));
  paths_[1].address = "127.0.0.1:80";
  EXPECT_EQ(Args(connect), Json({{"fd", 3},
                                 {"address", "127.0.0.1:80"},
                                 {"ret", -EINPROGRESS},
                                 {"errno", "EINPROGRESS"}}));
  paths_[1].address.clear();
  EXPECT_EQ(Args(Call("sendto", {3, 1, 10, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0}, 10)),
            Json({{"fd", 3},
                  {"buf", "0x1"},
                  {"bytes", 10},
                  {"flags", "MSG_DONTWAIT|MSG_NOSIGNAL"},
                  {"ret", 10}}));
}

TEST_F(SystemArgsTest, AnOpenat2HasWhatItsStructureSays) {
  const SystemEvent open = Call("openat2", {3, 0x1000, 0x2000, 24}, 4);
  paths_[1].first = "/data/x";
  EXPECT_EQ(Args(open),
            Json({{"dirfd", 3}, {"path", "/data/x"}, {"how", "0x2000"}, {"size", 24}, {"ret", 4}}));
  paths_[1].fields = {O_RDONLY | O_CLOEXEC, 0, 0x04 | 0x08};
  EXPECT_EQ(Args(open), Json({{"dirfd", 3},
                              {"path", "/data/x"},
                              {"flags", "O_RDONLY|O_CLOEXEC"},
                              {"resolve", "RESOLVE_NO_SYMLINKS|RESOLVE_BENEATH"},
                              {"size", 24},
                              {"ret", 4}}));
  paths_[1].fields = {O_RDWR | O_CREAT, 0, 0};
  EXPECT_EQ(Args(open)["mode"], "00");
  EXPECT_EQ(Args(open)["resolve"], "0");
  paths_[1].fields = {O_RDWR, 0640, 0};
  EXPECT_EQ(Args(open)["mode"], "0640");
  // The kernel did not look at it.
  const Json refused = Args(Call("openat2", {3, 0x1000, 0x2000, 16}, -EINVAL));
  EXPECT_EQ(refused["how"], "0x2000");
  EXPECT_FALSE(refused.contains("flags"));
}

TEST_F(SystemArgsTest, AClone3HasItsFlagsAndItsSignal) {
  paths_[1].fields = {CLONE_VM | 0x80 | 0x100000000 | 0x1000000000, 1, 2, 3, SIGCHLD, 0, 8192, 4};
  EXPECT_EQ(Args(Call("clone3", {0x2000, 88}, 77)),
            Json({{"flags", "CLONE_VM|CLONE_NEWTIME|CLONE_CLEAR_SIGHAND|0x1000000000"},
                  {"exit_signal", "SIGCHLD"},
                  {"stack", "0x0"},
                  {"stack_size", 8192},
                  {"size", 88},
                  {"ret", 77}}));
  paths_[1].fields.pop_back();  // of a damaged record
  EXPECT_EQ(Args(Call("clone3", {0x2000, 88}, 77)),
            Json({{"cl_args", "0x2000"}, {"size", 88}, {"ret", 77}}));
}

TEST_F(SystemArgsTest, AMessageHasItsAddressAndItsParts) {
  const SystemEvent send = Call("sendmsg", {3, 0x2000, MSG_NOSIGNAL}, 5);
  paths_[1].fields = {0x3000, 16, 0x4000, 2};
  EXPECT_EQ(Args(send), Json({{"fd", 3},
                              {"msg_name", "0x3000"},  // it could not be read
                              {"msg_namelen", 16},
                              {"msg_iovlen", 2},
                              {"flags", "MSG_NOSIGNAL"},
                              {"ret", 5}}));
  paths_[1].address = "127.0.0.1:80";
  const Json with_address({{"fd", 3},
                           {"address", "127.0.0.1:80"},
                           {"msg_iovlen", 2},
                           {"flags", "MSG_NOSIGNAL"},
                           {"ret", 5}});
  EXPECT_EQ(Args(send), with_address);
  EXPECT_EQ(Args(Call("sendmsg", {3, 0x2000, MSG_NOSIGNAL}, 5, SystemAbi::kI386)), with_address);
  paths_[1] = {};
  paths_[1].fields = {0, 0, 0x4000, 1};
  EXPECT_EQ(Args(Call("recvmsg", {3, 0x2000, 0}, 5)),
            Json({{"fd", 3}, {"msg_iovlen", 1}, {"flags", "0"}, {"ret", 5}}));
  paths_[1] = {};
  EXPECT_EQ(Args(Call("recvmsg", {3, 0x2000, 0}, -EFAULT))["msg"], "0x2000");
}

TEST_F(SystemArgsTest, SeveralMessagesHaveTheirBytes) {
  const SystemEvent receive = Call("recvmmsg", {3, 0x2000, 8, 0, 0}, 2);
  EXPECT_EQ(Args(receive)["msgvec"], "0x2000");
  paths_[1].fields = {300};
  EXPECT_EQ(Args(receive),
            Json({{"fd", 3}, {"bytes", 300}, {"vlen", 8}, {"flags", "0"}, {"ret", 2}}));
}

TEST_F(SystemArgsTest, AnIoctlHasItsRequestAndTheIntThatItIsAbout) {
  const auto ioctl = [this](uint64_t request, int64_t result) {
    return Args(Call("ioctl", {3, request, 0x2000}, result));
  };
  paths_[1].fields = {17};
  EXPECT_EQ(ioctl(FIONREAD, 0), Json({{"fd", 3}, {"op", "FIONREAD"}, {"value", 17}, {"ret", 0}}));
  EXPECT_EQ(ioctl(FIONREAD, -EFAULT)["argp"], "0x2000");
  EXPECT_EQ(ioctl(TIOCGWINSZ, 0),
            Json({{"fd", 3}, {"op", "TIOCGWINSZ"}, {"argp", "0x2000"}, {"ret", 0}}));
  EXPECT_EQ(ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2a, 0x20), 0)["op"],
            "_IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20)");
  EXPECT_EQ(ioctl(_IOC(_IOC_NONE, 0xff, 0, 0), 0)["op"], "_IOC(_IOC_NONE, 0xff, 0, 0)");
  paths_[1] = {};
  EXPECT_EQ(ioctl(FIONREAD, 0)["argp"], "0x2000");
}

TEST_F(SystemArgsTest, ASymbolicLinkHasItsTarget) {
  paths_[1].first = "/data/link";
  EXPECT_EQ(Args(Call("symlink", {1, 2}, 0))["target"], "0x1");  // it could not be read
  paths_[1].second = "../x \"y\"";
  EXPECT_EQ(Args(Call("symlinkat", {1, 3, 2}, 0)),
            Json({{"target", "../x \"y\""}, {"newdirfd", 3}, {"path", "/data/link"}, {"ret", 0}}));
}

TEST_F(SystemArgsTest, OptionsAreNamedByTheirLevel) {
  const auto option = [this](uint64_t level, uint64_t name) {
    return Args(Call("setsockopt", {3, level, name, 0, 4}, 0))["optname"];
  };
  EXPECT_EQ(option(SOL_SOCKET, 2), "SO_REUSEADDR");
  EXPECT_EQ(option(6, 1), "TCP_NODELAY");
  EXPECT_EQ(option(0, 1), "0x1");
}

TEST_F(SystemArgsTest, ACallThatDidNotReturnHasNoResult) {
  SystemEvent event = Call("read", {3, 0, 1}, -ENOENT);
  event.end = SpanEnd::kTruncated;
  const Json args = Args(event);
  EXPECT_FALSE(args.contains("ret"));
  EXPECT_FALSE(args.contains("errno"));
}

TEST_F(SystemArgsTest, ErrorsAreTheLast4095Numbers) {
  EXPECT_EQ(Args(Call("read", {3, 0, 1}, -512))["errno"], "ERESTARTSYS");
  EXPECT_EQ(Args(Call("read", {3, 0, 1}, -4095))["errno"], "errno 4095");
  EXPECT_FALSE(Args(Call("mmap", {0, 1, 1, 2, 3, 0}, -4096)).contains("errno"));
}

TEST_F(SystemArgsTest, UnknownCallsHaveTheirArgumentsInHex) {
  SystemEvent event = Call("read", {1, 2}, 0);
  event.call.number = 999;
  EXPECT_EQ(Args(event), Json({{"arg0", "0x1"}, {"arg1", "0x2"}, {"ret", 0}}));
  EXPECT_EQ(SystemEventName(event), "system call 999");
}

TEST_F(SystemArgsTest, HostileNamesStayJson) {
  files_[1].name = std::string("/a\"\\\n\x01\x80\0b", 9);
  EXPECT_EQ(Args(Call("fsync", {3}, 0))["path"],
            std::string("/a\"\\\n\x01\xEF\xBF\xBD\xEF\xBF\xBD") + "b");
}

TEST_F(SystemArgsTest, TimeOffTheCpu) {
  SystemEvent event;
  event.kind = SystemKind::kOffCpu;
  event.off_cpu = OffCpuFacts{};
  event.off_cpu.run_queue_ns = 50;
  event.off_cpu.waker_pid = Pid{7};
  event.off_cpu.waker_tid = Tid{8};
  event.off_cpu.call = 202;
  event.off_cpu.from_cpu = 1;
  event.off_cpu.to_cpu = 2;
  event.off_cpu.reason = WaitReason::kLock;
  event.off_cpu.voluntary = true;
  EXPECT_EQ(SystemEventName(event), "lock");
  EXPECT_EQ(Args(event), Json({{"run_queue_ns", 50},
                               {"voluntary", true},
                               {"uninterruptible", false},
                               {"disk", false},
                               {"syscall", "futex"},
                               {"waker_pid", 7},
                               {"waker_tid", 8},
                               {"from_cpu", 1},
                               {"to_cpu", 2}}));
  event.off_cpu.call = -1;
  event.off_cpu.waker_pid = Pid{0};
  event.off_cpu.reason = WaitReason::kPreempted;
  EXPECT_EQ(SystemEventName(event), "preempted");
  EXPECT_FALSE(Args(event).contains("syscall"));
  EXPECT_FALSE(Args(event).contains("waker_tid"));
}

TEST_F(SystemArgsTest, PageFaults) {
  SystemEvent event;
  event.kind = SystemKind::kFault;
  event.fault = FaultFacts{};
  event.fault.address = 0x7f0000001000;
  event.fault.area = FaultArea::kHeap;
  event.fault.write = true;
  EXPECT_EQ(SystemEventName(event), "page fault (minor)");
  EXPECT_EQ(Args(event), Json({{"address", "0x7f0000001000"},
                               {"area", "heap"},
                               {"write", true},
                               {"in_kernel", false}}));
  files_[1].name = "/data/x";
  event.fault.area = FaultArea::kFile;
  event.fault.offset = 8192;
  event.fault.major = true;
  EXPECT_EQ(SystemEventName(event), "page fault (major)");
  EXPECT_EQ(Args(event)["path"], "/data/x");
  EXPECT_EQ(Args(event)["offset"], 8192);
}

TEST_F(SystemArgsTest, Requests) {
  SystemEvent event;
  event.kind = SystemKind::kRequest;
  event.request = RequestFacts{-EAGAIN, 512, 4096, 0x55, 1};
  files_[1].name = "/data/x";
  EXPECT_EQ(SystemEventName(event), "io_uring READV");
  EXPECT_EQ(Args(event), Json({{"opcode", "READV"},
                               {"path", "/data/x"},
                               {"offset", 512},
                               {"bytes", 4096},
                               {"user_data", "0x55"},
                               {"ret", -EAGAIN},
                               {"errno", "EAGAIN"}}));
  // What is not known is left out.
  event.request.offset = event.request.bytes = ~uint64_t{0};
  EXPECT_FALSE(Args(event).contains("offset"));
  EXPECT_FALSE(Args(event).contains("bytes"));
}

// Whatever a damaged capture has: valid JSON without a key twice.
TEST_F(SystemArgsTest, AnyCallWithAnyArgumentsIsJson) {
  std::mt19937_64 random(20240607);
  files_[1].name =
      "/some\xff"
      "file";
  paths_[1] = {"/first", "/second", "1.2.3.4:5", {}};
  for (int abi = 0; abi < 4; ++abi) {
    for (uint32_t number = 0; number <= kSystemCallNumbers; ++number) {
      for (int round = 0; round < 6; ++round) {
        SystemEvent event;
        event.call.abi = static_cast<SystemAbi>(abi);
        event.call.number = static_cast<uint16_t>(number);
        event.call.argument_count = static_cast<uint8_t>(random() % 9);
        for (uint64_t& argument : event.call.arguments) argument = random() >> random() % 64;
        event.call.result = static_cast<int64_t>(random() >> random() % 64);
        if (random() % 2 == 0) event.call.result = -event.call.result;
        event.file = SystemFileId{static_cast<uint32_t>(random() % 4)};
        event.call.paths = SystemPathsId{static_cast<uint32_t>(random() % 4)};
        event.call.time_ns = random() % 2 == 0 ? 77 : -1;
        paths_[1].fields.resize(random() % 9);
        for (uint64_t& field : paths_[1].fields) field = random() >> random() % 64;
        ASSERT_TRUE(Parsed(SystemArgs({files_, paths_}, event)).is_object());
        ASSERT_FALSE(SystemEventName(event).empty());
      }
    }
  }
}

TEST(FlagsTextTest, NamesOfBitsAndValues) {
  using K = ArgumentKind;
  EXPECT_EQ(FlagsText(K::kOpenFlags, O_RDWR | O_SYNC), "O_RDWR|O_SYNC");
  EXPECT_EQ(FlagsText(K::kOpenFlags, O_RDWR | O_DSYNC), "O_RDWR|O_DSYNC");
  EXPECT_EQ(FlagsText(K::kOpenFlags, O_WRONLY | O_TMPFILE), "O_WRONLY|O_TMPFILE");
  EXPECT_EQ(FlagsText(K::kOpenFlags, O_DIRECTORY | 0100000), "O_RDONLY|O_LARGEFILE|O_DIRECTORY");
  EXPECT_EQ(FlagsText(K::kOpenFlags, 3 | 0x80000000), "0x3|0x80000000");
  EXPECT_EQ(FlagsText(K::kDescriptorFlags, O_CLOEXEC), "O_CLOEXEC");
  EXPECT_EQ(FlagsText(K::kInotifyFlags, O_NONBLOCK), "IN_NONBLOCK");
  EXPECT_EQ(FlagsText(K::kStatxMask, 0x7ff), "STATX_BASIC_STATS");
  EXPECT_EQ(FlagsText(K::kProtection, 0), "PROT_NONE");
  EXPECT_EQ(FlagsText(K::kProtection, PROT_READ | PROT_EXEC), "PROT_READ|PROT_EXEC");
  EXPECT_EQ(FlagsText(K::kMapFlags, MAP_PRIVATE | MAP_ANONYMOUS), "MAP_PRIVATE|MAP_ANONYMOUS");
  EXPECT_EQ(FlagsText(K::kMapFlags, MAP_SHARED_VALIDATE | MAP_SYNC),
            "MAP_SHARED_VALIDATE|MAP_SYNC");
  EXPECT_EQ(FlagsText(K::kAccessMode, 0), "F_OK");
  EXPECT_EQ(FlagsText(K::kAccessMode, 6), "R_OK|W_OK");
  EXPECT_EQ(FlagsText(K::kAtFlags, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW),
            "AT_SYMLINK_NOFOLLOW|AT_EMPTY_PATH");
  EXPECT_EQ(FlagsText(K::kAccessAtFlags, AT_EACCESS), "AT_EACCESS");
  EXPECT_EQ(FlagsText(K::kAtFlags, 0), "0");
  EXPECT_EQ(FlagsText(K::kCloneFlags, CLONE_VM | CLONE_VFORK | SIGCHLD),
            "CLONE_VM|CLONE_VFORK|SIGCHLD");
  EXPECT_EQ(FlagsText(K::kClone3Flags, CLONE_FS | uint64_t{1} << 33), "CLONE_FS|CLONE_INTO_CGROUP");
  EXPECT_EQ(FlagsText(K::kClone3Flags, 0), "0");
  EXPECT_EQ(FlagsText(K::kCloneFlags, 0), "0");
  EXPECT_EQ(FlagsText(K::kSocketType, SOCK_NONBLOCK), "SOCK_NONBLOCK");
  EXPECT_EQ(FlagsText(K::kSocketType, 0), "0");
  EXPECT_EQ(FlagsText(K::kSocketDomain, AF_UNIX), "AF_UNIX");
  EXPECT_EQ(FlagsText(K::kSocketDomain, 77), "77");
  EXPECT_EQ(FlagsText(K::kMemoryAdvice, MADV_DONTNEED), "MADV_DONTNEED");
  EXPECT_EQ(FlagsText(K::kFcntlCommand, F_DUPFD_CLOEXEC), "F_DUPFD_CLOEXEC");
  EXPECT_EQ(FlagsText(K::kEpollOperation, 1), "EPOLL_CTL_ADD");
  EXPECT_EQ(FlagsText(K::kClock, static_cast<uint64_t>(-6)), "-6");  // a process's own clock
  EXPECT_EQ(FlagsText(K::kSignal, SIGKILL), "SIGKILL");
  EXPECT_EQ(FlagsText(K::kMode, 01777), "01777");
  EXPECT_EQ(FlagsText(K::kPointer, 0xabc), "0xabc");
  EXPECT_EQ(FlagsText(K::kFutexOperation, 137), "FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG");
}

// A kind that exporters print by its names has some.
TEST(FlagsTextTest, KindsOfFlagsHaveNames) {
  for (size_t kind = static_cast<size_t>(ArgumentKind::kClock); kind < kArgumentKinds; ++kind) {
    EXPECT_TRUE(HasFlagsText(static_cast<ArgumentKind>(kind))) << kind;
  }
  EXPECT_FALSE(HasFlagsText(ArgumentKind::kPointer));
}

TEST(SystemNamesTest, ReasonsAndAreas) {
  EXPECT_EQ(WaitReasonName(WaitReason::kPreempted), "preempted");
  EXPECT_EQ(WaitReasonName(WaitReason::kSleep), "sleep");
  EXPECT_EQ(WaitReasonName(WaitReason::kNew), "new");
  EXPECT_EQ(FaultAreaName(FaultArea::kUnknown), "unknown");
  EXPECT_EQ(FaultAreaName(FaultArea::kAnonymous), "anonymous");
}

}  // namespace
}  // namespace proftrace
