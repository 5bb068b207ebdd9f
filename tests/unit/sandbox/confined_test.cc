#include "userspace/sandbox/confined.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "userspace/base/exit_status.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

class ConfinedTest : public ::testing::Test {
 protected:
  ConfinedTest() {
    std::string name = ::testing::TempDir() + "/confined-XXXXXX";
    directory_ = mkdtemp(name.data());
    mkdir((directory_ + "/in").c_str(), 0700);
    mkdir((directory_ + "/out").c_str(), 0700);
    for (const char* file : {"/in/read", "/out/old", "/secret"}) {
      std::ofstream(directory_ + file) << "text";
    }
    confinement_.reach.reads = {At("in"), At("nowhere")};
    confinement_.reach.writes = {At("out")};
    confinement_.makes_files = true;
    confinement_.what = "reads the recording";
    confinement_.advice = "It is as it was.";
  }
  ~ConfinedTest() override { (void)!std::system(("rm -rf " + directory_).c_str()); }

  std::string At(const std::string& name) const { return directory_ + "/" + name; }

  // What a confined process says; an empty text: nothing was wrong.
  std::string Try(const std::function<std::string()>& work) const {
    const absl::Status status = RunConfined(confinement_, [&] {
      const std::string wrong = work();
      return wrong.empty() ? absl::OkStatus() : Fail(ExitCode::kUsage, wrong);
    });
    return std::string(status.message());
  }

  std::string directory_;
  Confinement confinement_;
};

// What only Landlock forbids.
const bool kHasLandlock = LandlockVersion() > 0;

bool Opens(const std::string& path, int flags) {
  return UniqueFd(open(path.c_str(), flags | O_CLOEXEC, 0600)).valid();
}

TEST_F(ConfinedTest, GivesBackWhatTheWorkSays) {
  EXPECT_TRUE(RunConfined(confinement_, [] { return absl::OkStatus(); }).ok());
  const absl::Status told = RunConfined(
      confinement_, [] { return Told(Fail(ExitCode::kEventsLost, std::string(9999, 'x'))); });
  EXPECT_EQ(ExitCodeOf(told), ExitCode::kEventsLost);
  EXPECT_TRUE(WasTold(told));
  EXPECT_EQ(told.message().size(), 9999u);
  const absl::Status failed =
      RunConfined(confinement_, [] { return Fail(ExitCode::kOutputFailed, "no room"); });
  EXPECT_EQ(ExitCodeOf(failed), ExitCode::kOutputFailed);
  EXPECT_FALSE(WasTold(failed));
}

TEST_F(ConfinedTest, ReadsAndWritesWhereItMay) {
  EXPECT_EQ(Try([this]() -> std::string {
              if (!Opens(At("in/read"), O_RDONLY)) return "read";
              if (!Opens(At("out/new"), O_WRONLY | O_CREAT | O_EXCL)) return "create";
              if (rename(At("out/new").c_str(), At("out/old").c_str()) != 0) return "rename";
              if (mkdir(At("out/more").c_str(), 0700) != 0) return "mkdir";
              const UniqueFd file(open(At("out").c_str(), O_TMPFILE | O_RDWR, 0600));
              if (!file.valid() || write(file.get(), "x", 1) != 1) return "nameless";
              const std::string link = "/proc/self/fd/" + std::to_string(file.get());
              if (linkat(AT_FDCWD, link.c_str(), AT_FDCWD, At("out/linked").c_str(),
                         AT_SYMLINK_FOLLOW) != 0) {
                return "linkat";
              }
              if (unlink(At("out/linked").c_str()) != 0) return "unlink";
              int ran = 0;
              std::thread([&ran] { ran = 1; }).join();
              return ran == 1 ? "" : "thread";
            }),
            "");
}

TEST_F(ConfinedTest, ReachesNothingElse) {
  symlink(At("secret").c_str(), At("out/link").c_str());
  EXPECT_EQ(Try([this]() -> std::string {
              if (chmod(At("secret").c_str(), 0666) == 0) return "chmod";
              if (chown(At("secret").c_str(), 1, 1) == 0) return "chown";
              if (symlink("/", At("out/root").c_str()) == 0) return "symlink";
              if (!kHasLandlock) return "";
              if (Opens(At("secret"), O_RDONLY)) return "read";
              if (Opens(At("secret"), O_WRONLY)) return "write";
              if (Opens(At("out/link"), O_RDONLY)) return "through a link";
              if (Opens(At("in/read"), O_WRONLY)) return "write what is read";
              if (Opens(At("in/new"), O_WRONLY | O_CREAT)) return "create";
              if (Opens("/proc/self/mem", O_RDWR)) return "its own memory";
              if (rename(At("in/read").c_str(), At("out/taken").c_str()) == 0) return "rename";
              return unlink(At("secret").c_str()) == 0 ? "unlink" : "";
            }),
            "");
  EXPECT_EQ(access(At("secret").c_str(), F_OK), 0);
}

