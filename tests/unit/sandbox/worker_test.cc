#include "userspace/sandbox/worker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

WorkerOrder Order() {
  WorkerOrder order;
  order.what = "reads what a test made";
  order.longest_s = 20;
  return order;
}

using Asked = absl::StatusOr<std::string>;

// What a worker says that looks at itself.
std::string Say(const std::function<std::string()>& work) {
  const Asked said = RunWorker(Order(), [&]() -> Asked { return work(); });
  return said.ok() ? *said : "failed: " + std::string(said.status().message());
}

TEST(WorkerTest, GivesBackWhatTheWorkReturns) {
  const std::string large(size_t{9} << 20, 'x');
  const Asked found = RunWorker(Order(), [&]() -> Asked { return large; });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, large);
  const Asked failed =
      RunWorker(Order(), []() -> Asked { return Fail(ExitCode::kNoTorch, "nothing there"); });
  EXPECT_EQ(ExitCodeOf(failed.status()), ExitCode::kNoTorch);
  EXPECT_EQ(failed.status().message(), "nothing there");
  const Asked thrown =
      RunWorker(Order(), []() -> Asked { throw std::length_error("too many sections"); });
  EXPECT_THAT(std::string(thrown.status().message()), HasSubstr("too many sections"));
}

TEST(WorkerTest, QuestionsAreAnsweredHereWithDescriptors) {
  char name[] = "/tmp/sandbox_worker_XXXXXX";
  const UniqueFd file(mkstemp(name));
  unlink(name);
  ASSERT_EQ(write(file.get(), "inside", 6), 6);
  int questions = 0;
  const Asked read = RunWorker(
      Order(),
      [](WorkerChannel* channel) -> Asked {
        if (channel->Ask("a refused one").fd.valid()) return "was not refused";
        const WorkerAnswer answer = channel->Ask("the file");
        char bytes[7] = "";
        if (pread(answer.fd.get(), bytes, 6, 0) != 6) return "cannot be read";
        return answer.bytes + bytes;
      },
      [&](std::string_view question) {
        ++questions;
        WorkerAnswer answer;
        if (question != "the file") return answer;
        answer.bytes = "it has: ";
        answer.fd = UniqueFd(dup(file.get()));
        return answer;
      });
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, "it has: inside");
  EXPECT_EQ(questions, 2);
}

