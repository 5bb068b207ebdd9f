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

  static uint16_t NumberOf(std::string_view name) {
    for (uint16_t number = 0; number < kSystemCallNumbers; ++number) {
      const SystemCallInfo* info = FindSystemCall(SystemAbi::kX86_64, number);
      if (info != nullptr && info->name == name) return number;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  SystemEvent Call(std::string_view name, std::vector<uint64_t> arguments, int64_t result) {
    SystemEvent event;
    event.call.number = NumberOf(name);
    event.call.abi = SystemAbi::kX86_64;
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
  const uint64_t futex = NumberOf("futex");
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
            {"flags", "0x80000"},
            {"ret", -ENOENT},
            {"errno", "ENOENT"}}));
}

TEST_F(SystemArgsTest, AnOpenThatCreatesHasItsMode) {
  const Json args = Args(Call("open", {0x1000, O_WRONLY | O_CREAT | O_TRUNC, 0644}, 3));
  EXPECT_EQ(args["flags"], "0x241");
  EXPECT_EQ(args["mode"], "0644");
  EXPECT_EQ(args["pathname"], "0x1000");  // it could not be read
  EXPECT_FALSE(args.contains("path"));
}

TEST_F(SystemArgsTest, ACallThatGivesAFileHasTheFilesName) {
  files_[1].name = "socket:[4711]";
  EXPECT_EQ(Args(Call("socket", {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0}, 5)),
            Json({{"domain", AF_INET},
                  {"type", "0x80001"},
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
                                                               {"flags", "0x1"},
                                                               {"ret", 0}}));
}

TEST_F(SystemArgsTest, OffsetsAreSigned) {
  EXPECT_EQ(Args(Call("lseek", {3, static_cast<uint64_t>(-10), SEEK_END}, 90)),
            Json({{"fd", 3}, {"offset", -10}, {"whence", SEEK_END}, {"ret", 90}}));
  EXPECT_EQ(Args(Call("pread64", {3, 0, 1, 8'000'000'000}, 1))["offset"], 8'000'000'000);
}

TEST_F(SystemArgsTest, AFutexHasWhatItsOperationUses) {
  EXPECT_EQ(Args(Call("futex", {0x7f0000001000, FUTEX_WAKE_PRIVATE, 1, 99, 98, 97}, 1)),
            Json({{"uaddr", "0x7f0000001000"}, {"op", "0x81"}, {"val", 1}, {"ret", 1}}));
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_WAIT, 2, 0, 98, 97}, 0)),
            Json({{"uaddr", "0x1"}, {"op", "0x0"}, {"val", 2}, {"ret", 0}}));
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_CMP_REQUEUE, 2, 3, 4, 5}, 0)), Json({{"uaddr", "0x1"},
                                                                              {"op", "0x4"},
                                                                              {"val", 2},
                                                                              {"val2", 3},
                                                                              {"uaddr2", "0x4"},
                                                                              {"val3", 5},
                                                                              {"ret", 0}}));
  time_ns_ = 1'000'000'000;
  EXPECT_EQ(Args(Call("futex", {1, FUTEX_WAIT, 2, 16, 98, 97}, -ETIMEDOUT)),
            Json({{"uaddr", "0x1"},
                  {"op", "0x0"},
                  {"val", 2},
                  {"timeout_ns", 1'000'000'000},
                  {"ret", -ETIMEDOUT},
                  {"errno", "ETIMEDOUT"}}));
  const Json bitset =
      Args(Call("futex", {1, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 2, 16, 98, 0xffffffff}, 0));
  EXPECT_EQ(bitset["deadline_ns"], 1'000'000'000);
  EXPECT_EQ(bitset["op"], "0x109");
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
  EXPECT_EQ(until["clockid"], CLOCK_MONOTONIC);
  EXPECT_EQ(until["flags"], "0x1");
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
            Json({{"fd", 3}, {"buf", "0x1"}, {"bytes", 10}, {"flags", "0x4040"}, {"ret", 10}}));
}

TEST_F(SystemArgsTest, AnOpenat2HasWhatItsStructureSays) {
  const SystemEvent open = Call("openat2", {3, 0x1000, 0x2000, 24}, 4);
  paths_[1].first = "/data/x";
  EXPECT_EQ(Args(open),
            Json({{"dirfd", 3}, {"path", "/data/x"}, {"how", "0x2000"}, {"size", 24}, {"ret", 4}}));
  paths_[1].fields = {O_RDONLY | O_CLOEXEC, 0, 0x04 | 0x08};
  EXPECT_EQ(Args(open), Json({{"dirfd", 3},
                              {"path", "/data/x"},
                              {"flags", "0x80000"},
                              {"resolve", "0xc"},
                              {"size", 24},
                              {"ret", 4}}));
  paths_[1].fields = {O_RDWR | O_CREAT, 0, 0};
  EXPECT_EQ(Args(open)["mode"], "00");
  EXPECT_EQ(Args(open)["resolve"], "0x0");
  paths_[1].fields = {O_RDWR, 0640, 0};
  EXPECT_EQ(Args(open)["mode"], "0640");
  // The kernel did not look at it.
  const Json refused = Args(Call("openat2", {3, 0x1000, 0x2000, 16}, -EINVAL));
  EXPECT_EQ(refused["how"], "0x2000");
  EXPECT_FALSE(refused.contains("flags"));
}