TEST_F(ConfinedTest, HasNoPowerOverOthers) {
  const pid_t other = fork();
  if (other == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EQ(Try([other]() -> std::string {
              if (kill(other, SIGKILL) == 0) return "kill";
              if (ptrace(PTRACE_ATTACH, other, nullptr, nullptr) == 0) return "ptrace";
              if (kHasLandlock && Opens("/proc/" + std::to_string(other) + "/mem", O_RDONLY)) {
                return "mem";
              }
              if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0) return "socket";
              if (fork() >= 0) return "fork";
              if (unshare(CLONE_NEWUSER) == 0) return "unshare";
              char* const arguments[] = {nullptr};
              execve("/bin/true", arguments, arguments);
              if (errno != ENOSYS && errno != EPERM && errno != EACCES) return "execve";
              if (mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
                  MAP_FAILED) {
                return "code";
              }
              struct rlimit core {};
              getrlimit(RLIMIT_CORE, &core);
              if (core.rlim_max != 0) return "core";
              return setuid(0) == 0 && setgid(0) == 0 ? "setuid" : "";
            }),
            "");
  EXPECT_EQ(kill(other, SIGKILL), 0);
  waitpid(other, nullptr, 0);
}

TEST_F(ConfinedTest, WritesOnlyNamelessFilesWhereItMakesNone) {
  confinement_.makes_files = false;
  EXPECT_EQ(Try([this]() -> std::string {
              if (Opens(At("out/old"), O_WRONLY)) return "write";
              if (Opens(At("out/new"), O_WRONLY | O_CREAT)) return "create";
              if (Opens(At("out/old"), O_RDONLY | O_TRUNC)) return "truncate";
              if (rename(At("out/old").c_str(), At("out/new").c_str()) == 0) return "rename";
              if (unlink(At("out/old").c_str()) == 0) return "unlink";
              if (!Opens(At("in/read"), O_RDONLY)) return "read";
              return Opens(At("out"), O_TMPFILE | O_RDWR) ? "" : "nameless";
            }),
            "");
}

TEST_F(ConfinedTest, AnEarlyEndIsASentence) {
  const auto end_of = [this](const std::function<absl::Status()>& work) {
    return RunConfined(confinement_, work);
  };
  const absl::Status crashed = end_of([] {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return absl::OkStatus();
  });
  EXPECT_EQ(ExitCodeOf(crashed), ExitCode::kBug);
  EXPECT_THAT(std::string(crashed.message()), HasSubstr("the process that reads the recording"));
  EXPECT_THAT(std::string(crashed.message()), HasSubstr("It is as it was."));
  const absl::Status killed = end_of([] {
    raise(SIGKILL);
    return absl::OkStatus();
  });
  EXPECT_EQ(ExitCodeOf(killed), ExitCode::kHostUnfit);
  const absl::Status thrown = end_of([]() -> absl::Status { throw std::runtime_error("odd"); });
  EXPECT_EQ(ExitCodeOf(thrown), ExitCode::kBug);
  EXPECT_THAT(std::string(thrown.message()), HasSubstr("odd"));
  const absl::Status left = end_of([]() -> absl::Status { _exit(6); });
  EXPECT_EQ(ExitCodeOf(left), ExitCode::kHostUnfit);
  EXPECT_TRUE(WasTold(left));
}

TEST_F(ConfinedTest, AClosedPipeEndsAllOfIt) {
  EXPECT_EXIT(
      {
        (void)RunConfined(confinement_, []() -> absl::Status {
          std::signal(SIGPIPE, SIG_DFL);
          raise(SIGPIPE);
          return absl::OkStatus();
        });
      },
      ::testing::KilledBySignal(SIGPIPE), "");
}

TEST_F(ConfinedTest, WhatShowsMaySetATerminalAndNotTypeIntoIt) {
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal.valid());
  const auto look = [&]() -> std::string {
    termios modes{};
    if (tcgetattr(terminal.get(), &modes) != 0) return "no modes";
    modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (tcsetattr(terminal.get(), TCSADRAIN, &modes) != 0) return "not set";
    if (ioctl(terminal.get(), TIOCSTI, "x") == 0) return "typed";
    if (setpriority(PRIO_PROCESS, 0, 5) != 0) return "as urgent";
    if (setpriority(PRIO_USER, 0, 6) == 0) return "all of the user's processes less urgent";
    if (setpriority(PRIO_PGRP, 0, 6) == 0) return "all of the group's processes less urgent";
    if (setpriority(PRIO_PROCESS, 0, 0) == 0) return "more urgent";
    return fork() >= 0 ? "forked" : "";
  };
  EXPECT_THAT(Try(look), HasSubstr("not set"));
  confinement_.is_viewer = true;
  EXPECT_EQ(Try(look), "");
}

TEST_F(ConfinedTest, AChildWorksWhileThisProcessGoesOn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  absl::StatusOr<ConfinedChild> child = ConfinedChild::Start(confinement_, [&] {
    char byte = 0;
    writes = UniqueFd();
    return read(reads.get(), &byte, 1) == 1 && byte == 'x' ? absl::OkStatus()
                                                           : Fail(ExitCode::kUsage, "nothing came");
  });
  ASSERT_TRUE(child.ok());
  ASSERT_EQ(write(writes.get(), "x", 1), 1);
  EXPECT_TRUE(child->Wait().ok());
  absl::StatusOr<ConfinedChild> killed = ConfinedChild::Start(confinement_, [&] {
    char byte = 0;
    (void)!read(reads.get(), &byte, 1);
    return absl::OkStatus();
  });
  ASSERT_TRUE(killed.ok());
  kill(killed->pid(), SIGKILL);
  EXPECT_EQ(ExitCodeOf(killed->Wait()), ExitCode::kHostUnfit);
}

}  // namespace
}  // namespace proftrace