TEST(WorkerTest, ThreadsOfAWorkerMayAsk) {
  const Asked sum = RunWorker(
      Order(),
      [](WorkerChannel* channel) -> Asked {
        std::atomic<int> right = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
          threads.emplace_back([&, i] {
            for (int n = 0; n < 50; ++n) {
              const std::string text = std::to_string(i * 1000 + n);
              if (channel->Ask(text).bytes == text + "!") ++right;
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        return std::to_string(right);
      },
      [](std::string_view question) {
        return WorkerAnswer{std::string(question) + "!", UniqueFd()};
      });
  EXPECT_EQ(*sum, "200");
}

TEST(WorkerTest, HasNoRightAndReachesNothing) {
  const UniqueFd kept(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t parent = getpid();
  EXPECT_EQ(Say([&]() -> std::string {
              if (fcntl(other.get(), F_GETFD) >= 0) return "an open descriptor";
              if (open("/proc/self/status", O_RDONLY) >= 0) return "open";
              if (openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY) >= 0) return "openat";
              if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) return "socket";
              if (fork() >= 0) return "fork";
              if (kill(parent, 0) == 0) return "kill";
              char byte = 0;
              iovec here{&byte, 1};
              iovec there{&byte, 1};
              if (process_vm_readv(parent, &here, 1, &there, 1, 0) >= 0) return "another's memory";
              void* code =
                  mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              if (code != MAP_FAILED) return "memory that is run";
              __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
              __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
              if (syscall(SYS_capget, &header, sets) == 0) return "capget";
              if (unlink("/tmp") == 0 || mkdir("/tmp/worker", 0700) == 0) return "names";
              return "nothing";
            }),
            "nothing");
  WorkerOrder order = Order();
  order.keeps = {kept.get()};
  const Asked held = RunWorker(
      order, [&]() -> Asked { return fcntl(kept.get(), F_GETFD) >= 0 ? "held" : "closed"; });
  EXPECT_EQ(*held, "held");
}

// What it has as /proc shows it, to the one that answers.
TEST(WorkerTest, HasNoCapability) {
  std::string status;
  const Asked done = RunWorker(
      Order(), [](WorkerChannel* channel) -> Asked { return channel->Ask("look").bytes; },
      [&](std::string_view) {
        // The only child that this process has.
        const std::string children = "/proc/self/task/" + std::to_string(gettid()) + "/children";
        char text[64] = "";
        const UniqueFd list(open(children.c_str(), O_RDONLY));
        if (read(list.get(), text, sizeof(text) - 1) <= 0) return WorkerAnswer();
        const std::string path = "/proc/" + std::to_string(std::atoi(text)) + "/status";
        const UniqueFd file(open(path.c_str(), O_RDONLY));
        status.resize(8192);
        const ssize_t got = read(file.get(), status.data(), status.size());
        status.resize(got < 0 ? 0 : static_cast<size_t>(got));
        return WorkerAnswer();
      });
  ASSERT_TRUE(done.ok());
  if (status.empty()) GTEST_SKIP() << "this kernel does not list children";
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("CapPrm:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("CapBnd:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, HasSubstr("Seccomp:\t2"));
}

TEST(WorkerTest, ACrashIsASentence) {
  struct rlimit none {};
  setrlimit(RLIMIT_CORE, &none);
  const Asked crashed = RunWorker(Order(), []() -> Asked {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return "";
  });
  EXPECT_THAT(std::string(crashed.status().message()),
              HasSubstr("the process that reads what a test made"));
  EXPECT_EQ(ExitCodeOf(crashed.status()), ExitCode::kBug);
}

// As the kernel does for want of memory.
TEST(WorkerTest, OneThatIsKilledIsNoMistakeOfOurs) {
  const Asked killed = RunWorker(Order(), []() -> Asked {
    syscall(SYS_tgkill, getpid(), gettid(), SIGKILL);
    return "";
  });
  EXPECT_EQ(ExitCodeOf(killed.status()), ExitCode::kHostUnfit);
}

TEST(WorkerTest, ItsProcessorTimeIsItsParentsToCount) {
  const int64_t before_ns = WorkerCpuNs();
  const Asked done = RunWorker(Order(), []() -> Asked {
    constexpr int64_t kSpentNs = 200'000'000;
    const int64_t begin_ns = ThreadCpuNs();
    while (ThreadCpuNs() < begin_ns + kSpentNs) {
    }
    return "";
  });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_GT(WorkerCpuNs() - before_ns, 150'000'000);
}

TEST(WorkerTest, OneThatComputesForTooLongIsToldFromOneWithoutMemory) {
  WorkerOrder order = Order();
  order.longest_s = 1;
  const Asked stopped = RunWorker(order, []() -> Asked {
    for (volatile bool goes_on = true; goes_on;) {
    }
    return "";
  });
  EXPECT_EQ(ExitCodeOf(stopped.status()), ExitCode::kHostUnfit);
  EXPECT_THAT(std::string(stopped.status().message()),
              HasSubstr("was stopped after 1 s of processor time"));
}

TEST(WorkerTest, OneThatIsStoppedOrLateIsEnded) {
  std::atomic<bool> stop = false;
  WorkerOrder order = Order();
  order.stop = &stop;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = true;
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto sleep = []() -> Asked {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return "";
  };
  EXPECT_EQ(ExitCodeOf(RunWorker(order, sleep).status()), ExitCode::kNoTarget);
  later.join();
  order.stop = nullptr;
  order.longest_s = 0;
  EXPECT_THAT(std::string(RunWorker(order, sleep).status().message()), HasSubstr("in time"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// As one would do that somebody else has taken over.
TEST(WorkerTest, OneThatTalksNonsenseHoldsNobodyUp) {
  const int before = open("/dev/null", O_RDONLY);
  close(before);
  for (const size_t bytes : {size_t{1}, size_t{16}, size_t{4096}}) {
    const Asked said = RunWorker(Order(), [&]() -> Asked {
      const std::string nonsense(bytes, '\xff');
      for (int fd = 3; fd < 64; ++fd) {
        if (send(fd, nonsense.data(), nonsense.size(), MSG_NOSIGNAL) > 0) break;
      }
      _exit(0);
    });
    EXPECT_FALSE(said.ok());
  }
  const int after = open("/dev/null", O_RDONLY);
  EXPECT_EQ(after, before);  // no descriptor is left open
  close(after);
}

}  // namespace
}  // namespace proftrace