TEST_F(SystemArgsTest, AClone3HasItsFlagsAndItsSignal) {
  paths_[1].fields = {CLONE_VM | 0x80 | 0x100000000 | 0x1000000000, 1, 2, 3, SIGCHLD, 0, 8192, 4};
  EXPECT_EQ(Args(Call("clone3", {0x2000, 88}, 77)), Json({{"flags", "0x1100000180"},
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
                              {"flags", "0x4000"},
                              {"ret", 5}}));
  paths_[1].address = "127.0.0.1:80";
  const Json with_address(
      {{"fd", 3}, {"address", "127.0.0.1:80"}, {"msg_iovlen", 2}, {"flags", "0x4000"}, {"ret", 5}});
  EXPECT_EQ(Args(send), with_address);
  paths_[1] = {};
  paths_[1].fields = {0, 0, 0x4000, 1};
  EXPECT_EQ(Args(Call("recvmsg", {3, 0x2000, 0}, 5)),
            Json({{"fd", 3}, {"msg_iovlen", 1}, {"flags", "0x0"}, {"ret", 5}}));
  paths_[1] = {};
  EXPECT_EQ(Args(Call("recvmsg", {3, 0x2000, 0}, -EFAULT))["msg"], "0x2000");
}

TEST_F(SystemArgsTest, SeveralMessagesHaveTheirBytes) {
  const SystemEvent receive = Call("recvmmsg", {3, 0x2000, 8, 0, 0}, 2);
  EXPECT_EQ(Args(receive)["msgvec"], "0x2000");
  paths_[1].fields = {300};
  EXPECT_EQ(Args(receive),
            Json({{"fd", 3}, {"bytes", 300}, {"vlen", 8}, {"flags", "0x0"}, {"ret", 2}}));
}

TEST_F(SystemArgsTest, AnIoctlHasItsRequestAndTheIntThatItIsAbout) {
  const auto ioctl = [this](uint64_t request, int64_t result) {
    return Args(Call("ioctl", {3, request, 0x2000}, result));
  };
  paths_[1].fields = {17};
  EXPECT_EQ(ioctl(FIONREAD, 0), Json({{"fd", 3}, {"op", "0x541b"}, {"value", 17}, {"ret", 0}}));
  EXPECT_EQ(ioctl(FIONREAD, -EFAULT)["argp"], "0x2000");
  EXPECT_EQ(ioctl(TIOCGWINSZ, 0),
            Json({{"fd", 3}, {"op", "0x5413"}, {"argp", "0x2000"}, {"ret", 0}}));
  EXPECT_EQ(ioctl(_IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2a, 0x20), 0)["op"], "0xc020462a");
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

// Their registers are others: what an earlier recording has of them is told in hex.
TEST_F(SystemArgsTest, CallsOfOtherAbisHaveANumber) {
  SystemEvent event = Call("read", {3, ~uint64_t{0}}, -EBADF);
  event.call.abi = SystemAbi::kI386;
  event.call.number = 240;
  EXPECT_EQ(SystemEventName(event), "32-bit call 240");
  EXPECT_EQ(
      Args(event),
      Json({{"arg0", "0x3"}, {"arg1", "0xffffffffffffffff"}, {"ret", -EBADF}, {"errno", "EBADF"}}));
  event.call.abi = SystemAbi::kX32;
  EXPECT_EQ(SystemEventName(event), "x32 call 240");
}

// The kernel looks at 32 bits of flags; what is behind them in the register means nothing.
TEST_F(SystemArgsTest, FlagsHave32Bits) {
  EXPECT_EQ(Args(Call("openat", {3, 0x1000, 0x7f0000080000, 0}, 4))["flags"], "0x80000");
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

TEST(SystemNamesTest, ReasonsAndAreas) {
  EXPECT_EQ(WaitReasonName(WaitReason::kPreempted), "preempted");
  EXPECT_EQ(WaitReasonName(WaitReason::kSleep), "sleep");
  EXPECT_EQ(WaitReasonName(WaitReason::kNew), "new");
  EXPECT_EQ(FaultAreaName(FaultArea::kUnknown), "unknown");
  EXPECT_EQ(FaultAreaName(FaultArea::kAnonymous), "anonymous");
}

}  // namespace
}  // namespace proftrace
